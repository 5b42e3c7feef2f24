//! `toolway servers logs`: the standard error output of a stdio server.

use serde_json::{Value, json};
use toolway_gateway::control::ControlRequest;
use toolway_host::connection::Lists;
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    lifecycle,
    multi_server_host::{LONGEST, WaitPolicy},
    output::{Format, Output},
    report::Report,
};

/// Show the standard error output of a stdio server
///
/// Asks the running gateway; without one, starts the server, lists its items, and prints the last lines of its standard
/// error. Output is not stored between commands. Secrets of its entry are masked.
#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// The server
    server: String,

    /// Show only the last lines
    #[arg(long, short = 'n', value_name = "LINES", default_value_t = usize::MAX, hide_default_value = true)]
    lines: usize,
}

pub(crate) async fn run(args: &LogsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let order = ControlRequest::Logs { server: args.server.clone(), lines: args.lines };
    if let Some(answer) = app.ask_gateway(&order).await? {
        let lines: Vec<String> = serde_json::from_value(answer.value["lines"].clone()).unwrap_or_default();
        print(&answer.value["server"], &lines, output);
        return Ok(ExitCode::Ok);
    }
    let targets = app.targets(std::slice::from_ref(&args.server), output)?;
    let hosts = app.connect_all(targets, Lists::Once, WaitPolicy::Fixed(LONGEST), output).await?;
    for outcome in &hosts.outcomes {
        let lines = &outcome.status.stderr;
        let lines = &lines[lines.len().saturating_sub(args.lines)..];
        print(&json!(outcome.status.server.as_str()), lines, output);
        if let Some(problem) = outcome.problem() {
            output.notice(&format!("toolway: {}: {problem}", outcome.status.server));
        }
    }
    lifecycle::disconnect(&hosts.host).await;
    Ok(ExitCode::Ok)
}

fn print(server: &Value, lines: &[String], output: &mut Output) {
    match output.format {
        Format::Json => output.json(&Raw::of(&json!({ "server": server, "lines": lines }))),
        Format::Ndjson => lines.iter().for_each(|line| output.json(&Raw::of(&json!({ "line": line })))),
        Format::Raw => lines.iter().for_each(|line| output.content(format!("{line}\n").as_bytes())),
        Format::Human => lines.iter().for_each(|line| output.line(line)),
    }
}
