//! `toolway ping`: whether a server is there, what it calls itself, which revision it speaks.

use std::time::Instant;

use serde_json::json;
use toolway_host::{
    call::Caller,
    connection::{Lists, ServerStatus},
    keeper::Custody,
};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Ask a server for a sign of life, and say which revision it speaks
///
/// Of a program it also says how well it is kept: whether everything it starts ends with the command, however that
/// ends.
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
    app.visit(target, Lists::Ignored, output, async |session, output| {
        let connected = began.elapsed().as_secs_f64() * 1_000.0;
        let gone = |_| Report::of_code("ended", "it is no longer there");
        let status = session.host.status(session.name()).map_err(gone)?;
        let asked = Instant::now();
        let pinged = app.stop.or(session.host.ping(&Caller::Terminal, session.name())).await?;
        pinged.map_err(|outcome| session.report(&outcome, "ping"))?;
        show(&status, connected, asked.elapsed().as_secs_f64() * 1_000.0, output);
        Ok(ExitCode::Ok)
    })
    .await
}

fn show(status: &ServerStatus, connected: f64, answered: f64, output: &mut Output) {
    let Some(profile) = &status.profile else { return };
    let name = profile.info.get("name").as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned();
    let revision = profile.revision;
    match output.format {
        Format::Human => {
            output.line(&format!(
                "{name} speaks {revision} ({}); connected in {connected:.1} ms, answered in {answered:.1} ms",
                revision.era()
            ));
            if let Some(custody) = &status.custody {
                output.line(&in_words(custody));
            }
        }
        Format::Raw => output.content(format!("{revision}\n").as_bytes()),
        // Ours: the protocol's own answer to a ping is empty.
        Format::Json | Format::Ndjson => {
            let mut said = json!({
                "name": name,
                "protocolVersion": revision.as_str(),
                "era": revision.era().to_string(),
                "connectMilliseconds": connected,
                "pingMilliseconds": answered,
            });
            match &status.custody {
                Some(Custody::Kept) => said["custody"] = json!("kept"),
                Some(Custody::Weaker { why }) => {
                    (said["custody"], said["custodyReason"]) = (json!("weaker"), json!(why));
                }
                None => {}
            }
            output.json(&Raw::of(&said));
        }
    }
}

/// How well a program is kept, as people read it.
pub(super) fn in_words(custody: &Custody) -> String {
    match custody {
        Custody::Kept => "Nothing it starts outlives this command.".to_owned(),
        Custody::Weaker { why } => format!("What it starts may outlive this command: {why}."),
    }
}
