//! `toolway doctor`: connects to each server, diagnoses problems, and gives advice.

mod advice;
mod clear_secrets;
mod gateways;
mod instructions;
mod layout;
mod processes;
mod unusual;
mod variables;

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use serde_json::{Map, Value, json};
use toolway_config::{
    Config, Endpoint, Environment, ServerName,
    server::{Sharing, Transport},
    show::show as show_config,
};
use toolway_host::{
    catalog::Catalog,
    connection::{Lists, ServerAddress, ServerStatus, Way, environment, wanted::CONNECT},
    keeper::CleanupGuarantee,
};
use toolway_wire::revision::Era;

use instructions::InstructionsReport;
use layout::{Details, Findings};

use super::clients;
use crate::{
    app::App,
    exit_code::ExitCode,
    lifecycle,
    multi_server_host::{ServerOutcome, WaitPolicy},
    output::{Format, Output},
    report::Report,
    server_view, storage,
    target::Target,
    unused::UnusedReason,
};

/// Connect to each server, diagnose problems, and say how to fix them
///
/// A healthy server is one line: what it offers, the protocol revision, the time to connect and to list its items. For the
/// others, the problem and the advice come first, then how the process ended and its last standard error output. With
/// --verbose, each server also has its command with the names of its variables, or its URL, where it is defined and what it
/// could reach. Waits as long as the entry's `timeouts` (30 seconds by default, 5 minutes for a server that `npx` or `uvx` installs) or
/// --timeout. Also shows the processes of a running gateway with their callers and memory, invalid and unused configuration
/// with the reason, and secrets in clear in configuration files. The exit code is 0 if all servers are healthy, and 4 if one is
/// not or an entry or file is invalid.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// The servers [default: all configured servers]
    servers: Vec<String>,
}

/// Lines of standard error to show.
const TAIL: usize = 10;

const EXAMPLES: &str = "\
Examples:
  toolway doctor
  toolway doctor files --verbose
  toolway doctor --stdio 'npx -y @modelcontextprotocol/server-everything'
  toolway doctor -o json | jq '.servers[] | {name, state, advice}'";

pub(crate) async fn run(args: &DoctorArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let (targets, unused) = app.targets_to_inspect(&args.servers, output)?;
    if args.servers.is_empty() && app.reach.names_no_server() {
        let warnings = clients::unknown(&app.load()?.config, app);
        warnings.iter().for_each(|warning| output.notice(&format!("toolway: {warning}")));
    }
    // One connect timeout for connecting, and the same time again for listing, except that installing takes longer.
    let patience = |target: &Target| target.server.connect + target.server.connect.min(CONNECT);
    let slowest = targets.iter().map(patience).max().unwrap_or_default();
    let hosts = app.connect_all(targets, Lists::Once, WaitPolicy::Fixed(slowest), output).await?;
    let mut withheld = BTreeMap::new();
    for ServerOutcome { status, .. } in &hosts.outcomes {
        if let Some(line) = unusual::changed_instructions(&hosts.host, &status.server).await {
            withheld.insert(status.server.clone(), line);
        }
    }
    let findings: Vec<Diagnosis<'_>> = {
        let catalog = hosts.host.catalog();
        hosts.outcomes.iter().map(|outcome| Diagnosis::of(outcome, &catalog, &withheld, app)).collect()
    };
    let in_clear = match app.reach.names_no_server() {
        true => clear_secrets::find(&app.load()?, &args.servers),
        false => Vec::new(),
    };
    let store = store_report(app).await;
    let processes = processes::find(&args.servers, app).await;
    let instructions = instructions::find(args, app);
    let found = Findings {
        servers: &findings,
        unused: &unused,
        in_clear: &in_clear,
        processes: &processes,
        store: &store,
        instructions: instructions.as_ref(),
    };
    show(&found, app, output);
    if app.reach.names_no_server() {
        let problems = gateways::find(app).await;
        problems.iter().for_each(|problem| output.notice(&format!("toolway: warning: {problem}")));
    }
    let broken = unused.iter().filter(|unused| unused.why == UnusedReason::Broken).count();
    let unhealthy = broken + findings.iter().filter(|finding| finding.outcome.problem().is_some()).count();
    lifecycle::disconnect(&hosts.host).await;
    match unhealthy {
        0 => Ok(ExitCode::Ok),
        1 => Err(Report::new(ExitCode::Unreachable, "unhealthy", "1 server is unhealthy")),
        many => Err(Report::new(ExitCode::Unreachable, "unhealthy", format!("{many} servers are unhealthy"))),
    }
}

/// Diagnosis of one server.
struct Diagnosis<'a> {
    outcome: &'a ServerOutcome,
    /// Command or URL, with secrets masked.
    reached: String,
    /// Names of the environment variables of its process.
    environment: Vec<String>,
    /// Working directory of its process; `None` for a URL, or if it is not known.
    folder: Option<PathBuf>,
    /// Names of variables that it asks for, that the user's shell has, and that its process does not get.
    withheld: Vec<String>,
    advice: String,
    /// What is unusual in its descriptions and instructions.
    unusual: Vec<String>,
}

impl<'a> Diagnosis<'a> {
    /// `changed` has a line for each server whose instructions have changed.
    fn of(outcome: &'a ServerOutcome, catalog: &Catalog, changed: &BTreeMap<ServerName, String>, app: &App) -> Self {
        let given = environment_of(&outcome.target, &app.environment);
        let names = |names: &mut dyn Iterator<Item = &OsString>| -> Vec<String> {
            names.map(|name| name.to_string_lossy().into_owned()).collect()
        };
        let environment = given.as_ref().map(|given| names(&mut given.keys())).unwrap_or_default();
        let withheld = given.map(|given| environment::withheld(&app.environment, &given)).unwrap_or_default();
        let withheld = names(&mut withheld.iter());
        let advice = advice::advice(outcome, &withheld, app);
        Self {
            outcome,
            reached: reached(&outcome.target, &outcome.status),
            environment,
            folder: folder(&outcome.target, app),
            withheld: advice::wanted_and_withheld(outcome, &withheld),
            advice,
            unusual: changed
                .get(&outcome.status.server)
                .cloned()
                .into_iter()
                .chain(unusual::find(&outcome.status, catalog))
                .collect(),
        }
    }

    /// What the server could reach on this machine.
    fn reach(&self) -> Value {
        if !self.outcome.target.is_program() {
            return json!({ "received": "requests and configured headers only" });
        }
        json!({
            "environment": self.environment,
            "folder": self.folder,
            "files": "all files of your account",
            "network": "not restricted",
        })
    }

    fn object(&self) -> Value {
        let mut object = server_view::object(self.outcome);
        object.insert("command".to_owned(), json!(self.reached));
        object.insert("environment".to_owned(), json!(self.environment));
        object.insert("withheld".to_owned(), json!(self.withheld));
        object.insert("reach".to_owned(), self.reach());
        if let Some(sharing) = self.sharing() {
            object.insert("inGateway".to_owned(), json!(sharing));
        }
        match &self.outcome.status.cleanup {
            Some(CleanupGuarantee::Full) => drop(object.insert("cleanup".to_owned(), json!("full"))),
            Some(CleanupGuarantee::BestEffort { reason }) => {
                object.insert("cleanup".to_owned(), json!("best-effort"));
                object.insert("cleanupReason".to_owned(), json!(reason));
            }
            None => {}
        }
        if let Some(limits) = self.outcome.target.server.limits.to_json() {
            object.insert("limits".to_owned(), limits);
        }
        object.insert("advice".to_owned(), json!(self.advice));
        object.insert("unusual".to_owned(), json!(self.unusual));
        Value::Object(object)
    }
}

impl Diagnosis<'_> {
    /// How many processes or connections a gateway has for the server, and why; `None` if it is not connected.
    fn sharing(&self) -> Option<String> {
        let profile = self.outcome.status.profile.as_ref()?;
        let server = &self.outcome.target.server;
        let noun = if self.outcome.target.is_program() { "process" } else { "connection" };
        Some(match (profile.era, server.sharing) {
            (Era::Modern, _) => format!("one {noun} for all clients"),
            (Era::Legacy, Sharing::Shared) => format!(
                "one {noun} for all clients that answer no server requests, and one for each other client, from its \
                 first list or call until it is idle (`sharing: shared`)"
            ),
            (Era::Legacy, sharing) => {
                let (whose, word) = match sharing {
                    Sharing::Session => ("client session", "session"),
                    _ => ("client", "caller"),
                };
                let first = match self.outcome.target.is_program() {
                    true => format!(", which goes to the first {whose} that declares no capabilities"),
                    false => String::new(),
                };
                format!(
                    "one {noun} for the lists{first}; one for each other {whose}, from its first list or call until it \
                     is idle (`sharing: {word}`)"
                )
            }
        })
    }
}

/// How full the store is.
struct StoreReport {
    line: String,
    view: Value,
}

async fn store_report(app: &App) -> StoreReport {
    let measure = async || -> Result<Option<StoreReport>, Report> {
        let settings = app.load()?.config.settings;
        let Some(records) = app.stored_records()? else { return Ok(None) };
        let usage = records.usage().await?;
        let view = json!({
            "path": app.store_path(&settings).filter(|_| settings.store.url.value.is_none()),
            "bytes": usage.bytes,
            "maxBytes": usage.max_bytes,
            "corruptBytes": usage.corrupt_bytes,
        });
        Ok(Some(StoreReport { line: storage::fullness(&usage), view }))
    };
    match measure().await {
        Ok(Some(report)) => report,
        Ok(None) => StoreReport { line: "nothing is recorded yet".to_owned(), view: Value::Null },
        Err(report) => StoreReport { line: report.message.clone(), view: json!({ "problem": report.message }) },
    }
}

fn show(found: &Findings<'_>, app: &App, output: &mut Output) {
    let Findings { servers: findings, unused, in_clear, processes, store, instructions } = found;
    match output.format {
        Format::Json | Format::Ndjson => {
            let servers = findings.iter().map(Diagnosis::object).collect();
            let mut more = Map::new();
            more.insert("store".to_owned(), store.view.clone());
            let instructions = instructions.map_or(Value::Null, InstructionsReport::view);
            more.insert("projectInstructions".to_owned(), instructions);
            more.insert("processes".to_owned(), processes::view(processes));
            more.insert("secretsInClear".to_owned(), in_clear.iter().map(clear_secrets::Finding::view).collect());
            server_view::print(servers, unused, more, output);
        }
        Format::Raw => {
            let asked =
                findings.iter().map(|finding| (finding.outcome.status.server.to_string(), finding.advice.clone()));
            let unused = unused.iter().map(|unused| (unused.title(), unused.advice()));
            let lines = asked.chain(unused).map(|(name, advice)| format!("{name}\t{advice}\n"));
            lines.for_each(|line| output.content(line.as_bytes()));
        }
        Format::Human => {
            let details = if app.show.verbose { Details::Shown } else { Details::Hidden };
            found.print(details, output);
        }
    }
}

/// The working directory of a program.
fn folder(target: &Target, app: &App) -> Option<PathBuf> {
    let current = || std::env::current_dir().ok();
    let Some(entry) = &target.entry else { return current().filter(|_| target.is_program()) };
    match entry.endpoint(&app.environment, &*app.keychain(&target.settings)) {
        Ok(Endpoint::Process { directory, .. }) => directory.or_else(current),
        Ok(Endpoint::Http { .. }) | Err(_) => None,
    }
}

/// The command and its arguments as configured, or the URL, with secrets masked.
fn reached(target: &Target, status: &ServerStatus) -> String {
    let Some(entry) = &target.entry else { return status.target.clone() };
    let config = Config { servers: [(entry.name.clone(), entry.clone())].into(), ..Config::default() };
    let values = show_config(&config);
    let value = |key: &str| {
        let is_it = |shown: &&toolway_config::show::ShownValue| shown.key.rsplit('.').next() == Some(key);
        values.iter().find(is_it).map(|shown| &shown.value)
    };
    let arguments = value("args").and_then(Value::as_array).cloned().unwrap_or_default();
    let words = value("command").into_iter().chain(&arguments).filter_map(Value::as_str);
    let words: Vec<_> = words.map(|word| shlex::try_quote(word).unwrap_or_default()).collect();
    if words.is_empty() { status.target.clone() } else { words.join(" ") }
}

/// The environment of a stdio server, with empty values for the variables of its entry; `None` for an HTTP server.
fn environment_of(target: &Target, ours: &Environment) -> Option<Environment> {
    let named: Environment = match target.entry.as_ref().map(|entry| &entry.transport) {
        Some(Transport::Process(process)) => {
            process.variables.iter().map(|(name, _)| (name.into(), "".into())).collect()
        }
        Some(Transport::Http(_)) => return None,
        None => match &target.server.way {
            Way::Address(ServerAddress::Process(program)) => program.variables.clone(),
            _ => return None,
        },
    };
    Some(environment::of_server(ours, &named))
}
