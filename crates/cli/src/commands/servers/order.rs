//! `toolway servers connect | disconnect | restart | refresh`: what a gateway that runs is told about a server.

use serde_json::Value;
use toolway_gateway::control::Order;

use crate::{app::App, commands::status, exit_code::ExitCode, output::Output, report::Report};

/// Connect a server of the gateway that runs
///
/// Its state is shown when that has come to an end. One that is connected stays so.
#[derive(Debug, clap::Args)]
pub(crate) struct ConnectArgs {
    /// The server
    server: String,
}

/// Disconnect a server of the gateway that runs, until it is connected again
///
/// Its tools are gone for everybody; what is configured does not change (`servers disable` does that).
#[derive(Debug, clap::Args)]
pub(crate) struct DisconnectArgs {
    /// The server
    server: String,
}

/// End the connection of a server of the gateway that runs, and begin another
#[derive(Debug, clap::Args)]
pub(crate) struct RestartArgs {
    /// The server
    server: String,
}

/// Let the gateway that runs ask a server again for everything it lists
#[derive(Debug, clap::Args)]
pub(crate) struct RefreshArgs {
    /// The server
    server: String,
}

impl From<&ConnectArgs> for Order {
    fn from(args: &ConnectArgs) -> Self {
        Self::Connect { server: args.server.clone() }
    }
}

impl From<&DisconnectArgs> for Order {
    fn from(args: &DisconnectArgs) -> Self {
        Self::Disconnect { server: args.server.clone() }
    }
}

impl From<&RestartArgs> for Order {
    fn from(args: &RestartArgs) -> Self {
        Self::Restart { server: args.server.clone() }
    }
}

impl From<&RefreshArgs> for Order {
    fn from(args: &RefreshArgs) -> Self {
        Self::Refresh { server: args.server.clone() }
    }
}

/// Gives the order, and shows how the server is then. One that could not be connected fails the command.
pub(super) async fn run(order: Order, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let answer = app.tell_gateway(&order).await?;
    let servers: Vec<Value> = answer.value["servers"].as_array().cloned().unwrap_or_default();
    status::show_views(&servers, &[], app, output);
    let wanted = if matches!(order, Order::Disconnect { .. }) { "stopped" } else { "ready" };
    match servers.iter().find(|server| server["state"] != wanted) {
        None => Ok(ExitCode::Ok),
        Some(server) => {
            let (name, state) =
                (server["name"].as_str().unwrap_or_default(), server["state"].as_str().unwrap_or_default());
            let reason = server["reason"].as_str().unwrap_or(state);
            Err(Report::new(ExitCode::Unreachable, "unreachable", format!("`{name}` is not {wanted}: {reason}.")))
        }
    }
}
