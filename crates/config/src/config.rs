//! The whole document: servers by name, settings and warnings.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::{
    document::{Document, Section},
    error::{ConfigError, Place},
    import::{self, Imported, Input},
    server::{self, DefinedBy, Draft, EffectiveTimeouts, Format, ServerConfig, ServerName, SessionEnd, Source, Start},
    settings::{SETTINGS, Settings},
    shape::Field,
    tasks::TaskTerms,
    warning::{self, Strictness, Warning, Warnings},
};

/// Configuration of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Servers by name.
    pub servers: BTreeMap<ServerName, ServerConfig>,
    /// Settings that apply to all servers.
    pub settings: Settings,
    /// Warnings for the operator.
    pub warnings: Vec<Warning>,
}

/// Content of one Toolway configuration file.
#[derive(Debug, Default)]
pub(crate) struct FileContents {
    /// Servers of a file of another format.
    pub(crate) servers: Vec<ServerConfig>,
    /// Inputs of a file of another format.
    pub(crate) inputs: Vec<Input>,
    pub(crate) entries: Vec<Entry>,
    /// Invalid entries, each with its label.
    pub(crate) broken: Vec<(String, ConfigError)>,
    pub(crate) settings: Settings,
    pub(crate) warnings: Warnings,
    /// Unknown top-level keys.
    pub(crate) unknown_sections: Vec<(String, Place)>,
}

/// One entry of `mcpServers`.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: ServerName,
    pub(crate) label: String,
    pub(crate) source: Source,
    pub(crate) draft: Draft,
}

/// Top-level keys that are ignored without a warning.
const SILENTLY_IGNORED: [&str; 1] = ["$schema"];

// === impl Config ===

impl Config {
    /// Reads one file; any invalid entry is an error. `folder` is the default working directory of its programs.
    pub fn read(file: &Path, folder: Option<&PathBuf>) -> Result<Self, ConfigError> {
        Self::of(&Document::read(file)?, folder)
    }

    /// Reads one document; any invalid entry is an error.
    pub fn of(document: &Document, folder: Option<&PathBuf>) -> Result<Self, ConfigError> {
        let contents = FileContents::of_user(document, folder)?;
        if let Some(error) = contents.warnings.iter().find_map(|warning| warning.as_error(Strictness::Usual)) {
            return Err(error);
        }
        if let Some((_, error)) = contents.broken.into_iter().next() {
            return Err(error);
        }
        let mut config = Self { settings: contents.settings, warnings: contents.warnings, ..Self::default() };
        config.servers.extend(contents.servers.into_iter().map(|server| (server.name.clone(), server)));
        for entry in contents.entries {
            config.servers.insert(entry.name.clone(), entry.finish()?);
        }
        Ok(config)
    }

    /// All server names of a document, including those of invalid entries.
    pub fn names(document: &Document) -> Result<BTreeSet<ServerName>, ConfigError> {
        let contents = FileContents::of(document, DefinedBy::User, None)?;
        let broken = contents.broken.iter().filter_map(|(label, _)| ServerName::from_label(label).ok());
        Ok(broken.chain(contents.entries.iter().map(|entry| entry.name.clone())).collect())
    }

    /// Finds a server by name or by label.
    pub fn find(&self, wanted: &str) -> Option<&ServerConfig> {
        ServerName::from_label(wanted).ok().and_then(|name| self.servers.get(&name))
    }

    /// When a server is connected, with the default applied.
    pub fn start(&self, server: &ServerConfig) -> Start {
        server.start.unwrap_or(self.settings.start.value)
    }

    /// What becomes of the sessions of a server at shutdown, with the default applied.
    pub fn sessions(&self, server: &ServerConfig) -> SessionEnd {
        server.sessions.unwrap_or(self.settings.sessions.value)
    }

    /// How the tasks of a server are treated, with the defaults applied.
    pub fn tasks(&self, server: &ServerConfig) -> TaskTerms {
        self.settings.tasks.value.overridden_by(server.tasks).terms()
    }

    /// Timeouts of a server, with the defaults applied.
    pub fn timeouts(&self, server: &ServerConfig) -> EffectiveTimeouts {
        server.timeouts.effective(self.settings.request_timeout.value)
    }
}

// === impl FileContents ===

impl FileContents {
    /// Reads a file of the user: Toolway's own format, or another one that is recognised by its shape.
    pub(crate) fn of_user(document: &Document, folder: Option<&PathBuf>) -> Result<Self, ConfigError> {
        let Some(format) = import::recognise(document) else { return Self::of(document, DefinedBy::User, folder) };
        let Imported { servers, inputs, warnings, settings, .. } = import::read_as_own(document, format, folder)?;
        Ok(Self { servers, inputs, warnings, settings, ..Self::default() })
    }

    /// Reads a file in Toolway's own format. A file without any known key is an error, unless it is empty.
    pub(crate) fn of(
        document: &Document,
        defined_by: DefinedBy,
        folder: Option<&PathBuf>,
    ) -> Result<Self, ConfigError> {
        let mut contents = Self::default();
        if let Some(format) = import::recognise(document) {
            return Err(of_other_format(document, format));
        }
        let mut root = document.root()?;
        refuse_other_containers(&root)?;
        for key in SETTINGS {
            if let Some(node) = root.take(key.name) {
                (key.set)(&mut contents.settings, &Field::new(document, key.name.to_owned(), node))?;
            }
        }
        if let Some(mut entries) = root.take_section("mcpServers")? {
            for (label, entry) in entries.take_sections() {
                if let Err(error) = entry.and_then(|entry| contents.add(label, entry, defined_by, folder)) {
                    contents.broken.push((label.to_owned(), error));
                }
            }
        }
        let known = || SETTINGS.iter().map(|key| key.name).chain(["mcpServers"]);
        for (key, line) in root.keys().filter(|(key, _)| !SILENTLY_IGNORED.contains(key)) {
            contents.unknown_sections.push((key.to_owned(), document.place(line)));
            contents.warnings.push(Warning::unknown(document.place(line), key, key, known()));
        }
        Ok(contents)
    }

    /// The label of a server name and its place, including invalid entries.
    pub(crate) fn label_of(&self, name: &ServerName) -> Option<(&str, Place)> {
        let own = self.entries.iter().find(|entry| entry.name == *name);
        let own = own.map(|entry| (entry.label.as_str(), entry.source.place.clone()));
        let gives = |label: &str| ServerName::from_label(label).as_ref() == Ok(name);
        let broken = || self.broken.iter().find(|(label, _)| gives(label));
        own.or_else(|| broken().map(|(label, error)| (label.as_str(), error.place())))
    }

    fn add(
        &mut self,
        label: &str,
        entry: Section<'_>,
        defined_by: DefinedBy,
        folder: Option<&PathBuf>,
    ) -> Result<(), ConfigError> {
        let place = entry.place();
        let name = server::server_name(label, &entry)?;
        if let Some(other) = self.entries.iter().find(|other| other.name == name) {
            let (label, other) = (label.to_owned(), other.label.clone());
            return Err(ConfigError::DuplicateName { place, label, other, name: name.to_string() });
        }
        let base = place.file.parent().map(PathBuf::from).unwrap_or_default();
        let source = Source { place, format: Format::Toolway, defined_by, folder: folder.cloned(), base };
        let draft = server::read(entry, &mut self.warnings)?;
        for (key, place) in draft.keys_without_effect() {
            self.warnings.push(Warning::without_effect(place.clone(), &format!("mcpServers.{label}.{key}")));
        }
        self.entries.push(Entry { name, label: label.to_owned(), source, draft });
        Ok(())
    }
}

/// The error for a file of another format where Toolway's own is required.
fn of_other_format(document: &Document, format: Format) -> ConfigError {
    let file = document.file().display();
    let problem = format!(
        "the file has the format `{format}`, which is read but not changed; copy its servers to your own file with \
         `toolway import {file} --copy`"
    );
    ConfigError::Refused { place: document.place(0), problem }
}

/// A file with servers under an unknown key, or without any known key, is not understood.
fn refuse_other_containers(root: &Section<'_>) -> Result<(), ConfigError> {
    let keys: Vec<(&str, usize)> = root.keys().filter(|(key, _)| !SILENTLY_IGNORED.contains(key)).collect();
    if keys.iter().any(|(key, _)| *key == "mcpServers") {
        return Ok(());
    }
    let is_setting = |key: &str| SETTINGS.iter().any(|known| known.name == key);
    let container = keys.iter().find(|(key, _)| import::OTHER_CONTAINERS.contains(key));
    let first = keys.first().filter(|_| !keys.iter().any(|(key, _)| is_setting(key)));
    let Some((key, line)) = container.or(first) else { return Ok(()) };
    let known = SETTINGS.iter().map(|known| known.name).chain(["mcpServers"]);
    let problem = match warning::misspelled(key, known).filter(|_| container.is_none()) {
        Some(near) => format!("the file is not understood: unknown key `{key}`; did you mean `{near}`?"),
        None => format!("the file is not understood: unknown key `{key}`; servers are expected under `mcpServers`"),
    };
    Err(ConfigError::Refused { place: root.document().place(*line), problem })
}

// === impl Entry ===

impl Entry {
    pub(crate) fn finish(self) -> Result<ServerConfig, ConfigError> {
        self.draft.finish(self.name, &self.label, self.source)
    }
}

#[cfg(test)]
mod tests;
