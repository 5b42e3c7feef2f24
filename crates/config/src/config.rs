//! The whole document: servers by name, settings and warnings.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::{
    document::{Document, Section},
    error::{ConfigError, Place},
    server::{self, DefinedBy, Draft, EffectiveTimeouts, Format, ServerConfig, ServerName, Source, Start},
    settings::{SETTINGS, Settings},
    shape::Field,
    warning::{Warning, Warnings},
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
        let contents = FileContents::of(document, DefinedBy::User, folder)?;
        if let Some((_, error)) = contents.broken.into_iter().next() {
            return Err(error);
        }
        let mut config = Self { settings: contents.settings, warnings: contents.warnings, ..Self::default() };
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

    /// Timeouts of a server, with the defaults applied.
    pub fn timeouts(&self, server: &ServerConfig) -> EffectiveTimeouts {
        server.timeouts.effective(self.settings.request_timeout.value)
    }
}

// === impl FileContents ===

impl FileContents {
    pub(crate) fn of(
        document: &Document,
        defined_by: DefinedBy,
        folder: Option<&PathBuf>,
    ) -> Result<Self, ConfigError> {
        let mut contents = Self::default();
        let mut root = document.root()?;
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

// === impl Entry ===

impl Entry {
    pub(crate) fn finish(self) -> Result<ServerConfig, ConfigError> {
        self.draft.finish(self.name, &self.label, self.source)
    }
}

#[cfg(test)]
mod tests;
