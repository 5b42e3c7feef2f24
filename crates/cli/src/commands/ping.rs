//! `toolway ping`: whether a server is there, what it calls itself, which revision it speaks.

use std::time::Instant;

use serde_json::json;
use toolway_host::keeper::Custody;
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
    app.visit(target, async |session| {
        let connected = began.elapsed().as_secs_f64() * 1_000.0;
        let asked = Instant::now();
        app.stop.or(session.peer.ping()).await?.map_err(|error| session.judged(Report::of_wire(&error)))?;
        let answered = asked.elapsed().as_secs_f64() * 1_000.0;

        let profile = session.peer.profile();
        let (name, revision) = (profile.name().unwrap_or_default(), profile.revision);
        match output.format {
            Format::Human => {
                output.line(&format!(
                    "{name} speaks {revision} ({}); connected in {connected:.1} ms, answered in {answered:.1} ms",
                    revision.era()
                ));
                if let Some(custody) = session.custody() {
                    output.line(&in_words(&custody));
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
                match session.custody() {
                    Some(Custody::Kept) => said["custody"] = json!("kept"),
                    Some(Custody::Weaker { why }) => {
                        (said["custody"], said["custodyReason"]) = (json!("weaker"), json!(why));
                    }
                    None => {}
                }
                output.json(&Raw::of(&said));
            }
        }
        Ok(ExitCode::Ok)
    })
    .await
}

/// How well a program is kept, as people read it.
pub(super) fn in_words(custody: &Custody) -> String {
    match custody {
        Custody::Kept => "Nothing it starts outlives this command.".to_owned(),
        Custody::Weaker { why } => format!("What it starts may outlive this command: {why}."),
    }
}
