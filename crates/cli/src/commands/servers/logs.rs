//! `toolway servers logs`: what a server's program says on standard error.

use serde_json::{Value, json};
use toolway_gateway::control::Order;
use toolway_host::connection::Lists;
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    gathering::{LONGEST, Patience},
    output::{Format, Output},
    report::Report,
    server_view, wiring,
};

/// Start a server and show what its program says on standard error
///
/// It is started, shakes hands, says what it has, and is left again; what it said meanwhile goes to standard output, the
/// last lines of it where there are many. Nothing keeps it between two commands. Secrets of its entry are hidden.
#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// The server
    server: String,

    /// Show at most this many lines, the last ones
    #[arg(long, short = 'n', value_name = "LINES", default_value_t = usize::MAX, hide_default_value = true)]
    lines: usize,
}

pub(crate) async fn run(args: &LogsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let order = Order::Logs { server: args.server.clone(), lines: args.lines };
    if let Some(answer) = app.ask_gateway(&order).await? {
        let lines: Vec<String> = serde_json::from_value(answer.value["lines"].clone()).unwrap_or_default();
        print(&answer.value["server"], &lines, output);
        return Ok(ExitCode::Ok);
    }
    let targets = app.targets(std::slice::from_ref(&args.server), output)?;
    let gathering = app.gather(targets, Lists::Once, Patience::Whole(LONGEST), output).await?;
    for seen in &gathering.seen {
        let lines = server_view::tail(seen, args.lines);
        print(&json!(seen.status.server.as_str()), lines, output);
        if let Some(problem) = seen.problem() {
            output.say(&format!("toolway: {}: {problem}", seen.status.server));
        }
    }
    wiring::leave(&gathering.host).await;
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
