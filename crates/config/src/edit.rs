//! Edits of a Toolway configuration file: one member changes, the rest of the text stays.
//!
//! An edit is planned first, as the new text; writing replaces the file as a whole. YAML files are not edited: the lines
//! to add are returned instead. Files of other hosts are never changed; their servers are overridden in a Toolway file.

mod agent;
mod assistant;
mod imports;
mod jsonc;
mod model;
mod roots;
mod rule;
mod trusted_folder;
mod value;
mod write;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub use agent::turn_off_in_agent;
pub use assistant::{AssistantEdit, plan_assistant};
pub use imports::plan_imports;
use jsonc::EntryPath;
pub use model::plan_model;
pub use roots::{RootsEdit, RootsLevel, plan_roots};
pub use rule::{plan_rule, rules_of};
pub use trusted_folder::plan_trusted_folder;
pub use value::NewValue;
pub use write::{replace, replace_config};

use crate::{
    config::FileContents,
    document::{Document, Language},
    error::{ConfigError, Place},
    server::{DefinedBy, Format, ServerConfig, ServerName},
};

/// An edit of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Adds an entry.
    Add {
        /// Key under `mcpServers`.
        label: String,
        /// Value of the entry.
        entry: NewValue,
    },
    /// Sets or removes keys of an entry.
    Update {
        /// Server name.
        name: ServerName,
        /// New values by key (`env.NAME` for a nested key); `None` removes the key.
        changes: Vec<(String, Option<NewValue>)>,
    },
    /// Removes the entry.
    Remove {
        /// Server name.
        name: ServerName,
    },
    /// Enables the server.
    Enable {
        /// Server name.
        name: ServerName,
    },
    /// Disables the server.
    Disable {
        /// Server name.
        name: ServerName,
    },
}

/// A planned change that is not written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// New text of the file; [`Change::write`] writes it.
    Text {
        /// Path of the file.
        file: PathBuf,
        /// Text before the change.
        before: String,
        /// Text after the change.
        text: String,
    },
    /// The file is not edited; the user has to change it.
    Lines {
        /// Path of the file.
        file: PathBuf,
        /// Lines to add; empty if there is only something to remove.
        lines: String,
        /// Instruction for the user, as a sentence.
        advice: String,
    },
}

/// Plans an edit of the file that defines the entry: that file if it is a Toolway file, `ours` if it belongs to another
/// host or the entry is new.
pub fn plan(edit: &Edit, defined: Option<&ServerConfig>, ours: &Path) -> Result<Change, ConfigError> {
    let foreign = defined.is_some_and(|server| server.source.format != Format::Toolway);
    if foreign && let (Edit::Remove { .. }, Some(server)) = (edit, defined) {
        return Err(ConfigError::Refused {
            place: server.source.place.clone(),
            problem: format!(
                "`{}` is defined in a file of {}, which is never changed; disable the server instead",
                server.label, server.source.format
            ),
        });
    }
    let file = match defined {
        Some(server) if !foreign => &server.source.place.file,
        _ => ours,
    };
    edit_text(edit, defined.filter(|_| foreign), file, &read(file)?)
}

/// Text of a file; empty if the file does not exist.
fn read(file: &Path) -> Result<String, ConfigError> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(ConfigError::Unreadable { file: file.to_owned(), source }),
    }
}

impl Change {
    /// Writes the change, unless the file has changed since it was planned. Does nothing for [`Change::Lines`].
    pub fn write(&self) -> Result<(), ConfigError> {
        let Self::Text { file, before, text } = self else { return Ok(()) };
        let place = || Place { file: file.clone(), line: 0 };
        if read(file)? != *before {
            let problem = "the file was changed in the meantime; try again".to_owned();
            return Err(ConfigError::Refused { place: place(), problem });
        }
        replace_config(file, text)
            .map_err(|error| ConfigError::Refused { place: place(), problem: format!("cannot be written: {error}") })
    }
}

/// Plans an edit of a text; `foreign` is the server if a file of another host defines it.
pub fn edit_text(edit: &Edit, foreign: Option<&ServerConfig>, file: &Path, text: &str) -> Result<Change, ConfigError> {
    let contents = FileContents::of(&Document::of(file, text)?, DefinedBy::User, None)?;
    let label = |name: &ServerName| {
        let own = contents.label_of(name).map(|(label, _)| label.to_owned());
        own.or_else(|| foreign.map(|server| server.label.clone())).ok_or_else(|| ConfigError::Refused {
            place: Place { file: file.to_owned(), line: 0 },
            problem: format!("unknown server `{name}`"),
        })
    };
    let step = match edit {
        Edit::Add { label, entry } => {
            refuse_known(&contents, label, file)?;
            Step::Put(label.clone(), entry.clone())
        }
        Edit::Remove { name } => Step::Remove(label(name)?),
        Edit::Update { name, changes } => Step::Members(label(name)?, changes.clone()),
        Edit::Disable { name } => {
            Step::Members(label(name)?, vec![("enabled".to_owned(), Some(NewValue::Flag(false)))])
        }
        Edit::Enable { name } => Step::Members(label(name)?, enabled(foreign)),
    };
    step.on(file, text)
}

/// Changes that enable a server. A server of another host needs an explicit `enabled`; a server of a project may only be
/// disabled, so there the key is removed.
fn enabled(foreign: Option<&ServerConfig>) -> Vec<(String, Option<NewValue>)> {
    let explicit = foreign.filter(|server| server.source.defined_by == DefinedBy::User);
    let value = explicit.map(|_| NewValue::Flag(true));
    vec![("disabled".to_owned(), None), ("enabled".to_owned(), value)]
}

fn refuse_known(contents: &FileContents, label: &str, file: &Path) -> Result<(), ConfigError> {
    let place = Place { file: file.to_owned(), line: 0 };
    let name =
        ServerName::from_label(label).map_err(|error| ConfigError::Refused { place, problem: error.to_string() })?;
    match contents.label_of(&name) {
        None => Ok(()),
        Some((other, place)) => Err(ConfigError::DuplicateName {
            place,
            label: label.to_owned(),
            other: other.to_owned(),
            name: name.to_string(),
        }),
    }
}

/// One change of the text.
#[derive(Clone, Debug)]
enum Step {
    Put(String, NewValue),
    Members(String, Vec<(String, Option<NewValue>)>),
    Remove(String),
}

impl Step {
    fn on(&self, file: &Path, before: &str) -> Result<Change, ConfigError> {
        let file = file.to_owned();
        if Language::of(&file) != Language::Jsonc {
            let (lines, advice) = self.lines(&file);
            return Ok(Change::Lines { file, lines, advice });
        }
        let text = match self {
            Self::Put(label, entry) => jsonc::put(&file, before, EntryPath::of_server(label), entry),
            Self::Members(label, changes) => jsonc::change(&file, before, EntryPath::of_server(label), changes),
            Self::Remove(label) => jsonc::remove(&file, before, EntryPath::of_server(label)),
        }?;
        self.refuse_broken(FileContents::of(&Document::of(&file, &text)?, DefinedBy::User, None)?)?;
        Ok(Change::Text { file, before: before.to_owned(), text })
    }

    /// Refuses an edit that would make its entry invalid, before anything is written. Other entries are not checked.
    fn refuse_broken(&self, contents: FileContents) -> Result<(), ConfigError> {
        let (Self::Put(own, _) | Self::Members(own, _) | Self::Remove(own)) = self;
        if let Some((_, error)) = contents.broken.into_iter().find(|(label, _)| label == own) {
            return Err(error);
        }
        match contents.entries.into_iter().find(|entry| entry.label == *own && entry.draft.has_transport()) {
            Some(entry) => entry.finish().map(drop),
            None => Ok(()),
        }
    }

    fn lines(&self, file: &Path) -> (String, String) {
        let file = file.display();
        match self {
            Self::Put(label, entry) => {
                let lines = NewValue::Object(vec![(label.clone(), entry.clone())]).yaml();
                (lines, format!("Add these lines under `mcpServers` in {file}."))
            }
            Self::Members(label, changes) => {
                let removed = changes.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| format!("`{key}`"));
                let removed = removed.collect::<Vec<_>>().join(" and ");
                let lines = NewValue::nested(changes).yaml();
                let advice = match (removed.is_empty(), lines.is_empty()) {
                    (true, _) => format!("Add these lines under `mcpServers.{label}` in {file}."),
                    (false, true) => format!("Remove {removed} under `mcpServers.{label}` in {file}."),
                    (false, false) => {
                        format!("Under `mcpServers.{label}` in {file}, remove {removed} and add these lines.")
                    }
                };
                (lines, advice)
            }
            Self::Remove(label) => (String::new(), format!("Remove `{label}` under `mcpServers` in {file}.")),
        }
    }
}

#[cfg(test)]
mod tests;
