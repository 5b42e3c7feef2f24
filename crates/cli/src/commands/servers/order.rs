//! `toolway servers connect | disconnect | restart | refresh`: controls a server of the running gateway.

use serde_json::Value;
use toolway_gateway::control::ControlRequest;

use crate::{app::App, commands::status, exit_code::ExitCode, output::Output, report::Report};

/// Connect a server of the running gateway
///
/// Prints its state when the connection succeeded or failed. A connected server stays connected.
#[derive(Debug, clap::Args)]
pub(crate) struct ConnectArgs {
    /// The server
    server: String,
}

/// Disconnect a server of the running gateway, until it is connected again
///
/// Removes its tools for all clients. Does not change the configuration; use `servers disable` for that.
#[derive(Debug, clap::Args)]
pub(crate) struct DisconnectArgs {
    /// The server
    server: String,
}

/// Reconnect a server of the running gateway
#[derive(Debug, clap::Args)]
pub(crate) struct RestartArgs {
    /// The server
    server: String,
}

/// Make the running gateway list a server's items again
#[derive(Debug, clap::Args)]
pub(crate) struct RefreshArgs {
    /// The server
    server: String,
}

impl From<&ConnectArgs> for ControlRequest {
    fn from(args: &ConnectArgs) -> Self {
        Self::Connect { server: args.server.clone() }
    }
}

impl From<&DisconnectArgs> for ControlRequest {
    fn from(args: &DisconnectArgs) -> Self {
        Self::Disconnect { server: args.server.clone() }
    }
}

impl From<&RestartArgs> for ControlRequest {
    fn from(args: &RestartArgs) -> Self {
        Self::Restart { server: args.server.clone() }
    }
}

impl From<&RefreshArgs> for ControlRequest {
    fn from(args: &RefreshArgs) -> Self {
        Self::Refresh { server: args.server.clone() }
    }
}

/// Sends the order and prints the state of the server. Fails if the server does not reach the expected state.
pub(super) async fn run(order: ControlRequest, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let answer = app.require_gateway(&order).await?;
    let servers: Vec<Value> = answer.value["servers"].as_array().cloned().unwrap_or_default();
    status::show_views(&servers, &[], app, output);
    let wanted = if matches!(order, ControlRequest::Disconnect { .. }) { "stopped" } else { "ready" };
    match servers.iter().find(|server| server["state"] != wanted) {
        None => Ok(ExitCode::Ok),
        Some(server) => {
            let (name, state) =
                (server["name"].as_str().unwrap_or_default(), server["state"].as_str().unwrap_or_default());
            let reason = server["reason"].as_str().unwrap_or(state);
            Err(Report::new(ExitCode::Unreachable, "unreachable", format!("server `{name}` is not {wanted}: {reason}")))
        }
    }
}
