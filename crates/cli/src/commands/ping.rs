//! `toolway ping`: checks a connection.

use std::time::Instant;

use serde_json::json;
use toolway_host::{
    call::Caller,
    connection::{Lists, ServerStatus},
    keeper::CleanupGuarantee,
};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Ping a server and show its protocol revision
///
/// For a stdio server, also shows whether all its processes are guaranteed to end with this command.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PingArgs {
    /// The server; omit with --stdio or --url
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
        return Err(Report::usage("arguments", "the server is given twice, as option and as argument"));
    }
    let began = Instant::now();
    app.with_server(target, Lists::Ignored, output, async |single, output| {
        let connected = began.elapsed().as_secs_f64() * 1_000.0;
        let gone = |_| Report::from_code("ended", "the server was removed");
        let status = single.host.status(single.name()).map_err(gone)?;
        let asked = Instant::now();
        let pinged = app.stop.or(single.host.ping(&Caller::Terminal, single.name())).await?;
        pinged.map_err(|outcome| single.report(&outcome, "ping"))?;
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
                "{name}: protocol {revision} ({}), connected in {connected:.1} ms, ping {answered:.1} ms",
                revision.era()
            ));
            if let Some(cleanup) = &status.cleanup {
                output.line(&format!("cleanup: {}", cleanup_text(cleanup)));
            }
        }
        Format::Raw => output.content(format!("{revision}\n").as_bytes()),
        // Our own object, because the protocol's ping result is empty.
        Format::Json | Format::Ndjson => {
            let mut view = json!({
                "name": name,
                "protocolVersion": revision.as_str(),
                "era": revision.era().to_string(),
                "connectMilliseconds": connected,
                "pingMilliseconds": answered,
            });
            match &status.cleanup {
                Some(CleanupGuarantee::Full) => view["cleanup"] = json!("full"),
                Some(CleanupGuarantee::BestEffort { reason }) => {
                    view["cleanup"] = json!("best-effort");
                    view["cleanupReason"] = json!(reason);
                }
                None => {}
            }
            output.json(&Raw::of(&view));
        }
    }
}

/// What happens to the processes of a stdio server when this command ends.
pub(super) fn cleanup_text(cleanup: &CleanupGuarantee) -> String {
    match cleanup {
        CleanupGuarantee::Full => "child processes are ended on exit".to_owned(),
        CleanupGuarantee::BestEffort { reason } => format!("child processes may outlive this command: {reason}"),
    }
}
