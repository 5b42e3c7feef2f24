//! `toolway status`: how each server is, at this moment.

use serde_json::{Value, json};
use toolway_host::connection::Lists;
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    gathering::{self, Gathering, Seen},
    output::{Format, Output},
    report::Report,
    server_view, wiring,
};

/// Say how each server is: connects, reports, leaves
///
/// All servers are connected side by side; one that takes longer than ten seconds, or than --timeout, is reported as
/// it is then. The exit code is 0 whatever their states are; `doctor` says what to do about them. With --verbose the
/// end of what each program said on standard error is shown too.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    /// The servers; all where none is given
    servers: Vec<String>,
}

/// Lines of standard error that --verbose shows.
const TAIL: usize = 10;

const EXAMPLES: &str = "\
Examples:
  toolway status
  toolway status files --verbose
  toolway status -o json | jq '.servers[] | select(.state != \"ready\") | .name'";

pub(crate) async fn run(args: &StatusArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let targets = app.targets(&args.servers, output)?;
    let gathering = app.gather(targets, Lists::Once, gathering::PATIENCE, output).await?;
    show(&gathering, app, output);
    wiring::leave(&gathering.host).await;
    Ok(ExitCode::Ok)
}

fn show(gathering: &Gathering, app: &App, output: &mut Output) {
    let seen = &gathering.seen;
    let objects = || seen.iter().map(|seen| Value::Object(server_view::object(seen)));
    match output.format {
        Format::Json => output.json(&Raw::of(&json!({ "servers": objects().collect::<Vec<_>>() }))),
        Format::Ndjson => objects().for_each(|object| output.json(&Raw::of(&object))),
        Format::Raw => {
            let line = |seen: &Seen| format!("{}\t{}\n", seen.status.server, server_view::state(seen));
            seen.iter().for_each(|seen| output.content(line(seen).as_bytes()));
        }
        Format::Human => table(seen, app, output),
    }
}

fn table(seen: &[Seen], app: &App, output: &mut Output) {
    let names = seen.iter().map(|seen| seen.status.server.as_str().len()).max().unwrap_or_default();
    let states = seen.iter().map(|seen| server_view::state(seen).len()).max().unwrap_or_default();
    for seen in seen {
        let (name, state) = (seen.status.server.as_str(), server_view::state(seen));
        output.entry(&format!("{name:<names$}"), &format!("  {state:<states$}  {}", remark(seen)));
        if app.show.verbose {
            server_view::tail(seen, TAIL).iter().for_each(|line| output.line(&format!("    {line}")));
        }
    }
}

/// What it has where it is well, and why not where it is not.
fn remark(seen: &Seen) -> String {
    if let Some(problem) = seen.problem() {
        return problem;
    }
    let revision = seen.status.profile.as_ref().map(|profile| profile.revision.to_string());
    let time = seen.connected.map(|time| format!("connected in {:.0} ms", time.as_secs_f64() * 1_000.0));
    let parts = [server_view::counted(seen), revision, time].into_iter().flatten();
    parts.collect::<Vec<_>>().join("; ")
}
