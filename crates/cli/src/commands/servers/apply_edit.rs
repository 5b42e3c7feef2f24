//! Applies an edit to a configuration file, which is replaced atomically, and prints the changed values.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolway_config::{
    Config, ConfigError, Loaded, Origin, ServerConfig, ServerName,
    edit::{Change, Edit, plan, replace_config},
    show::{ShownValue, show},
};
use toolway_host::{
    record::kind,
    state_file::{StateFile, StateLock},
};

use super::list;
use crate::{
    app::App,
    commands::config::print,
    entry_secrets::EntrySecrets,
    exit_code::ExitCode,
    loading,
    output::{Format, Output},
    report::Report,
};

/// Replacement of a secret in displayed values.
const MASK: &str = "•••";
/// Size limit of the lock file, which is empty.
const LOCK_BYTES: usize = 0;

/// Whether an edit changed the file, and its values before.
enum EditEffect {
    Changed(Vec<(String, Value)>),
    Unchanged,
}

/// An edit that is not applied yet.
pub(crate) struct PendingEdit {
    pub(crate) verb: &'static str,
    pub(crate) name: ServerName,
    pub(crate) edit: Edit,
}

impl PendingEdit {
    /// Applies the edit to the file that defines the server, or prints the lines that the user has to add.
    pub(crate) fn apply(
        &self,
        defined: Option<&ServerConfig>,
        ours: &Path,
        app: &App,
        output: &mut Output,
    ) -> Result<ExitCode, Report> {
        let loaded = app.load()?;
        let (edit, secrets) = app.detach_edit(&self.name, &self.edit, &loaded)?;
        match plan(&edit, defined, ours).map_err(|error| self.invalid(error))? {
            Change::Lines { file, lines, advice } => {
                let _stored = secrets.store(app)?;
                print_manual_edit(&file, &lines, &advice, output);
            }
            Change::Text { file, text, .. } => {
                let before = values_in(&file, &self.name, &loaded);
                let is_same = std::fs::read_to_string(&file).is_ok_and(|old| old == text);
                if is_same {
                    // The reference stays; what it refers to may be new.
                    let _stored = secrets.store(app)?;
                    self.print_result(&file, &EditEffect::Unchanged, &secrets, &loaded, output);
                } else {
                    self.replace(&file, &text, &secrets, app)?;
                    self.print_result(&file, &EditEffect::Changed(before), &secrets, &app.load()?, output);
                }
            }
        }
        if let Some(sentence) = secrets.sentence() {
            output.notice(&format!("toolway: {sentence}"));
        }
        Ok(ExitCode::Ok)
    }

    /// Applies the edit without printing, and returns its secrets. Fails if the file is not edited by Toolway.
    pub(crate) fn write(&self, defined: Option<&ServerConfig>, ours: &Path, app: &App) -> Result<EntrySecrets, Report> {
        let (edit, secrets) = app.detach_edit(&self.name, &self.edit, &app.load()?)?;
        match plan(&edit, defined, ours).map_err(|error| self.invalid(error))? {
            Change::Text { file, text, .. } => self.replace(&file, &text, &secrets, app).map(|()| secrets),
            Change::Lines { file, lines, advice } => {
                let message = format!("`{}` is not edited by Toolway: {advice}", file.display());
                Err(Report::usage("not_edited", message).hint(lines))
            }
        }
    }

    /// The report of a value that the edit would write. The file does not have its line, so only the key is named.
    fn invalid(&self, error: ConfigError) -> Report {
        let key = match &error {
            ConfigError::Expected { key, .. } => key.strip_prefix("mcpServers.").and_then(|key| key.split_once('.')),
            _ => None,
        };
        let (Some((_, key)), ConfigError::Expected { expected, .. }) = (key, &error) else { return error.into() };
        let is_given = |given: &str| given == key || key.starts_with(&format!("{given}."));
        let is_new = match &self.edit {
            Edit::Add { .. } => true,
            Edit::Update { changes, .. } => changes.iter().any(|(given, value)| value.is_some() && is_given(given)),
            Edit::Remove { .. } | Edit::Enable { .. } | Edit::Disable { .. } => false,
        };
        if !is_new {
            return error.into();
        }
        let name = if key == "url" { "--url".to_owned() } else { format!("`{key}`") };
        let verb = self.verb.to_lowercase();
        Report::usage("config", format!("server `{}` was not {verb}: {name} must be {expected}", self.name))
    }

    /// Stores the secrets, then writes the file that refers to them.
    fn replace(&self, file: &Path, text: &str, secrets: &EntrySecrets, app: &App) -> Result<(), Report> {
        let stored = secrets.store(app)?;
        if let Err(error) = replace_config(file, text) {
            stored.undo();
            return Err(cannot_write(file, &error));
        }
        let details = json!({ "change": self.verb.to_lowercase(), "file": file });
        app.audit(kind::CONFIGURATION, Some(self.name.as_str()), None, &details);
        Ok(())
    }

    fn print_result(
        &self,
        file: &Path,
        effect: &EditEffect,
        secrets: &EntrySecrets,
        loaded: &Loaded,
        output: &mut Output,
    ) {
        let changed = match effect {
            EditEffect::Unchanged => Vec::new(),
            EditEffect::Changed(before) => self.changed_values(before, &values_in(file, &self.name, loaded)),
        };
        if matches!(output.format, Format::Json | Format::Ndjson) {
            let values: Vec<Value> = changed.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
            let (file, server) = (file.display().to_string(), self.server(loaded));
            let is_changed = matches!(effect, EditEffect::Changed(_));
            let secrets = secrets.view();
            let view =
                json!({ "changed": is_changed, "file": file, "server": server, "values": values, "secrets": secrets });
            print(&view, output);
        } else if matches!(effect, EditEffect::Changed(_)) {
            output.line(&format!("{} `{}` in {}", self.verb, self.name, file.display()));
            for (key, value) in &changed {
                let line =
                    value.as_ref().map_or_else(|| format!("  {key} removed"), |value| format!("  {key} = {value}"));
                output.line(&line);
            }
        } else {
            output.line(&format!("No change: `{}` in {} already has these values", self.name, file.display()));
        }
        let hides = |value: &Value| value.to_string().contains(MASK);
        if changed.iter().any(|(_, value)| value.as_ref().is_some_and(hides)) {
            output.notice("toolway: warning: the file now contains a secret; store it with `toolway secret set NAME` and write `${secret:NAME}` instead");
        }
    }

    /// The changed values; a value that was given counts as changed even if masking hides the difference.
    fn changed_values(&self, before: &[(String, Value)], now: &[(String, Value)]) -> Vec<(String, Option<Value>)> {
        let is_typed = |key: &str| match &self.edit {
            Edit::Update { changes, .. } => changes.iter().any(|(typed, value)| typed == key && value.is_some()),
            _ => false,
        };
        let new = now.iter().filter(|value| !before.contains(value) || is_typed(&value.0));
        let gone = before.iter().filter(|(key, _)| !now.iter().any(|(known, _)| known == key));
        let gone = gone.filter(|_| !matches!(self.edit, Edit::Remove { .. }));
        new.map(|(key, value)| (key.clone(), Some(value.clone())))
            .chain(gone.map(|(key, _)| (key.clone(), None)))
            .collect()
    }

    /// The server after the edit; `None` if it was removed.
    fn server(&self, loaded: &Loaded) -> Option<Value> {
        let known =
            loaded.config.servers.get(&self.name).map(|server| list::view(server, list::EntryState::of(server)));
        let waiting = loading::proposal_of(loaded, self.name.as_str());
        known.or_else(|| waiting.map(|it| list::view(&it.server, list::EntryState::of_proposal(it))))
    }
}

/// The values of a server in this file, with secrets masked.
fn values_in(file: &Path, name: &ServerName, loaded: &Loaded) -> Vec<(String, Value)> {
    let mut config = Config { settings: loaded.config.settings.clone(), ..Config::default() };
    let waiting = || loading::proposal_of(loaded, name.as_str()).map(|proposal| &proposal.server);
    let Some(server) = loaded.config.servers.get(name).or_else(waiting) else { return Vec::new() };
    let prefix = format!("mcpServers.{}.", server.label);
    config.servers.insert(name.clone(), server.clone());
    let here = |value: &ShownValue| matches!(&value.origin, Origin::File(place) if place.file == file);
    let values = show(&config).into_iter().filter(here);
    values.filter_map(|value| Some((value.key.strip_prefix(&prefix)?.to_owned(), value.value))).collect()
}

fn print_manual_edit(file: &Path, lines: &str, advice: &str, output: &mut Output) {
    if matches!(output.format, Format::Json | Format::Ndjson) {
        let file = file.display().to_string();
        print(&json!({ "changed": false, "file": file, "lines": lines, "advice": advice }), output);
        return;
    }
    output.notice(&format!("YAML files are not edited. {advice}"));
    if !lines.is_empty() {
        output.line(lines.trim_end());
    }
}

/// A lock for the time in which a file is read, changed and replaced, so that concurrent edits are not lost.
pub(crate) fn lock(app: &App) -> Result<Option<StateLock>, Report> {
    let Some(state) = &app.paths.state else { return Ok(None) };
    let file = state.join("config");
    let lock = StateFile::at(&file, LOCK_BYTES).lock();
    lock.map(Some).map_err(|error| cannot_write(&file, &error))
}

pub(crate) fn own_file(loaded: &Loaded) -> Result<PathBuf, Report> {
    let no_home = || Report::usage("config", "no home directory for the configuration; name a file with --config");
    loaded.own_file.clone().ok_or_else(no_home)
}

/// The project file, or the path to create it at.
pub(crate) fn project_file(app: &App) -> Result<PathBuf, Report> {
    let search = app.project()?;
    if let Some(refused) = search.refused.first() {
        return Err(Report::usage("config", refused.to_string()));
    }
    let there = search.project.map(|project| project.file);
    let nowhere = || Report::usage("config", "no project here: this is the home directory or a parent of it");
    there.or_else(|| Some(search.folder?.join("toolway.json"))).ok_or_else(nowhere)
}

pub(crate) fn cannot_write(file: &Path, error: &std::io::Error) -> Report {
    Report::new(ExitCode::Internal, "write", format!("cannot write `{}`: {error}", file.display()))
}
