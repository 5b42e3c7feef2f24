//! `toolway config reload`: makes the running gateway read the configuration again.

use serde_json::Value;
use toolway_gateway::control::ControlRequest;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Make the running gateway read the configuration again
///
/// Starts new servers, closes removed ones, adjusts or reconnects changed ones, and prints what happened to each. A
/// configuration with errors (`config check`) changes nothing. Settings under `gateway` take effect at its next start.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReloadArgs {}

const EXAMPLES: &str = "\
Examples:
  toolway servers add files --stdio 'npx -y @modelcontextprotocol/server-filesystem /tmp' && toolway config reload";

pub(super) async fn run(ReloadArgs {}: &ReloadArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let answer = app.require_gateway(&ControlRequest::Reload {}).await?;
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
