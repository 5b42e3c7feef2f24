//! Reader of one file of another host.

use std::path::{Path, PathBuf};

use super::{FoundFile, Imported, SearchRoots, rules::Rule};
use crate::{
    document::{Document, Section},
    error::ConfigError,
    interpolate::Dialect,
    server::{DefinedBy, Draft, ServerConfig, ServerName, Source, Standing},
    shape::Field,
    warning::{Warning, WarningKind},
};

/// Reads one file into [`Imported`].
pub(super) struct FileReader<'a> {
    pub(super) found: &'a FoundFile,
    pub(super) search: &'a SearchRoots<'a>,
    pub(super) document: &'a Document,
    imported: &'a mut Imported,
    folder: Option<PathBuf>,
    base: PathBuf,
}

/// Rules for the entries of a format.
#[derive(Clone, Copy)]
pub(super) struct Entries {
    pub(super) dialect: Dialect,
    /// Meaning of the keys, in reading order.
    pub(super) rules: &'static [&'static [(&'static str, Rule)]],
    /// Why an entry is not used; `None` if it is usable.
    pub(super) unusable: fn(&Draft, &Section<'_>) -> Option<String>,
}

impl Entries {
    fn rules(&self) -> impl Iterator<Item = &'static (&'static str, Rule)> {
        self.rules.iter().copied().flatten()
    }
}

/// For formats in which every entry is usable.
pub(super) fn usable(_draft: &Draft, _entry: &Section<'_>) -> Option<String> {
    None
}

impl<'a> FileReader<'a> {
    pub(super) fn new(
        found: &'a FoundFile,
        search: &'a SearchRoots<'a>,
        document: &'a Document,
        imported: &'a mut Imported,
    ) -> Self {
        // Programs of a project run in the project folder, those of the user in the home directory.
        let folder = match found.defined_by {
            DefinedBy::Project => search.project,
            DefinedBy::User | DefinedBy::Program => search.home,
        };
        let base = folder.map(Path::to_owned).unwrap_or_default();
        Self { found, search, document, imported, folder: folder.map(Path::to_owned), base }
    }

    /// Sets the base of relative paths.
    pub(super) fn set_base(&mut self, base: &Path) {
        self.base = base.to_owned();
    }

    /// Sets the working directory and the base of the following entries.
    pub(super) fn set_folder(&mut self, folder: &Path) {
        self.folder = Some(folder.to_owned());
        self.base = folder.to_owned();
    }

    /// Reads the entries under one top-level key, which is enough for most hosts.
    pub(super) fn container(&mut self, key: &str, how: &Entries) -> Result<(), ConfigError> {
        if let Some(entries) = self.document.root()?.take_section(key)? {
            self.entries(entries, how);
        }
        Ok(())
    }

    /// Reads each entry of an object.
    pub(super) fn entries(&mut self, mut entries: Section<'_>, how: &Entries) {
        for (label, entry) in entries.take_sections() {
            match entry {
                Ok(entry) => self.entry(label, entry, how),
                Err(error) => self.skip_invalid(label, &error),
            }
        }
    }

    /// Skips an invalid entry with a warning.
    pub(super) fn skip_invalid(&mut self, label: &str, error: &ConfigError) {
        self.skip(error.place(), label, &error.problem());
    }

    /// Reads one entry, or skips it with a warning.
    pub(super) fn entry(&mut self, label: &str, entry: Section<'_>, how: &Entries) {
        let place = entry.place();
        match self.server(label, entry, how) {
            Ok(Ok(server)) => self.imported.servers.push(server),
            Ok(Err(reason)) => self.skip(place, label, &reason),
            Err(error) => self.skip_invalid(label, &error),
        }
    }

    fn server(
        &mut self,
        label: &str,
        mut entry: Section<'_>,
        how: &Entries,
    ) -> Result<Result<ServerConfig, String>, ConfigError> {
        let place = entry.place();
        let whole = entry.clone();
        let mut draft = Draft::default();
        for (key, rule) in how.rules() {
            let name = entry.name(key);
            let Some(node) = entry.take(key) else { continue };
            if let Some(own_key) = rule.own_key() {
                draft.origins.insert(own_key, place.at(node.line));
            }
            let field = Field::new(self.document, name, node);
            rule.apply(&mut draft, &field, how.dialect)?;
            for (name, line, why) in rule.ignored(&field) {
                self.imported.warnings.push(Warning::ignored(place.at(line), &name, why));
            }
        }
        for (key, line) in entry.keys() {
            let known = how.rules().map(|(key, _)| *key);
            let warning = Warning::unknown(place.at(line), &entry.name(key), key, known);
            // Unknown keys in files of other hosts are never errors.
            self.imported.warnings.push(Warning { kind: WarningKind::IgnoredKey, ..warning });
        }
        if let Some(reason) = (how.unusable)(&draft, &whole) {
            return Ok(Err(reason));
        }
        let Ok(name) = ServerName::from_label(label) else {
            return Ok(Err("its label gives no valid server name".to_owned()));
        };
        let (folder, base) = (self.folder.clone(), self.base.clone());
        let source = Source { place, format: self.found.format, defined_by: self.found.defined_by, folder, base };
        draft.finish(name, label, source).map(Ok)
    }

    fn skip(&mut self, place: crate::error::Place, label: &str, reason: &str) {
        self.imported.warnings.push(Warning::of_entry(WarningKind::SetAside, place, label, reason));
    }

    /// Adds an input.
    pub(super) fn add_input(&mut self, input: super::Input) {
        self.imported.inputs.push(input);
    }

    /// Servers read so far.
    pub(super) fn servers_mut(&mut self) -> &mut [ServerConfig] {
        &mut self.imported.servers
    }

    /// Disables the servers with these labels.
    pub(super) fn disable(&mut self, labels: &[String]) {
        for server in self.imported.servers.iter_mut().filter(|server| labels.contains(&server.label)) {
            server.standing = Standing::Disabled;
        }
    }

    /// Reads another file of the same host; `None` if it does not exist or cannot be read.
    pub(super) fn read_other(&self, file: &Path) -> Option<Document> {
        file.is_file().then(|| Document::read(file).ok()).flatten()
    }
}
