//! `toolway ping`: whether a server is there, what it calls itself, which revision it speaks.

use std::time::Instant;

use serde_json::json;
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Ask a server for a sign of life, and say which revision it speaks
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PingArgs {
    /// The server, unless --stdio or --url gives it
    server: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  toolway ping files
  toolway ping --url https://example.com/mcp --timeout 5 -o json";

pub(crate) async fn run(args: &PingArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let mut words: Vec<String> = args.server.iter().cloned().collect();
    let target = app.target(&mut words, output)?;
    if !words.is_empty() {
        return Err(Report::usage("arguments", "The server is given twice."));
    }
    let began = Instant::now();
    app.visit(target, async |session| {
        let connected = began.elapsed().as_secs_f64() * 1_000.0;
        let asked = Instant::now();
        app.stop.or(session.peer.ping()).await?.map_err(|error| session.judged(Report::of_wire(&error)))?;
        let answered = asked.elapsed().as_secs_f64() * 1_000.0;

        let profile = session.peer.profile();
        let (name, revision) = (profile.name().unwrap_or_default(), profile.revision);
        match output.format {
            Format::Human => output.line(&format!(
                "{name} speaks {revision} ({}); connected in {connected:.1} ms, answered in {answered:.1} ms",
                revision.era()
            )),
            Format::Raw => output.content(format!("{revision}\n").as_bytes()),
            // Ours: the protocol's own answer to a ping is empty.
            Format::Json | Format::Ndjson => output.json(&Raw::of(&json!({
                "name": name,
                "protocolVersion": revision.as_str(),
                "era": revision.era().to_string(),
                "connectMilliseconds": connected,
                "pingMilliseconds": answered,
            }))),
        }
        Ok(ExitCode::Ok)
    })
    .await
}
