//! Reader of one file of another host.

use std::path::{Path, PathBuf};

use super::{FoundFile, Imported, SearchRoots, rules::KeyRule};
use crate::{
    document::{Document, Section},
    error::{ConfigError, Place},
    interpolate::Dialect,
    server::{self, DefinedBy, Draft, ServerConfig, ServerName, Source, Standing},
    settings::{SETTINGS, Settings},
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
    pub(super) rules: &'static [&'static [(&'static str, KeyRule)]],
    /// Why an entry is not used; `None` if it is usable.
    pub(super) unusable: fn(&Draft, &Section<'_>) -> Option<String>,
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

    /// Reads each entry of an object by the rules of Toolway's own entries.
    pub(super) fn own_entries(&mut self, mut entries: Section<'_>) {
        for (label, entry) in entries.take_sections() {
            match entry {
                Ok(entry) => self.own_entry(label, entry),
                Err(error) => self.skip_invalid(label, &error),
            }
        }
    }

    /// Reads one entry by the rules of Toolway's own entries, or skips it with a warning.
    pub(super) fn own_entry(&mut self, label: &str, entry: Section<'_>) {
        let place = entry.place();
        let read = server::server_name(label, &entry).and_then(|name| {
            let draft = server::read(entry, &mut self.imported.warnings)?;
            for (key, place) in draft.keys_without_effect() {
                self.imported.warnings.push(Warning::without_effect(place.clone(), &format!("{label}.{key}")));
            }
            draft.finish(name, label, self.source(place))
        });
        match read {
            Ok(server) => self.imported.servers.push(server),
            Err(error) => self.skip_invalid(label, &error),
        }
    }

    fn source(&self, place: Place) -> Source {
        let FoundFile { format, defined_by, .. } = *self.found;
        Source { place, format, defined_by, folder: self.folder.clone(), base: self.base.clone() }
    }

    /// Skips an invalid entry with a warning.
    pub(super) fn skip_invalid(&mut self, label: &str, error: &ConfigError) {
        self.skip(error.place(), label, &error.problem());
    }

    /// Reads one entry, or skips it with a warning.
    pub(super) fn entry(&mut self, label: &str, entry: Section<'_>, how: &Entries) {
        self.entry_with(label, entry, how, Draft::default());
    }

    /// Reads one entry; `defaults` has the values of keys that it does not set.
    pub(super) fn entry_with(&mut self, label: &str, entry: Section<'_>, how: &Entries, defaults: Draft) {
        let place = entry.place();
        match self.server(label, entry, how, defaults) {
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
        mut draft: Draft,
    ) -> Result<Result<ServerConfig, String>, ConfigError> {
        let place = entry.place();
        let whole = entry.clone();
        self.apply(&mut draft, &mut entry, how.rules, how.dialect)?;
        if let Some(reason) = (how.unusable)(&draft, &whole) {
            return Ok(Err(reason));
        }
        if let Some(header) = draft.duplicate_auth_header() {
            return Ok(Err(format!("its authentication and its headers both set `{header}`")));
        }
        let Ok(name) = ServerName::from_label(label) else {
            return Ok(Err("its label does not give a valid server name (1 to 64 characters)".to_owned()));
        };
        draft.finish(name, label, self.source(place)).map(Ok)
    }

    /// Applies the rules to the keys of an object, and warns about the other keys.
    fn apply(
        &mut self,
        draft: &mut Draft,
        entry: &mut Section<'_>,
        rules: &[&'static [(&'static str, KeyRule)]],
        dialect: Dialect,
    ) -> Result<(), ConfigError> {
        let place = entry.place();
        for (key, rule) in rules.iter().copied().flatten() {
            if let KeyRule::Inside(rules) = rule {
                if let Some(mut inside) = entry.take_section(key)? {
                    self.apply(draft, &mut inside, &[*rules], dialect)?;
                }
                continue;
            }
            let name = entry.name(key);
            let Some(node) = entry.take(key) else { continue };
            if let Some(own_key) = rule.own_key() {
                draft.origins.insert(own_key, place.at(node.line));
            }
            let field = Field::new(self.document, name, node);
            rule.apply(draft, &field, dialect)?;
            for (name, line, why) in rule.ignored(&field) {
                self.imported.warnings.push(Warning::ignored(place.at(line), &name, why));
            }
        }
        let known = rules.iter().copied().flatten().map(|(key, _)| *key);
        self.warn_about_unknown(entry, &known);
        Ok(())
    }

    /// Warns about the remaining keys of an object. Unknown keys in files of other hosts are never errors.
    pub(super) fn warn_about_unknown<'k>(
        &mut self,
        section: &Section<'_>,
        known: &(impl Iterator<Item = &'k str> + Clone),
    ) {
        for (key, line) in section.keys() {
            let warning = Warning::unknown(section.place().at(line), &section.name(key), key, known.clone());
            self.imported.warnings.push(Warning { kind: WarningKind::IgnoredKey, ..warning });
        }
    }

    /// Warns about settings of Toolway in a file of another format, where they have no effect.
    pub(super) fn warn_about_own_settings(&mut self, root: &Section<'_>) {
        for (key, line) in root.keys().filter(|(key, _)| SETTINGS.iter().any(|own| own.name == *key)) {
            let message = format!("`{key}` has no effect in a file of this format; set it in your own file");
            let place = root.place().at(line);
            self.imported.warnings.push(Warning { place, message, kind: WarningKind::IgnoredKey, unused: None });
        }
    }

    /// Warns about a key that is ignored.
    pub(super) fn warn_ignored(&mut self, place: Place, name: &str, why: &str) {
        self.imported.warnings.push(Warning::ignored(place, name, why));
    }

    /// Settings of the file for all its servers.
    pub(super) fn settings_mut(&mut self) -> &mut Settings {
        &mut self.imported.settings
    }

    fn skip(&mut self, place: Place, label: &str, reason: &str) {
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
