//! Copies servers of other applications to our file, with an outcome for each.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;
use toolway_config::{
    Config, Loaded, ServerConfig, ServerName,
    document::Document,
    edit::{Change, Edit, edit_text, replace_config},
    import::copy,
    server::DefinedBy,
};
use toolway_host::record::kind;

use super::SourceFile;
use crate::{
    app::App,
    commands::servers::apply_edit::{cannot_write, lock, own_file, project_file},
    entry_secrets::{EntrySecrets, StoredForEntry},
    report::Report,
};

/// The file to copy to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    User,
    Project,
}

/// Result of copying.
pub(super) struct Copied {
    pub(super) file: PathBuf,
    pub(super) entries: Vec<(EntryOrigin, CopyOutcome)>,
}

/// The entry that was copied.
pub(super) struct EntryOrigin {
    pub(super) label: String,
    pub(super) name: ServerName,
    pub(super) host: &'static str,
    pub(super) place: String,
}

/// Outcome of one entry.
pub(super) enum CopyOutcome {
    /// Copied to the file.
    Copied(EntrySecrets),
    /// The file is YAML; the user has to add these lines.
    ManualEdit(EntrySecrets, String),
    /// Not copied, and why.
    Skipped(String),
}

pub(super) fn copy_all(files: &[SourceFile], destination: Destination, app: &App) -> Result<Copied, Report> {
    let _lock = lock(app)?;
    let loaded = app.load()?;
    let (file, folder) = match destination {
        Destination::User => (own_file(&loaded)?, app.paths.home.clone()),
        Destination::Project => {
            let file = project_file(app)?;
            let folder = file.parent().map(Path::to_owned);
            (file, folder)
        }
    };
    let before = fs::read_to_string(&file).unwrap_or_default();
    let mut batch = CopyBatch::new(&file, &before, folder, destination)?;
    let vault = VaultAccess { app, loaded: &loaded };
    for server in files.iter().filter_map(|read| read.imported.as_ref().ok()).flat_map(|imported| &imported.servers) {
        batch.add(server, &vault);
    }
    let CopyBatch { text, entries, stored, .. } = batch;
    if text != before {
        if let Err(error) = replace_config(&file, &text) {
            stored.into_iter().rev().for_each(StoredForEntry::undo);
            return Err(cannot_write(&file, &error));
        }
        let copied = entries.iter().filter(|(_, outcome)| matches!(outcome, CopyOutcome::Copied(_)));
        let servers: Vec<&str> = copied.map(|(origin, _)| origin.name.as_str()).collect();
        let details = json!({ "change": "imported", "file": file, "servers": servers });
        app.audit(kind::CONFIGURATION, None, None, &details);
    }
    Ok(Copied { file, entries })
}

struct CopyBatch<'a> {
    file: &'a Path,
    text: String,
    /// Working directory of stdio servers defined in the file.
    folder: Option<PathBuf>,
    destination: Destination,
    known: BTreeSet<ServerName>,
    entries: Vec<(EntryOrigin, CopyOutcome)>,
    /// Secrets of the entries, which are stored before the file is written.
    stored: Vec<StoredForEntry>,
}

/// Where the secrets of copied entries go.
struct VaultAccess<'a> {
    app: &'a App,
    loaded: &'a Loaded,
}

impl<'a> CopyBatch<'a> {
    fn new(file: &'a Path, text: &str, folder: Option<PathBuf>, destination: Destination) -> Result<Self, Report> {
        let known = Config::names(&Document::of(file, text)?)?;
        Ok(Self { file, text: text.to_owned(), folder, destination, known, entries: Vec::new(), stored: Vec::new() })
    }

    fn add(&mut self, server: &ServerConfig, vault: &VaultAccess<'_>) {
        let origin = EntryOrigin {
            label: server.label.clone(),
            name: server.name.clone(),
            host: server.source.format.as_str(),
            place: server.source.place.to_string(),
        };
        if self.entries.iter().any(|(other, _)| other.place == origin.place && other.label == origin.label) {
            return;
        }
        let outcome = self.put(server, vault).unwrap_or_else(CopyOutcome::Skipped);
        self.entries.push((origin, outcome));
    }

    fn put(&mut self, server: &ServerConfig, vault: &VaultAccess<'_>) -> Result<CopyOutcome, String> {
        match (self.destination, server.source.defined_by) {
            (Destination::User, DefinedBy::Project) => {
                return Err(
                    "it comes from a project file; use --project to copy it to the project's toolway.json".to_owned()
                );
            }
            (Destination::Project, DefinedBy::User | DefinedBy::Program) => {
                return Err("it comes from your user files; omit --project to copy it".to_owned());
            }
            _ => {}
        }
        if self.known.contains(&server.name) {
            return Err(format!("server `{}` already exists", server.name));
        }
        let copied = copy(server, self.folder.as_deref()).map_err(|error| error.to_string())?;
        let VaultAccess { app, loaded } = vault;
        let reason = |report: Report| report.with_advice();
        let (entry, secrets) = app.detach_entry(&server.name, &copied.entry, loaded).map_err(reason)?;
        let edit = Edit::Add { label: copied.label.clone(), entry };
        let change = edit_text(&edit, None, self.file, &self.text).map_err(|error| error.to_string())?;
        self.stored.push(secrets.store(app).map_err(reason)?);
        let outcome = match change {
            Change::Text { text, .. } => {
                self.text = text;
                CopyOutcome::Copied(secrets)
            }
            Change::Lines { lines, .. } => CopyOutcome::ManualEdit(secrets, lines),
        };
        self.known.insert(server.name.clone());
        Ok(outcome)
    }
}
