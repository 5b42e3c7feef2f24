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

/// Whether an edit changed anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    Some,
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
            Change::Text { file, text } => {
                let news =
                    if std::fs::read_to_string(&file).is_ok_and(|old| old == text) { News::None } else { News::Some };
                if news == News::Some {
                    replace(&file, &text).map_err(|error| cannot_write(&file, &error))?;
                }
                self.tell(&file, news, &app.load()?, output);
            }
        }
        Ok(ExitCode::Ok)
    }

    fn tell(&self, file: &Path, news: News, loaded: &Loaded, output: &mut Output) {
        let values = values_in(file, &self.name, loaded);
        let waiting = loading::proposal_of(loaded, self.name.as_str());
        if matches!(output.format, Format::Json | Format::Ndjson) {
            let server = loaded.config.servers.get(&self.name);
            let server = server.map(|server| list::view(server, list::State::of(server)));
            let waiting = || waiting.map(|it| list::view(&it.server, list::State::of_proposal(it)));
            let values: Vec<Value> = values.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
            let file = file.display().to_string();
            let server = server.or_else(waiting);
            print(&json!({ "changed": news == News::Some, "file": file, "server": server, "values": values }), output);
        } else if news == News::Some {
            output.line(&format!("{} `{}` in {}", self.word, self.name, file.display()));
            values.iter().for_each(|(key, value)| output.line(&format!("  {key} = {value}")));
        } else {
            output.line(&format!("`{}` in {} is so already", self.name, file.display()));
        }
        let typed = matches!(self.edit, Edit::Add { .. } | Edit::Update { .. });
        if typed && values.iter().any(|(_, value)| value.to_string().contains(MASK)) {
            output.say("toolway: a secret stands in that file now; `${NAME}` in its place takes it from a variable.");
        }
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
