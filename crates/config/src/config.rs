//! The whole document: servers by name, what holds for all of them, and what was odd about it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::{
    document::{Document, Section},
    error::{ConfigError, Place},
    server::{self, Behind, Clocks, Draft, Format, ServerConfig, ServerName, Source, Start},
    settings::{SETTINGS, Settings},
    shape::Field,
    warning::{Warning, Warnings},
};

/// What the operator wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The servers, by name.
    pub servers: BTreeMap<ServerName, ServerConfig>,
    /// What holds for all of them.
    pub settings: Settings,
    /// What was read past, for the operator.
    pub warnings: Vec<Warning>,
}

/// What one file of ours says.
#[derive(Debug, Default)]
pub(crate) struct FileContents {
    pub(crate) entries: Vec<Entry>,
    /// Entries that cannot be read, each with its label.
    pub(crate) broken: Vec<(String, ConfigError)>,
    pub(crate) settings: Settings,
    pub(crate) warnings: Warnings,
    /// Keys of the document that nobody knows.
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

/// Keys of the document that are not ours and not odd.
const NOT_ODD: [&str; 1] = ["$schema"];

// === impl Config ===

impl Config {
    /// Reads one file, all of it or nothing; `folder` is where its programs run when an entry does not say.
    pub fn read(file: &Path, folder: Option<&PathBuf>) -> Result<Self, ConfigError> {
        Self::of(&Document::read(file)?, folder)
    }

    /// Reads one document, all of it or nothing.
    pub fn of(document: &Document, folder: Option<&PathBuf>) -> Result<Self, ConfigError> {
        let contents = FileContents::of(document, Behind::User, folder)?;
        if let Some((_, error)) = contents.broken.into_iter().next() {
            return Err(error);
        }
        let mut config = Self { settings: contents.settings, warnings: contents.warnings, ..Self::default() };
        for entry in contents.entries {
            config.servers.insert(entry.name.clone(), entry.finish()?);
        }
        Ok(config)
    }

    /// The names a document gives, those of entries that cannot be used included.
    pub fn names(document: &Document) -> Result<BTreeSet<ServerName>, ConfigError> {
        let contents = FileContents::of(document, Behind::User, None)?;
        let broken = contents.broken.iter().filter_map(|(label, _)| ServerName::from_label(label).ok());
        Ok(broken.chain(contents.entries.iter().map(|entry| entry.name.clone())).collect())
    }

    /// The server a person means: by name, or by the label as it was pasted.
    pub fn find(&self, wanted: &str) -> Option<&ServerConfig> {
        ServerName::from_label(wanted).ok().and_then(|name| self.servers.get(&name))
    }

    /// When a server is connected.
    pub fn start(&self, server: &ServerConfig) -> Start {
        server.start.unwrap_or(self.settings.start.value)
    }

    /// The clocks of a server, with the defaults put in.
    pub fn clocks(&self, server: &ServerConfig) -> Clocks {
        server.timeouts.clocks(self.settings.request_timeout.value)
    }
}

// === impl FileContents ===

impl FileContents {
    pub(crate) fn of(document: &Document, behind: Behind, folder: Option<&PathBuf>) -> Result<Self, ConfigError> {
        let mut contents = Self::default();
        let mut root = document.root()?;
        for key in SETTINGS {
            if let Some(node) = root.take(key.name) {
                (key.set)(&mut contents.settings, &Field::new(document, key.name.to_owned(), node))?;
            }
        }
        if let Some(mut entries) = root.take_section("mcpServers")? {
            for (label, entry) in entries.take_sections() {
                if let Err(error) = entry.and_then(|entry| contents.add(label, entry, behind, folder)) {
                    contents.broken.push((label.to_owned(), error));
                }
            }
        }
        let known = || SETTINGS.iter().map(|key| key.name).chain(["mcpServers"]);
        for (key, line) in root.keys().filter(|(key, _)| !NOT_ODD.contains(key)) {
            contents.unknown_sections.push((key.to_owned(), document.place(line)));
            contents.warnings.push(Warning::unknown(document.place(line), key, key, known()));
        }
        Ok(contents)
    }

    /// The label that gives a name, and where it stands; one that cannot be used has it too.
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
        behind: Behind,
        folder: Option<&PathBuf>,
    ) -> Result<(), ConfigError> {
        let place = entry.place();
        let name = server::server_name(label, &entry)?;
        if let Some(other) = self.entries.iter().find(|other| other.name == name) {
            let (label, other) = (label.to_owned(), other.label.clone());
            return Err(ConfigError::SameName { place, label, other, name: name.to_string() });
        }
        let base = place.file.parent().map(PathBuf::from).unwrap_or_default();
        let source = Source { place, format: Format::Toolway, behind, folder: folder.cloned(), base };
        let draft = server::read(entry, &mut self.warnings)?;
        for (key, place) in draft.beside_the_point() {
            self.warnings.push(Warning::beside_the_point(place.clone(), &format!("mcpServers.{label}.{key}")));
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
