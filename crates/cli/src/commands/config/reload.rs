//! `toolway config reload`: a gateway that runs takes on what the files say now.

use serde_json::Value;
use toolway_gateway::control::Order;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Let the gateway that runs read the configuration again
///
/// What happened to each server is shown: what is new is started, what is gone is closed, what has changed is adjusted or
/// connected anew, and the rest goes on as it is. A configuration that `config check` finds fault with changes nothing.
/// What stands under `gateway` holds from its next start on.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReloadArgs {}

const EXAMPLES: &str = "\
Examples:
  toolway servers add files --stdio 'npx -y @modelcontextprotocol/server-filesystem /tmp' && toolway config reload";

pub(super) async fn run(ReloadArgs {}: &ReloadArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let answer = app.tell_gateway(&Order::Reload {}).await?;
    let servers: Vec<Value> = answer.value["servers"].as_array().cloned().unwrap_or_default();
    let text = |server: &Value, key: &str| server[key].as_str().unwrap_or_default().to_owned();
    match output.format {
        Format::Json => super::print(&answer.value, output),
        Format::Ndjson => servers.iter().for_each(|server| super::print(server, output)),
        Format::Raw | Format::Human => {
            for server in &servers {
                output.line(&format!("{}: {}", text(server, "name"), text(server, "happened")));
            }
        }
    }
    Ok(ExitCode::Ok)
}
