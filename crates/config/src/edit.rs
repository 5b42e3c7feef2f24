//! Changes to a file of ours: one member, and nothing else of the text.
//!
//! A change is worked out first, as the new text; the file is replaced as a whole when it is written. YAML is read
//! and not edited: the lines to put there are handed back. A file of another host is never changed; what is wanted of
//! its servers is said in a file of ours.

mod jsonc;
mod value;
mod write;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub use value::NewValue;
pub use write::replace;

use crate::{
    config::FileContents,
    document::{Document, Language},
    error::{ConfigError, Place},
    server::{Behind, Format, ServerConfig, ServerName},
};

/// What is wanted of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// A new entry.
    Add {
        /// The key under `mcpServers`.
        label: String,
        /// What stands under it.
        entry: NewValue,
    },
    /// Some keys of an entry, `env.NAME` for one inside of another; nothing means that the key goes.
    Update {
        /// Which server.
        name: ServerName,
        /// Key by key.
        changes: Vec<(String, Option<NewValue>)>,
    },
    /// The entry goes.
    Remove {
        /// Which server.
        name: ServerName,
    },
    /// The server may be used.
    Enable {
        /// Which server.
        name: ServerName,
    },
    /// The server may not be used.
    Disable {
        /// Which server.
        name: ServerName,
    },
}

/// A change that was worked out and not yet made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The file's new text; [`Change::write`] puts it there.
    Text {
        /// The file.
        file: PathBuf,
        /// All of it, as it was.
        before: String,
        /// All of it, as it will be.
        text: String,
    },
    /// The file is not edited; a person puts these lines there.
    Lines {
        /// The file.
        file: PathBuf,
        /// What to put under `mcpServers`, or to take away.
        lines: String,
        /// What to do with them, as a sentence.
        advice: String,
    },
}

/// Works out an edit of the file that defines the entry: that file where it is ours, `ours` where it is another host's
/// or the entry is new.
pub fn plan(edit: &Edit, defined: Option<&ServerConfig>, ours: &Path) -> Result<Change, ConfigError> {
    let foreign = defined.is_some_and(|server| server.source.format != Format::Toolway);
    if foreign && let (Edit::Remove { .. }, Some(server)) = (edit, defined) {
        return Err(ConfigError::Refused {
            place: server.source.place.clone(),
            problem: format!("`{}` stands in a file of {}; disable it instead", server.label, server.source.format),
        });
    }
    let file = match defined {
        Some(server) if !foreign => &server.source.place.file,
        _ => ours,
    };
    edit_text(edit, defined.filter(|_| foreign), file, &read(file)?)
}

/// A file's text; one that is not there has none.
fn read(file: &Path) -> Result<String, ConfigError> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(ConfigError::Unreadable { file: file.to_owned(), source }),
    }
}

impl Change {
    /// Makes the change, unless somebody else has changed the file since it was worked out. Lines for a person change
    /// nothing.
    pub fn write(&self) -> Result<(), ConfigError> {
        let Self::Text { file, before, text } = self else { return Ok(()) };
        let place = || Place { file: file.clone(), line: 0 };
        if read(file)? != *before {
            let problem = "somebody changed the file in the meantime; try again".to_owned();
            return Err(ConfigError::Refused { place: place(), problem });
        }
        replace(file, text)
            .map_err(|error| ConfigError::Refused { place: place(), problem: format!("cannot be written: {error}") })
    }
}

/// Works out an edit of a text; `foreign` is the server where another host's file defines it.
pub fn edit_text(edit: &Edit, foreign: Option<&ServerConfig>, file: &Path, text: &str) -> Result<Change, ConfigError> {
    let contents = FileContents::of(&Document::of(file, text)?, Behind::User, None)?;
    let label = |name: &ServerName| {
        let own = contents.label_of(name).map(|(label, _)| label.to_owned());
        own.or_else(|| foreign.map(|server| server.label.clone())).ok_or_else(|| ConfigError::Refused {
            place: Place { file: file.to_owned(), line: 0 },
            problem: format!("there is no server `{name}`"),
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

/// One's own entry is enabled unless it says otherwise; another host's must be told. Of a project's nothing can be
/// said but that it is off.
fn enabled(foreign: Option<&ServerConfig>) -> Vec<(String, Option<NewValue>)> {
    let told = foreign.filter(|server| server.source.behind == Behind::User);
    let word = told.map(|_| NewValue::Flag(true));
    vec![("disabled".to_owned(), None), ("enabled".to_owned(), word)]
}

fn refuse_known(contents: &FileContents, label: &str, file: &Path) -> Result<(), ConfigError> {
    let place = Place { file: file.to_owned(), line: 0 };
    let name =
        ServerName::from_label(label).map_err(|error| ConfigError::Refused { place, problem: error.to_string() })?;
    match contents.label_of(&name) {
        None => Ok(()),
        Some((other, place)) => Err(ConfigError::SameName {
            place,
            label: label.to_owned(),
            other: other.to_owned(),
            name: name.to_string(),
        }),
    }
}

/// What happens to the text.
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
            Self::Put(label, entry) => jsonc::put(&file, before, label, entry),
            Self::Members(label, changes) => jsonc::change(&file, before, label, changes),
            Self::Remove(label) => jsonc::remove(&file, before, label),
        }?;
        self.refuse_broken(FileContents::of(&Document::of(&file, &text)?, Behind::User, None)?)?;
        Ok(Change::Text { file, before: before.to_owned(), text })
    }

    /// An edit that would break its entry is refused before anything is written. What its neighbours say is not its
    /// business.
    fn refuse_broken(&self, contents: FileContents) -> Result<(), ConfigError> {
        let (Self::Put(own, _) | Self::Members(own, _) | Self::Remove(own)) = self;
        if let Some((_, error)) = contents.broken.into_iter().find(|(label, _)| label == own) {
            return Err(error);
        }
        match contents.entries.into_iter().find(|entry| entry.label == *own && entry.draft.is_whole()) {
            Some(entry) => entry.finish().map(drop),
            None => Ok(()),
        }
    }

    fn lines(&self, file: &Path) -> (String, String) {
        let file = file.display();
        match self {
            Self::Put(label, entry) => {
                let lines = NewValue::Object(vec![(label.clone(), entry.clone())]).yaml();
                (lines, format!("Put these lines under `mcpServers` in {file}."))
            }
            Self::Members(label, changes) => {
                let gone = changes.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| format!("`{key}`"));
                let gone = gone.collect::<Vec<_>>().join(" and ");
                let advice = match gone.is_empty() {
                    true => format!("Put these lines under `mcpServers.{label}` in {file}."),
                    false => format!(
                        "In {file}, under `mcpServers.{label}`, take away {gone}; then these lines belong there."
                    ),
                };
                (NewValue::nested(changes).yaml(), advice)
            }
            Self::Remove(label) => (String::new(), format!("Take away `{label}` under `mcpServers` in {file}.")),
        }
    }
}

#[cfg(test)]
mod tests;
