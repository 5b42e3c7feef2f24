//! What was found where, and what came of copying it.

use serde_json::{Value, json};
use toolway_config::{
    Config, Loaded, Origin, ServerConfig,
    import::{CopiedEntry, Imported},
    server::Behind,
    show::{ShownValue, show},
};

use super::{
    ImportArgs, Read,
    copying::{Came, Copied, Whence},
    is_in_use,
};
use crate::{
    app::App,
    commands::{config::print, servers::list::transport},
    output::{Format, Output},
};

/// What was found, file by file.
pub(super) fn found(args: &ImportArgs, files: &[Read], loaded: &Loaded, app: &App, output: &mut Output) {
    let views = files.iter().map(|file| file.view(loaded, app));
    match output.format {
        Format::Json => return print(&json!({ "files": views.collect::<Vec<_>>() }), output),
        Format::Ndjson => return views.for_each(|view| print(&view, output)),
        Format::Human | Format::Raw => {}
    }
    for file in files {
        file.show(loaded, app, output);
    }
    if files.is_empty() {
        output.say(&format!("No file was found of: {}.", args.host));
    }
}

/// What came of copying.
pub(super) fn copied(files: &[Read], copied: &Copied, output: &mut Output) {
    let warnings: Vec<String> = files.iter().flat_map(Read::warnings).collect();
    if matches!(output.format, Format::Json | Format::Ndjson) {
        let entries: Vec<Value> = copied.entries.iter().map(|(origin, came)| entry_view(origin, came)).collect();
        let file = copied.file.display().to_string();
        print(&json!({ "file": file, "entries": entries, "warnings": warnings }), output);
        return;
    }
    for (origin, came) in &copied.entries {
        let Whence { label, host, place, .. } = origin;
        match came {
            Came::Copied(entry) => {
                output.line(&format!("Copied `{label}` of {host} ({place}) to {}", copied.file.display()));
                left_out(entry, output);
            }
            Came::Lines(entry, lines) => {
                output.say(&format!("Put these lines under `mcpServers` in {}:", copied.file.display()));
                output.line(lines.trim_end());
                left_out(entry, output);
            }
            Came::Left(why) => output.line(&format!("Not copied: `{label}` of {host} ({place}): {why}")),
        }
    }
    if copied.entries.is_empty() {
        output.say("Nothing was found to copy.");
    }
    warnings.iter().for_each(|warning| output.say(&format!("toolway: {warning}")));
}

fn left_out(entry: &CopiedEntry, output: &mut Output) {
    for secret in &entry.left_out {
        output.line(&format!("  its secret in `{}` is not copied: set the variable {}", secret.key, secret.variable));
    }
}

fn entry_view(origin: &Whence, came: &Came) -> Value {
    let Whence { label, name, host, place } = origin;
    let mut view = json!({ "label": label, "name": name.as_str(), "host": host, "from": place });
    let mut with = |entry: &CopiedEntry| {
        let secrets = entry.left_out.iter().map(|secret| json!({ "key": secret.key, "variable": secret.variable }));
        view["secretsLeftOut"] = secrets.collect();
    };
    match came {
        Came::Copied(entry) => with(entry),
        Came::Lines(entry, _) => with(entry),
        Came::Left(_) => {}
    }
    view["copied"] = matches!(came, Came::Copied(_)).into();
    match came {
        Came::Copied(_) => {}
        Came::Lines(_, lines) => view["lines"] = lines.as_str().into(),
        Came::Left(why) => view["because"] = why.as_str().into(),
    }
    view
}

impl Read {
    fn warnings(&self) -> Vec<String> {
        match &self.imported {
            Ok(imported) => imported.warnings.iter().map(ToString::to_string).collect(),
            Err(problem) => vec![format!("the file is not used: {problem}")],
        }
    }

    fn view(&self, loaded: &Loaded, app: &App) -> Value {
        let imported = self.imported.as_ref().ok();
        let views: Option<Vec<Value>> =
            imported.map(|all| all.servers.iter().map(|server| server_view(server, all, app)).collect());
        json!({
            "host": self.found.format.word(),
            "file": self.found.file.display().to_string(),
            "project": self.found.behind == Behind::Project,
            "used": is_in_use(loaded, self.found.format),
            "servers": views.unwrap_or_default(),
            "warnings": self.warnings(),
        })
    }

    fn show(&self, loaded: &Loaded, app: &App, output: &mut Output) {
        let host = self.found.format.word();
        let project = if self.found.behind == Behind::Project { ", of the project" } else { "" };
        let used = if is_in_use(loaded, self.found.format) { ", in use" } else { "" };
        output.entry(host, &format!("  {}{project}{used}", self.found.file.display()));
        for server in self.imported.iter().flat_map(|imported| &imported.servers) {
            let off = if server.is_enabled() { "" } else { "  (disabled)" };
            output.line(&format!("  {}: {} {}{off}", server.label, transport(server), reach(server)));
            if let Some(problem) = problem(server, app) {
                output.line(&format!("    cannot be used yet: {problem}"));
            }
        }
        self.warnings().iter().for_each(|warning| output.line(&format!("  warning: {warning}")));
    }
}

fn server_view(server: &ServerConfig, imported: &Imported, app: &App) -> Value {
    let values = values(server).into_iter().collect::<serde_json::Map<_, _>>();
    let inputs: Vec<&str> = imported.inputs_of(server).map(|input| input.id.as_str()).collect();
    let mut view = json!({
        "label": server.label,
        "name": server.name.as_str(),
        "line": server.source.place.line,
        "transport": transport(server),
        "enabled": server.is_enabled(),
        "values": values,
    });
    if !inputs.is_empty() {
        view["inputs"] = json!(inputs);
    }
    if let Some(problem) = problem(server, app) {
        view["problem"] = problem.into();
    }
    view
}

/// What it would need; one that is off needs nothing.
fn problem(server: &ServerConfig, app: &App) -> Option<String> {
    let endpoint = server.is_enabled().then(|| server.endpoint(&app.environment, &*app.keychain()))?;
    endpoint.err().map(|error| error.to_string())
}

/// Every value the entry says, secrets masked.
fn values(server: &ServerConfig) -> Vec<(String, Value)> {
    let mut config = Config::default();
    config.servers.insert(server.name.clone(), server.clone());
    let prefix = format!("mcpServers.{}.", server.label);
    let own = |value: ShownValue| Some((value.key.strip_prefix(&prefix)?.to_owned(), value.value, value.origin));
    let values = show(&config).into_iter().filter_map(own);
    // Some hosts have the arguments inside of the command, so that they have no place of their own.
    let is_said = |key: &str, value: &Value, origin: &Origin| {
        *origin != Origin::Default || (key == "args" && value.as_array().is_some_and(|words| !words.is_empty()))
    };
    values.filter(|(key, value, origin)| is_said(key, value, origin)).map(|(key, value, _)| (key, value)).collect()
}

/// How it is reached, on one line, secrets masked.
fn reach(server: &ServerConfig) -> String {
    let values = values(server);
    let value = |wanted: &str| values.iter().find(|(key, _)| key == wanted).map(|(_, value)| value);
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let first = value("url").or_else(|| value("command")).map(word).unwrap_or_default();
    let arguments = value("args").and_then(Value::as_array).into_iter().flatten().map(word);
    std::iter::once(first).chain(arguments).collect::<Vec<_>>().join(" ")
}
