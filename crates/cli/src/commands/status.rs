//! `toolway status`: how each server is, at this moment.

use serde_json::Value;
use toolway_gateway::control::Order;
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
/// Where a gateway runs for this configuration, it is asked how they are there. Else all servers are connected side by side; one that is still connecting a moment after the others, or after --timeout,
/// is reported so. What stands in the files and is not used is shown too, with the reason. The exit code is 0 whatever the
/// states are; `doctor` says what to do about them. With --verbose the connections that a gateway keeps for each client and
/// the end of what each program said on standard error are shown too.
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
    let order = Order::Status { servers: args.servers.clone() };
    if let Some(answer) = app.ask_gateway(&order).await? {
        let servers: Vec<Value> = answer.value["servers"].as_array().cloned().unwrap_or_default();
        output.say(&format!("toolway: as the gateway has them that runs (process {})", answer.process));
        show_views(&servers, &unused_beside(app, &args.servers)?, app, output);
        return Ok(ExitCode::Ok);
    }
    let (targets, unused) = app.looked_at(&args.servers, output)?;
    let gathering = app.gather(targets, Lists::Once, Patience::Short, output).await?;
    show(&gathering, &unused, app, output);
    wiring::leave(&gathering.host).await;
    Ok(ExitCode::Ok)
}

/// One line of the table.
struct Row {
    name: String,
    state: String,
    remark: String,
    /// The connections that a gateway keeps for clients, and what its program said last on standard error.
    tail: Vec<String>,
}

fn show(gathering: &Gathering, unused: &[Unused], app: &App, output: &mut Output) {
    let seen = &gathering.seen;
    let objects = seen.iter().map(|seen| Value::Object(server_view::object(seen)));
    match output.format {
        Format::Json | Format::Ndjson => server_view::print(objects.collect(), unused, output),
        Format::Raw => {
            let line = |row: &Row| format!("{}\t{}\n", row.name, row.state);
            rows(seen, unused).iter().for_each(|row| output.content(line(row).as_bytes()));
        }
        Format::Human => table(&rows(seen, unused), app, output),
    }
}

fn rows(seen: &[Seen], unused: &[Unused]) -> Vec<Row> {
    let asked = seen.iter().map(|seen| Row {
        name: seen.status.server.to_string(),
        state: server_view::state(seen).to_owned(),
        remark: remark(seen),
        tail: server_view::tail(seen, TAIL).to_vec(),
    });
    asked.chain(unused.iter().map(Row::unused)).collect()
}

/// The servers of a gateway, as it sees them.
pub(crate) fn show_views(servers: &[Value], unused: &[Unused], app: &App, output: &mut Output) {
    match output.format {
        Format::Json | Format::Ndjson => server_view::print(servers.to_vec(), unused, output),
        Format::Raw | Format::Human => {
            let rows: Vec<Row> = servers.iter().map(Row::of_view).chain(unused.iter().map(Row::unused)).collect();
            if output.format == Format::Human {
                return table(&rows, app, output);
            }
            rows.iter().for_each(|row| output.content(format!("{}\t{}\n", row.name, row.state).as_bytes()));
        }
    }
}

/// What stands in the files and is not used, where all are looked at.
fn unused_beside(app: &App, servers: &[String]) -> Result<Vec<Unused>, Report> {
    if !servers.is_empty() {
        return Ok(Vec::new());
    }
    let loaded = app.load()?;
    Ok(Unused::waiting(&loaded).into_iter().chain(Unused::set_aside(&loaded)).collect())
}

impl Row {
    fn unused(unused: &Unused) -> Self {
        let remark = format!("{}: {}", unused.place(), unused.reason);
        Self { name: unused.title(), state: unused.state().to_owned(), remark, tail: Vec::new() }
    }

    fn of_view(view: &Value) -> Self {
        let text = |key: &str| view[key].as_str().unwrap_or_default().to_owned();
        let tail: Vec<String> = serde_json::from_value(view["stderr"].clone()).unwrap_or_default();
        let connections: Vec<String> = view["connections"].as_array().into_iter().flatten().map(connection).collect();
        let kept = match connections.len() {
            0 => None,
            1 => Some("1 connection of a client".to_owned()),
            many => Some(format!("{many} connections of clients")),
        };
        let tail = connections.into_iter().chain(tail[tail.len().saturating_sub(TAIL)..].iter().cloned()).collect();
        let remark = match view["reason"].as_str() {
            Some(reason) => reason.to_owned(),
            None => {
                let tools = view["tools"].as_u64().map(|tools| format!("{tools} tools"));
                let revision = view["protocolVersion"].as_str().map(str::to_owned);
                [tools, revision, kept].into_iter().flatten().collect::<Vec<_>>().join("; ")
            }
        };
        Self { name: text("name"), state: text("state"), remark, tail }
    }
}

/// A connection that a gateway keeps for a client, in words.
fn connection(view: &Value) -> String {
    let number = |key: &str| view[key].as_u64().unwrap_or_default();
    let caller = view["caller"].as_str().unwrap_or_default();
    let process = view["process"].as_u64().map(|process| format!(", process {process}")).unwrap_or_default();
    format!("{caller}: {} calls under way, {} of them wait for answers{process}", number("calls"), number("waiting"))
}

fn table(rows: &[Row], app: &App, output: &mut Output) {
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
