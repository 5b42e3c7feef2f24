//! One file of another host while it is read.

use std::path::{Path, PathBuf};

use super::{FoundFile, Imported, SearchIn, rules::Rule};
use crate::{
    document::{Document, Section},
    error::ConfigError,
    interpolate::Dialect,
    server::{Behind, Draft, ServerConfig, ServerName, Source, Standing},
    shape::Field,
    warning::{Warning, WarningKind},
};

/// One file while it is read.
pub(super) struct Reading<'a> {
    pub(super) found: &'a FoundFile,
    pub(super) search: &'a SearchIn<'a>,
    pub(super) document: &'a Document,
    imported: &'a mut Imported,
    folder: Option<PathBuf>,
    base: PathBuf,
}

/// How the entries of a format are written.
#[derive(Clone, Copy)]
pub(super) struct Entries {
    pub(super) dialect: Dialect,
    /// What the keys mean, in the order they are read.
    pub(super) rules: &'static [&'static [(&'static str, Rule)]],
    /// Why an entry that was read is not used after all.
    pub(super) unusable: fn(&Draft, &Section<'_>) -> Option<String>,
}

impl Entries {
    fn rules(&self) -> impl Iterator<Item = &'static (&'static str, Rule)> {
        self.rules.iter().copied().flatten()
    }
}

/// Every entry is used.
pub(super) fn usable(_draft: &Draft, _entry: &Section<'_>) -> Option<String> {
    None
}

impl<'a> Reading<'a> {
    pub(super) fn new(
        found: &'a FoundFile,
        search: &'a SearchIn<'a>,
        document: &'a Document,
        imported: &'a mut Imported,
    ) -> Self {
        // A project's programs run in the project, a user's at home; never in the folder the file is in.
        let folder = match found.behind {
            Behind::Project => search.project,
            Behind::User | Behind::Program => search.home,
        };
        let base = folder.map(Path::to_owned).unwrap_or_default();
        Self { found, search, document, imported, folder: folder.map(Path::to_owned), base }
    }

    /// Paths in this file start somewhere else than usual.
    pub(super) fn set_base(&mut self, base: &Path) {
        self.base = base.to_owned();
    }

    /// The following entries are for this folder.
    pub(super) fn set_folder(&mut self, folder: &Path) {
        self.folder = Some(folder.to_owned());
        self.base = folder.to_owned();
    }

    /// Reads the entries under one key of the document, which is all that most hosts have.
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
                Err(error) => self.broken(label, &error),
            }
        }
    }

    /// An entry that cannot be read.
    pub(super) fn broken(&mut self, label: &str, error: &ConfigError) {
        self.set_aside(error.place(), label, &error.problem());
    }

    /// Reads one entry, or sets it aside.
    pub(super) fn entry(&mut self, label: &str, entry: Section<'_>, how: &Entries) {
        let place = entry.place();
        match self.server(label, entry, how) {
            Ok(Ok(server)) => self.imported.servers.push(server),
            Ok(Err(reason)) => self.set_aside(place, label, &reason),
            Err(error) => self.broken(label, &error),
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
            if let Some(ours) = rule.ours() {
                draft.origins.insert(ours, place.at(node.line));
            }
            let field = Field::new(self.document, name, node);
            rule.apply(&mut draft, &field, how.dialect)?;
            for (name, line, why) in rule.not_taken_over(&field) {
                self.imported.warnings.push(Warning::ignored(place.at(line), &name, why));
            }
        }
        for (key, line) in entry.keys() {
            let known = how.rules().map(|(key, _)| *key);
            let warning = Warning::unknown(place.at(line), &entry.name(key), key, known);
            // Another host's file is that host's to be strict about.
            self.imported.warnings.push(Warning { kind: WarningKind::IgnoredKey, ..warning });
        }
        if let Some(reason) = (how.unusable)(&draft, &whole) {
            return Ok(Err(reason));
        }
        let Ok(name) = ServerName::from_label(label) else {
            return Ok(Err("no name can be made from its label".to_owned()));
        };
        let (folder, base) = (self.folder.clone(), self.base.clone());
        let source = Source { place, format: self.found.format, behind: self.found.behind, folder, base };
        draft.finish(name, label, source).map(Ok)
    }

    fn set_aside(&mut self, place: crate::error::Place, label: &str, reason: &str) {
        self.imported.warnings.push(Warning::of_entry(WarningKind::SetAside, place, label, reason));
    }

    /// Adds something a person has to be asked for.
    pub(super) fn add_input(&mut self, input: super::Input) {
        self.imported.inputs.push(input);
    }

    /// The servers of this file that were read so far.
    pub(super) fn servers_mut(&mut self) -> &mut [ServerConfig] {
        &mut self.imported.servers
    }

    /// Switches off the servers with these labels.
    pub(super) fn disable(&mut self, labels: &[String]) {
        for server in self.imported.servers.iter_mut().filter(|server| labels.contains(&server.label)) {
            server.standing = Standing::Disabled;
        }
    }

    /// Another file of the same host, if it is there and can be read.
    pub(super) fn beside(&self, file: &Path) -> Option<Document> {
        file.is_file().then(|| Document::read(file).ok()).flatten()
    }
}
