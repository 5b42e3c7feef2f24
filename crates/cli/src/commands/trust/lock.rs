//! `toolway trust lock|check`: the definitions of a project's servers in a file that stands in its repository.
//!
//! The file contains what is the same on every machine: the entry as written, and what the server lists. It is one value on
//! each line, sorted, so that a review shows what has changed.

use std::{fs, path::PathBuf};

use serde_json::{Map, Value, json};
use toolway_config::{ServerName, server::DefinedBy};
use toolway_host::{
    catalog::ItemKind,
    connection::{Lists, wanted::CONNECT},
    policy::Baseline,
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
    output.notice(&format!("toolway: wrote {} with {count} servers", file.display()));
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

fn path(app: &App) -> Result<PathBuf, Report> {
    Ok(project_file(app)?.with_file_name(FILE))
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
    let hosts = app.connect_all(targets, Lists::Only(ItemKind::Tool), WaitPolicy::Fixed(slowest), output).await?;
    let catalog = hosts.host.catalog();
    let mut servers = Map::new();
    let mut failed = None;
    for outcome in &hosts.outcomes {
        let name: &ServerName = &outcome.status.server;
        if let Some(problem) = outcome.problem().filter(|_| outcome.target.is_enabled()) {
            failed = Some(Report::new(ExitCode::Unreachable, "unhealthy", format!("server `{name}`: {problem}")));
        }
        let tool = |tool: &toolway_host::catalog::ToolEntry| {
            let seen = Baseline::of_tool(name, &tool.item, tool.fingerprint);
            let definition = serde_json::from_str(&seen.text).unwrap_or(Value::Null);
            (tool.item.name.to_string(), json!({ "digest": seen.digest, "definition": definition }))
        };
        let tools: Map<String, Value> = catalog.tools_of(name).iter().map(tool).collect();
        servers.insert(name.to_string(), json!({ "entry": outcome.target.server.definition(), "tools": tools }));
    }
    lifecycle::disconnect(&hosts.host).await;
    failed.map_or(Ok(servers), Err)
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
        let none = Map::new();
        let old = before["tools"].as_object().unwrap_or(&none);
        let new = server["tools"].as_object().unwrap_or(&none);
        lines.extend(
            new.keys().filter(|tool| !old.contains_key(*tool)).map(|tool| format!("{name}.{}: new", shown(tool))),
        );
        lines.extend(
            old.keys().filter(|tool| !new.contains_key(*tool)).map(|tool| format!("{name}.{}: gone", shown(tool))),
        );
        for (tool, definition) in new {
            if let Some(before) = old.get(tool).filter(|before| before["digest"] != definition["digest"]) {
                let changes =
                    toolway_host::policy::baseline::difference(&before["definition"], &definition["definition"]);
                lines.extend(changes.into_iter().map(|change| format!("{name}.{}: {change}", shown(tool))));
            }
        }
    }
    lines.extend(locked.keys().filter(|name| !now.contains_key(*name)).map(|name| format!("{}: gone", shown(name))));
    lines
}

fn shown(text: &str) -> String {
    toolway_config::visible::one_line(text)
}
