//! An edit made: the file replaced as a whole, and what it says of the server from now on.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolway_config::{
    Config, Loaded, Origin, ServerConfig, ServerName,
    edit::{Change, Edit, plan, replace},
    show::{ShownValue, show},
};
use toolway_host::state_file::{StateFile, StateLock};

use super::list;
use crate::{
    app::App,
    commands::config::print,
    exit_code::ExitCode,
    loading,
    output::{Format, Output},
    report::Report,
};

/// Shown in the place of a secret.
const MASK: &str = "•••";
/// The lock has no text.
const LOCK: usize = 0;

/// Whether an edit changed anything, and what the file said before.
enum News {
    Some(Vec<(String, Value)>),
    None,
}

/// One edit, and what is said when it is made.
pub(super) struct Made {
    pub(super) word: &'static str,
    pub(super) name: ServerName,
    pub(super) edit: Edit,
}

impl Made {
    /// Makes the edit in the file that defines the server, or says what a person has to do.
    pub(super) fn make(
        &self,
        defined: Option<&ServerConfig>,
        ours: &Path,
        app: &App,
        output: &mut Output,
    ) -> Result<ExitCode, Report> {
        match plan(&self.edit, defined, ours)? {
            Change::Lines { file, lines, advice } => {
                not_written(&file, &lines, &advice, output);
            }
            Change::Text { file, text, .. } => {
                let before = values_in(&file, &self.name, &app.load()?);
                let is_so = std::fs::read_to_string(&file).is_ok_and(|old| old == text);
                if is_so {
                    self.tell(&file, &News::None, &app.load()?, output);
                } else {
                    replace(&file, &text).map_err(|error| cannot_write(&file, &error))?;
                    self.tell(&file, &News::Some(before), &app.load()?, output);
                }
            }
        }
        Ok(ExitCode::Ok)
    }

    fn tell(&self, file: &Path, news: &News, loaded: &Loaded, output: &mut Output) {
        let changed = match news {
            News::None => Vec::new(),
            News::Some(before) => self.changed(before, &values_in(file, &self.name, loaded)),
        };
        if matches!(output.format, Format::Json | Format::Ndjson) {
            let values: Vec<Value> = changed.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
            let (file, server) = (file.display().to_string(), self.server(loaded));
            let is_news = matches!(news, News::Some(_));
            print(&json!({ "changed": is_news, "file": file, "server": server, "values": values }), output);
        } else if matches!(news, News::Some(_)) {
            output.line(&format!("{} `{}` in {}", self.word, self.name, file.display()));
            for (key, value) in &changed {
                let line =
                    value.as_ref().map_or_else(|| format!("  {key} is gone"), |value| format!("  {key} = {value}"));
                output.line(&line);
            }
        } else {
            output.line(&format!("`{}` in {} is so already", self.name, file.display()));
        }
        let hides = |value: &Value| value.to_string().contains(MASK);
        if changed.iter().any(|(_, value)| value.as_ref().is_some_and(hides)) {
            output.say("toolway: a secret stands in that file now; `${NAME}` in its place takes it from a variable.");
        }
    }

    /// What is different now; a secret that was typed is, although it cannot be seen.
    fn changed(&self, before: &[(String, Value)], now: &[(String, Value)]) -> Vec<(String, Option<Value>)> {
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

    /// The server as it is now, if there is still one.
    fn server(&self, loaded: &Loaded) -> Option<Value> {
        let known = loaded.config.servers.get(&self.name).map(|server| list::view(server, list::State::of(server)));
        let waiting = loading::proposal_of(loaded, self.name.as_str());
        known.or_else(|| waiting.map(|it| list::view(&it.server, list::State::of_proposal(it))))
    }
}

/// What the file says of a server, secrets masked.
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

fn not_written(file: &Path, lines: &str, advice: &str, output: &mut Output) {
    if matches!(output.format, Format::Json | Format::Ndjson) {
        let file = file.display().to_string();
        print(&json!({ "changed": false, "file": file, "lines": lines, "advice": advice }), output);
        return;
    }
    output.say(&format!("A YAML file is not edited. {advice}"));
    if !lines.is_empty() {
        output.line(lines.trim_end());
    }
}

/// Held while a file is read, changed and replaced, so that of two commands neither is lost.
pub(crate) fn lock(app: &App) -> Result<Option<StateLock>, Report> {
    let Some(state) = &app.paths.state else { return Ok(None) };
    let file = state.join("config");
    let lock = StateFile::at(&file, LOCK).lock();
    lock.map(Some).map_err(|error| cannot_write(&file, &error))
}

pub(crate) fn own_file(loaded: &Loaded) -> Result<PathBuf, Report> {
    let homeless =
        || Report::usage("config", "There is no home to keep a configuration in; name a file with --config.");
    loaded.own_file.clone().ok_or_else(homeless)
}

/// The project's file, or where it belongs.
pub(crate) fn project_file(app: &App) -> Result<PathBuf, Report> {
    let search = app.project()?;
    if let Some(refused) = search.refused.first() {
        return Err(Report::usage("config", format!("{refused}.")));
    }
    let there = search.project.map(|project| project.file);
    let nowhere = || Report::usage("config", "There is no project here: this is the home directory, or above it.");
    there.or_else(|| Some(search.folder?.join("toolway.json"))).ok_or_else(nowhere)
}

pub(crate) fn cannot_write(file: &Path, error: &std::io::Error) -> Report {
    Report::new(ExitCode::Internal, "write", format!("Cannot write {}: {error}.", file.display()))
}
