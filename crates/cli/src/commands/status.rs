//! `toolway status`: how each server is, at this moment.

use serde_json::Value;
use toolway_host::connection::Lists;

use crate::{
    app::App,
    exit_code::ExitCode,
    gathering::{Gathering, Patience, Seen},
    output::{Format, Output},
    report::Report,
    server_view,
    unused::Unused,
    wiring,
};

/// Say how each server is: connects, reports, leaves
///
/// All servers are connected side by side; one that is still connecting a moment after the others, or after --timeout,
/// is reported so. What stands in the files and is not used is shown too, with the reason. The exit code is 0 whatever the
/// states are; `doctor` says what to do about them. With --verbose the
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
    let (targets, unused) = app.looked_at(&args.servers, output)?;
    let gathering = app.gather(targets, Lists::Once, Patience::Short, output).await?;
    show(&gathering, &unused, app, output);
    wiring::leave(&gathering.host).await;
    Ok(ExitCode::Ok)
}

/// One line of the table.
struct Row<'a> {
    name: String,
    state: &'static str,
    remark: String,
    /// What its program said last on standard error.
    tail: &'a [String],
}

fn show(gathering: &Gathering, unused: &[Unused], app: &App, output: &mut Output) {
    let seen = &gathering.seen;
    let objects = seen.iter().map(|seen| Value::Object(server_view::object(seen)));
    match output.format {
        Format::Json | Format::Ndjson => server_view::print(objects.collect(), unused, output),
        Format::Raw => {
            let line = |row: &Row<'_>| format!("{}\t{}\n", row.name, row.state);
            rows(seen, unused).iter().for_each(|row| output.content(line(row).as_bytes()));
        }
        Format::Human => table(&rows(seen, unused), app, output),
    }
}

fn rows<'a>(seen: &'a [Seen], unused: &[Unused]) -> Vec<Row<'a>> {
    let asked = seen.iter().map(|seen| Row {
        name: seen.status.server.to_string(),
        state: server_view::state(seen),
        remark: remark(seen),
        tail: server_view::tail(seen, TAIL),
    });
    let unused = unused.iter().map(|unused| Row {
        name: unused.title(),
        state: unused.state(),
        remark: format!("{}: {}", unused.place(), unused.reason),
        tail: &[],
    });
    asked.chain(unused).collect()
}

fn table(rows: &[Row<'_>], app: &App, output: &mut Output) {
    let names = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or_default();
    let states = rows.iter().map(|row| row.state.len()).max().unwrap_or_default();
    for Row { name, state, remark, tail } in rows {
        output.entry(&format!("{name:<names$}"), &format!("  {state:<states$}  {remark}"));
        if app.show.verbose {
            tail.iter().for_each(|line| output.line(&format!("    {line}")));
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
