//! Prints the servers found in other applications, and the result of copying them.

use serde_json::{Value, json};
use toolway_config::{
    Config, Loaded, Origin, ServerConfig,
    import::Imported,
    server::{DefinedBy, Format as SourceFormat},
    show::{ShownValue, show},
};

use super::{
    ImportArgs, SourceFile,
    copy::{Copied, CopiedSecrets, CopyOutcome, EntryOrigin, MissingInput},
    is_in_use,
};
use crate::{
    app::App,
    commands::{config::print, servers::list::transport},
    output::{Format, Output},
};

/// Prints the found servers, file by file.
pub(super) fn print_found(args: &ImportArgs, files: &[SourceFile], loaded: &Loaded, app: &App, output: &mut Output) {
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
        output.notice(&match args.host.as_str() {
            super::ALL => {
                format!("no MCP configuration of other applications found ({} checked)", SourceFormat::OTHERS.len())
            }
            host => format!("no MCP configuration of `{host}` found"),
        });
    }
}

/// Prints the result of copying.
pub(super) fn print_copied(files: &[SourceFile], copied: &Copied, output: &mut Output) {
    let warnings: Vec<String> = files.iter().flat_map(SourceFile::warnings).collect();
    if matches!(output.format, Format::Json | Format::Ndjson) {
        let entries: Vec<Value> = copied.entries.iter().map(|(origin, outcome)| entry_view(origin, outcome)).collect();
        let file = copied.file.display().to_string();
        print(&json!({ "file": file, "entries": entries, "warnings": warnings }), output);
        return;
    }
    for (origin, outcome) in &copied.entries {
        let EntryOrigin { label, host, place, .. } = origin;
        match outcome {
            CopyOutcome::Copied(secrets) => {
                output.line(&format!("Copied `{label}` of {host} ({place}) to {}", copied.file.display()));
                say(secrets, output);
            }
            CopyOutcome::ManualEdit(secrets, lines) => {
                output.notice(&format!("Add these lines under `mcpServers` in {}:", copied.file.display()));
                output.line(lines.trim_end());
                say(secrets, output);
            }
            CopyOutcome::Skipped(why) => output.line(&format!("Not copied: `{label}` of {host} ({place}): {why}")),
        }
    }
    if copied.entries.is_empty() {
        output.notice("No server to copy.");
    }
    warnings.iter().for_each(|warning| output.notice(&format!("toolway: {warning}")));
}

/// Says where the secrets of an entry are.
fn say(secrets: &CopiedSecrets, output: &mut Output) {
    if let Some(sentence) = secrets.entry.sentence() {
        output.line(&format!("  {sentence}"));
    }
    for MissingInput { name, input } in &secrets.missing {
        output
            .line(&format!("  not usable yet: it needs the input `{}`; store it: toolway secret set {name}", input.id));
    }
}

fn entry_view(origin: &EntryOrigin, outcome: &CopyOutcome) -> Value {
    let EntryOrigin { label, name, host, place } = origin;
    let mut view = json!({ "label": label, "name": name.as_str(), "host": host, "from": place });
    match outcome {
        CopyOutcome::Copied(secrets) | CopyOutcome::ManualEdit(secrets, _) => {
            view["secrets"] = secrets.entry.view();
            if !secrets.missing.is_empty() {
                let missing = secrets
                    .missing
                    .iter()
                    .map(|missing| json!({ "input": missing.input.id, "secret": missing.name.as_str() }));
                view["missing"] = missing.collect();
            }
        }
        CopyOutcome::Skipped(_) => {}
    }
    view["copied"] = matches!(outcome, CopyOutcome::Copied(_)).into();
    match outcome {
        CopyOutcome::Copied(_) => {}
        CopyOutcome::ManualEdit(_, lines) => view["lines"] = lines.as_str().into(),
        CopyOutcome::Skipped(why) => view["because"] = why.as_str().into(),
    }
    view
}

impl SourceFile {
    pub(super) fn warnings(&self) -> Vec<String> {
        match &self.imported {
            Ok(imported) => imported.warnings.iter().map(ToString::to_string).collect(),
            Err(problem) => vec![format!("file ignored: {problem}")],
        }
    }

    fn view(&self, loaded: &Loaded, app: &App) -> Value {
        let imported = self.imported.as_ref().ok();
        let views: Option<Vec<Value>> =
            imported.map(|all| all.servers.iter().map(|server| server_view(server, all, loaded, app)).collect());
        json!({
            "host": self.found.format.as_str(),
            "file": self.found.file.display().to_string(),
            "project": self.found.defined_by == DefinedBy::Project,
            "used": is_in_use(loaded, self.found.format),
            "servers": views.unwrap_or_default(),
            "warnings": self.warnings(),
        })
    }

    fn show(&self, loaded: &Loaded, app: &App, output: &mut Output) {
        let host = self.found.format.as_str();
        let project = if self.found.defined_by == DefinedBy::Project { ", project file" } else { "" };
        let used = if is_in_use(loaded, self.found.format) { ", in use" } else { "" };
        output.entry(host, &format!("  {}{project}{used}", self.found.file.display()));
        for server in self.imported.iter().flat_map(|imported| &imported.servers) {
            let off = if server.is_enabled() { "" } else { "  (disabled)" };
            output.line(&format!("  {}: {} {}{off}", server.label, transport(server), reach(server)));
            if let Some(problem) = problem(server, loaded, app) {
                output.line(&format!("    not usable yet: {problem}"));
            }
        }
        self.warnings().iter().for_each(|warning| output.line(&format!("  warning: {warning}")));
    }
}

fn server_view(server: &ServerConfig, imported: &Imported, loaded: &Loaded, app: &App) -> Value {
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
    if let Some(problem) = problem(server, loaded, app) {
        view["problem"] = problem.into();
    }
    view
}

/// Why it cannot be used yet; `None` for a disabled server.
fn problem(server: &ServerConfig, loaded: &Loaded, app: &App) -> Option<String> {
    let keychain = app.keychain(&loaded.config.settings);
    let endpoint = server.is_enabled().then(|| server.endpoint(&app.environment, &*keychain))?;
    endpoint.err().map(|error| error.to_string())
}

/// The values of an entry, with secrets masked.
fn values(server: &ServerConfig) -> Vec<(String, Value)> {
    let mut config = Config::default();
    config.servers.insert(server.name.clone(), server.clone());
    let prefix = format!("mcpServers.{}.", server.label);
    let own = |value: ShownValue| Some((value.key.strip_prefix(&prefix)?.to_owned(), value.value, value.origin));
    let values = show(&config).into_iter().filter_map(own);
    // Some applications have the arguments inside `command`, so `args` has no origin.
    let is_said = |key: &str, value: &Value, origin: &Origin| {
        *origin != Origin::Default || (key == "args" && value.as_array().is_some_and(|words| !words.is_empty()))
    };
    values.filter(|(key, value, origin)| is_said(key, value, origin)).map(|(key, value, _)| (key, value)).collect()
}

/// The command or URL on one line, with secrets masked.
fn reach(server: &ServerConfig) -> String {
    let values = values(server);
    let value = |wanted: &str| values.iter().find(|(key, _)| key == wanted).map(|(_, value)| value);
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let first = value("url").or_else(|| value("command")).map(word).unwrap_or_default();
    let arguments = value("args").and_then(Value::as_array).into_iter().flatten().map(word);
    std::iter::once(first).chain(arguments).collect::<Vec<_>>().join(" ")
}
