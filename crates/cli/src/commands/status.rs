//! `toolway status`: the current state of each server.

use serde_json::{Map, Value};
use toolway_gateway::control::ControlRequest;
use toolway_host::connection::{Lists, stderr_tail};

use crate::{
    app::App,
    exit_code::ExitCode,
    lifecycle,
    multi_server_host::{MultiServerHost, ServerOutcome, WaitPolicy},
    output::{Format, Output, state},
    report::Report,
    server_view,
    unused::Unused,
};

/// Connect to each server and report its state
///
/// If a gateway runs for this configuration, reports its view instead. Otherwise connects to all servers in parallel; a server
/// that has not responded shortly after the others, or within --timeout, is reported as connecting. Also shows unused
/// configuration with the reason. The exit code is always 0; use `doctor` to diagnose problems. With --verbose, also
/// shows the gateway's connections per client and the last standard error output of each server.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    /// The servers [default: all configured servers]
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
    let order = ControlRequest::Status { servers: args.servers.clone() };
    if let Some(answer) = app.ask_gateway(&order).await? {
        let servers: Vec<Value> = answer.value["servers"].as_array().cloned().unwrap_or_default();
        output.notice(&format!("toolway: reported by the running gateway (PID {})", answer.process));
        members(&answer.value["cluster"]).iter().for_each(|line| output.notice(line));
        let more = answer.value.get("cluster").map(|cluster| ("cluster".to_owned(), cluster.clone()));
        show_views_with(&servers, &unused_beside(app, &args.servers)?, more.into_iter().collect(), app, output);
        return Ok(ExitCode::Ok);
    }
    let (targets, unused) = app.targets_to_inspect(&args.servers, output)?;
    let hosts = app.connect_all(targets, Lists::Once, WaitPolicy::Status, output).await?;
    show(&hosts, &unused, app, output);
    lifecycle::disconnect(&hosts.host).await;
    Ok(ExitCode::Ok)
}

/// One table row.
struct Row {
    name: String,
    state: String,
    remark: String,
    /// The gateway's connections per client, and the last standard error lines.
    tail: Vec<String>,
}

fn show(hosts: &MultiServerHost, unused: &[Unused], app: &App, output: &mut Output) {
    let outcome = &hosts.outcomes;
    let objects = outcome.iter().map(|outcome| Value::Object(server_view::object(outcome)));
    match output.format {
        Format::Json | Format::Ndjson => server_view::print(objects.collect(), unused, Map::new(), output),
        Format::Raw => {
            let line = |row: &Row| format!("{}\t{}\n", row.name, row.state);
            rows(outcome, unused).iter().for_each(|row| output.content(line(row).as_bytes()));
        }
        Format::Human => table(&rows(outcome, unused), app, output),
    }
}

fn rows(outcome: &[ServerOutcome], unused: &[Unused]) -> Vec<Row> {
    let asked = outcome.iter().map(|outcome| Row {
        name: outcome.status.server.to_string(),
        state: server_view::state(outcome).to_owned(),
        remark: remark(outcome),
        tail: server_view::tail(outcome, TAIL),
    });
    asked.chain(unused.iter().map(Row::unused)).collect()
}

/// One line for each gateway of the cluster of the running one.
fn members(cluster: &Value) -> Vec<String> {
    let line = |member: &Value| {
        let text = |key: &str| member[key].as_str().unwrap_or_default().to_owned();
        let own = if member["self"] == true { ", this one" } else { "" };
        let generation = &member["generation"];
        format!("toolway: gateway at `{}` (generation {generation}): {}{own}", text("address"), text("state"))
    };
    let lines = cluster["members"].as_array().into_iter().flatten().map(line);
    let is_outside = cluster.is_object() && cluster["member"].is_null();
    let outside = is_outside.then(|| "toolway: warning: this gateway has no lease now and refuses calls".to_owned());
    outside.into_iter().chain(lines).collect()
}

/// Prints the servers as the gateway reports them.
pub(crate) fn show_views(servers: &[Value], unused: &[Unused], app: &App, output: &mut Output) {
    show_views_with(servers, unused, Map::new(), app, output);
}

/// The same, with more members of the JSON output.
fn show_views_with(servers: &[Value], unused: &[Unused], more: Map<String, Value>, app: &App, output: &mut Output) {
    match output.format {
        Format::Json | Format::Ndjson => server_view::print(servers.to_vec(), unused, more, output),
        Format::Raw | Format::Human => {
            let rows: Vec<Row> = servers.iter().map(Row::of_view).chain(unused.iter().map(Row::unused)).collect();
            if output.format == Format::Human {
                return table(&rows, app, output);
            }
            rows.iter().for_each(|row| output.content(format!("{}\t{}\n", row.name, row.state).as_bytes()));
        }
    }
}

/// The unused configuration, if all servers are shown.
fn unused_beside(app: &App, servers: &[String]) -> Result<Vec<Unused>, Report> {
    if !servers.is_empty() {
        return Ok(Vec::new());
    }
    let loaded = app.load()?;
    Ok(Unused::unaccepted(&loaded).into_iter().chain(Unused::set_aside(&loaded)).collect())
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
            1 => Some("1 client connection".to_owned()),
            many => Some(format!("{many} client connections")),
        };
        let tail = connections.into_iter().chain(stderr_tail::essential(&tail, TAIL)).collect();
        let remark = match view["reason"].as_str() {
            Some(reason) => reason.to_owned(),
            None => {
                let tools = view["tools"].as_u64().map(|tools| format!("{tools} tools"));
                let revision = view["protocolVersion"].as_str().map(str::to_owned);
                [tools, view["transport"].as_str().map(str::to_owned), revision, kept]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join("; ")
            }
        };
        Self { name: text("name"), state: text("state"), remark, tail }
    }
}

/// One of the gateway's client connections as text.
fn connection(view: &Value) -> String {
    let number = |key: &str| view[key].as_u64().unwrap_or_default();
    let caller = view["caller"].as_str().unwrap_or_default();
    let process = view["process"].as_u64().map(|process| format!(", PID {process}")).unwrap_or_default();
    format!(
        "{caller}: {} calls in flight, {} of them waiting for user input{process}",
        number("calls"),
        number("waiting")
    )
}

fn table(rows: &[Row], app: &App, output: &mut Output) {
    let names = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or_default();
    let states = rows.iter().map(|row| row.state.len()).max().unwrap_or_default();
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_key(|row| state::rank(&row.state));
    for Row { name, state, remark, tail } in sorted {
        output.state_entry(&format!("{name:<names$}"), state, states, remark);
        if app.show.verbose {
            tail.iter().for_each(|line| output.line(&format!("    {line}")));
        }
    }
    if let Some(summary) = state::summary(rows.iter().map(|row| row.state.as_str())) {
        output.line(&summary);
    }
}

/// Items, transport, protocol revision and connect time of an available server, else its problem.
fn remark(outcome: &ServerOutcome) -> String {
    if let Some(problem) = outcome.problem() {
        return problem;
    }
    let revision = outcome.status.profile.as_ref().map(|profile| profile.revision.to_string());
    let time = outcome.connect_time.map(|time| format!("connected in {:.0} ms", time.as_secs_f64() * 1_000.0));
    let transport = revision.is_some().then(|| outcome.status.transport.word().to_owned());
    let parts = [server_view::counted(outcome), transport, revision, time].into_iter().flatten();
    parts.collect::<Vec<_>>().join("; ")
}
