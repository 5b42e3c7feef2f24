//! `toolway trust lock|check`: the definitions of a project's servers in a file that stands in its repository.
//!
//! The file contains what is the same on every machine: the entry as written, and the tools and prompts that the server
//! lists. It is one value on each line, sorted, so that a review shows what has changed. Only digests and definitions decide;
//! a digest that was edited by hand is a difference. A server that cannot be listed is an error, and no difference: nothing
//! is known about it.

use std::{fs, path::PathBuf};

use serde_json::{Map, Value, json};
use toolway_config::{ServerName, project, server::DefinedBy};
use toolway_host::{
    catalog::{
        Catalog, ItemKind,
        entry::{CatalogItem, ListedItem},
    },
    connection::{Lists, wanted::CONNECT},
    policy::{Baseline, SeenItem, baseline::difference},
    private_file::user,
};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    commands::servers::apply_edit::project_file,
    exit_code::ExitCode,
    lifecycle,
    multi_server_host::WaitPolicy,
    output::{Format, Output},
    report::Report,
    target::Target,
};

const FILE: &str = "toolway.lock";
/// Version of the format.
const VERSION: u64 = 1;
/// Largest file that is read.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Writes the file.
pub(super) async fn write(app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let file = path(app)?;
    let servers = current(app, output).await?;
    let count = servers.len();
    let text = format!("{:#}\n", json!({ "version": VERSION, "servers": servers }));
    toolway_config::edit::replace(&file, &text)
        .map_err(|error| Report::usage("lock", format!("`{}` cannot be written: {error}", file.display())))?;
    let word = if count == 1 { "server" } else { "servers" };
    output.notice(&format!("toolway: wrote {} with {count} {word}", file.display()));
    Ok(ExitCode::Ok)
}

/// Compares with the file.
pub(super) async fn check(app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let file = path(app)?;
    let locked = read(&file)?;
    let differences = differences(&locked, &current(app, output).await?);
    if output.format == Format::Human {
        differences.iter().for_each(|line| output.line(line));
    } else {
        output.json(&Raw::of(&json!({ "file": file, "differences": differences })));
    }
    if differences.is_empty() {
        output.notice(&format!("toolway: the servers are as in {}", file.display()));
        return Ok(ExitCode::Ok);
    }
    let message = format!("{} differences from {}", differences.len(), file.display());
    Err(Report::new(ExitCode::Denied, "drift", message).hint("review them, then run `toolway trust lock`"))
}

/// The file. A repository may contain a link of its name, to be written through, or a pipe, to be read from: neither is used.
fn path(app: &App) -> Result<PathBuf, Report> {
    let file = project_file(app)?.with_file_name(FILE);
    let Ok(found) = file.symlink_metadata() else { return Ok(file) };
    let folder = file.parent().unwrap_or(&file);
    let problem = match (found.is_symlink(), found.is_file()) {
        (true, _) => Some("it is a link".to_owned()),
        (false, false) => Some("it is not a regular file".to_owned()),
        (false, true) => project::refusal(folder, &file, user()),
    };
    let Some(problem) = problem else { return Ok(file) };
    let message = format!("the lock file `{}` is not used: {problem}", file.display());
    Err(Report::usage("lock", message).hint("remove it, and write it anew with `toolway trust lock`"))
}

/// The servers of the file.
fn read(file: &PathBuf) -> Result<Map<String, Value>, Report> {
    let wrong = |why: String| {
        Report::usage("lock", format!("`{}`: {why}", file.display())).hint("write it with `toolway trust lock`")
    };
    let size = fs::metadata(file).map_err(|error| wrong(error.to_string()))?.len();
    if MAX_BYTES < size {
        return Err(wrong(format!("it has {size} bytes, the maximum is {MAX_BYTES}")));
    }
    let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if value["version"] != VERSION {
        return Err(wrong(format!("its version is not {VERSION}")));
    }
    value["servers"].as_object().cloned().ok_or_else(|| wrong("`servers` is not an object".to_owned()))
}

/// The servers of the project as they are now.
async fn current(app: &App, output: &mut Output) -> Result<Map<String, Value>, Report> {
    let loaded = app.load()?;
    if let Some(proposal) = loaded.proposals.first() {
        let message = format!("server `{}` of the project is not accepted", proposal.server.name);
        return Err(Report::new(ExitCode::Denied, "not_accepted", message)
            .hint(format!("see it with `toolway servers show {}`", proposal.server.name)));
    }
    let of_project = loaded.config.servers.values().filter(|server| server.source.defined_by == DefinedBy::Project);
    let names: Vec<String> = of_project.map(|server| server.name.to_string()).collect();
    if names.is_empty() {
        return Err(Report::usage("lock", "the project defines no servers"));
    }
    let targets = app.targets(&names, output)?;
    let slowest = targets.iter().map(|target: &Target| target.server.connect + CONNECT).max().unwrap_or(CONNECT);
    let hosts = app.connect_all(targets, Lists::Once, WaitPolicy::Fixed(slowest), output).await?;
    let catalog = hosts.host.catalog();
    let mut servers = Map::new();
    let mut failed: Option<Report> = None;
    for outcome in &hosts.outcomes {
        let name: &ServerName = &outcome.status.server;
        if let Some(problem) = outcome.problem().filter(|_| outcome.target.is_enabled()) {
            let message = format!("server `{name}` cannot be compared: {problem}");
            let report = Report::new(ExitCode::Unreachable, "unhealthy", message);
            failed = Some(report.hint("install what it needs, or disable it in the project's file"));
        }
        let Some(listing) = catalog.listing_of(name) else { continue };
        let tools = definitions(name, &catalog, &listing.tools);
        let prompts = definitions(name, &catalog, &listing.prompts);
        let mut view = json!({ "entry": outcome.target.server.definition(), "tools": tools });
        if !prompts.is_empty() {
            view["prompts"] = prompts.into();
        }
        servers.insert(name.to_string(), view);
    }
    lifecycle::disconnect(&hosts.host).await;
    failed.map_or(Ok(servers), Err)
}

/// What a server offers of one kind, by name. What policy hides on this machine is offered elsewhere.
fn definitions<T: CatalogItem>(server: &ServerName, catalog: &Catalog, listed: &[ListedItem<T>]) -> Map<String, Value> {
    let mut definitions = Map::new();
    for listed in listed {
        let name = listed.item.raw_name();
        let is_offered = match T::KIND {
            ItemKind::Tool => catalog.tool_at(server, name).is_some(),
            _ => catalog.prompt_at(server, name).is_some(),
        };
        if !is_offered && catalog.hidden_at(T::KIND, server, name).is_none() {
            continue;
        }
        let seen = Baseline::of(server, SeenItem::shared(T::KIND, name), listed.item.raw(), listed.fingerprint);
        let definition: Value = serde_json::from_str(&seen.text).unwrap_or(Value::Null);
        // Of several items of one name only the first is offered.
        definitions
            .entry(name.to_owned())
            .or_insert_with(|| json!({ "digest": seen.digest, "definition": definition }));
    }
    definitions
}

/// What differs, one change on each line.
fn differences(locked: &Map<String, Value>, now: &Map<String, Value>) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, server) in now {
        let Some(before) = locked.get(name) else {
            lines.push(format!("{name}: not in the file"));
            continue;
        };
        if before["entry"] != server["entry"] {
            lines.push(format!("{name}: its entry has changed"));
        }
        for (kind, key) in [("", "tools"), ("prompt ", "prompts")] {
            let none = Map::new();
            let old = before[key].as_object().unwrap_or(&none);
            let new = server[key].as_object().unwrap_or(&none);
            let of = |item: &str| format!("{name}.{kind}{}", shown(item));
            lines.extend(new.keys().filter(|item| !old.contains_key(*item)).map(|item| format!("{}: new", of(item))));
            lines.extend(old.keys().filter(|item| !new.contains_key(*item)).map(|item| format!("{}: gone", of(item))));
            for (item, now) in new {
                let changed = old.get(item).filter(|before| *before != now);
                let changes = changed.map(|before| change(before, now)).unwrap_or_default();
                lines.extend(changes.into_iter().map(|change| format!("{}: {change}", of(item))));
            }
        }
    }
    lines.extend(locked.keys().filter(|name| !now.contains_key(*name)).map(|name| format!("{}: gone", shown(name))));
    lines
}

/// How one definition differs. The file may have been edited by hand: its digest and its text each count.
fn change(before: &Value, now: &Value) -> Vec<String> {
    if before["definition"] != now["definition"] {
        return difference(&before["definition"], &now["definition"]);
    }
    vec!["its digest in the file is not that of its definition".to_owned()]
}

fn shown(text: &str) -> String {
    toolway_config::visible::one_line(text)
}
