//! Copies servers of other applications to our file, with an outcome for each.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;
use toolway_config::{
    Config, Loaded, Secret, SecretName, ServerConfig, ServerName,
    document::Document,
    edit::{Change, Edit, edit_text, replace_config, turn_off_in_agent},
    import::{Imported, Input, copy, input_secret},
    server::DefinedBy,
};
use toolway_host::record::kind;

use super::SourceFile;
use crate::{
    app::App,
    commands::{
        secret,
        servers::apply_edit::{cannot_write, lock, own_file, project_file},
    },
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
    Copied(CopiedSecrets),
    /// The file is YAML; the user has to add these lines.
    ManualEdit(CopiedSecrets, String),
    /// Not copied, and why.
    Skipped(String),
}

/// The secrets of one copied entry.
pub(super) struct CopiedSecrets {
    /// Those that were in clear.
    pub(super) entry: EntrySecrets,
    /// Inputs that have no value yet, by the name of the secret that the entry refers to.
    pub(super) missing: Vec<MissingInput>,
}

/// An input without a value.
#[derive(Clone)]
pub(super) struct MissingInput {
    pub(super) name: SecretName,
    pub(super) input: Input,
}

/// Values of inputs that the user entered, by the name of the secret.
pub(super) type EnteredInputs = BTreeMap<SecretName, Secret>;

/// Whether anything is written and stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Preview,
    Apply,
}

/// What [`copy_all`] would do now; writes and stores nothing.
pub(super) fn preview(files: &[SourceFile], destination: Destination, app: &App) -> Result<Copied, Report> {
    let loaded = app.load()?;
    let CopyBatch { file, entries, .. } =
        batch(files, destination, Pass::Preview, &VaultAccess { app, loaded: &loaded })?;
    Ok(Copied { file, entries })
}

pub(super) fn copy_all(
    files: &[SourceFile],
    destination: Destination,
    entered: &EnteredInputs,
    app: &App,
) -> Result<Copied, Report> {
    let _lock = lock(app)?;
    let loaded = app.load()?;
    let secrets = app.secrets(&loaded.config.settings);
    for (name, value) in entered {
        secrets.set(name, value).map_err(|error| secret::failed(&error))?;
        app.audit(kind::SECRET, None, Some(name.as_str()), &json!({ "change": "stored" }));
    }
    let CopyBatch { file, before, text, entries, stored, .. } =
        batch(files, destination, Pass::Apply, &VaultAccess { app, loaded: &loaded })?;
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

fn batch(
    files: &[SourceFile],
    destination: Destination,
    pass: Pass,
    vault: &VaultAccess<'_>,
) -> Result<CopyBatch, Report> {
    let VaultAccess { app, loaded } = vault;
    let (file, folder) = match destination {
        Destination::User => (own_file(loaded)?, app.paths.home.clone()),
        Destination::Project => {
            let file = project_file(app)?;
            let folder = file.parent().map(Path::to_owned);
            (file, folder)
        }
    };
    let mut batch = CopyBatch::new(file, folder, destination, pass)?;
    for imported in files.iter().filter_map(|read| read.imported.as_ref().ok()) {
        for server in &imported.servers {
            batch.add(server, imported, vault);
        }
        batch.turn_off(&imported.turned_off)?;
    }
    Ok(batch)
}

struct CopyBatch {
    file: PathBuf,
    /// Text of the file before.
    before: String,
    text: String,
    /// Working directory of stdio servers defined in the file.
    folder: Option<PathBuf>,
    destination: Destination,
    pass: Pass,
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

impl CopyBatch {
    fn new(file: PathBuf, folder: Option<PathBuf>, destination: Destination, pass: Pass) -> Result<Self, Report> {
        let before = fs::read_to_string(&file).unwrap_or_default();
        let known = Config::names(&Document::of(&file, &before)?)?;
        let text = before.clone();
        Ok(Self { file, before, text, folder, destination, pass, known, entries: Vec::new(), stored: Vec::new() })
    }

    fn add(&mut self, server: &ServerConfig, imported: &Imported, vault: &VaultAccess<'_>) {
        let origin = EntryOrigin {
            label: server.label.clone(),
            name: server.name.clone(),
            host: server.source.format.as_str(),
            place: server.source.place.to_string(),
        };
        if self.entries.iter().any(|(other, _)| other.place == origin.place && other.label == origin.label) {
            return;
        }
        let outcome = self.put(server, imported, vault).unwrap_or_else(CopyOutcome::Skipped);
        self.entries.push((origin, outcome));
    }

    /// Turns off in the user's file what the imported file turns off for all servers. A project cannot have these keys.
    fn turn_off(&mut self, keys: &[&str]) -> Result<(), Report> {
        if self.destination == Destination::User && self.text != self.before {
            for key in keys {
                self.text = turn_off_in_agent(&self.file, &self.text, key)?;
            }
        }
        Ok(())
    }

    fn put(
        &mut self,
        server: &ServerConfig,
        imported: &Imported,
        vault: &VaultAccess<'_>,
    ) -> Result<CopyOutcome, String> {
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
        let change = edit_text(&edit, None, &self.file, &self.text).map_err(|error| error.to_string())?;
        if self.pass == Pass::Apply {
            self.stored.push(secrets.store(app).map_err(reason)?);
        }
        let secrets = CopiedSecrets { entry: secrets, missing: vault.missing(server, imported).map_err(reason)? };
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

impl VaultAccess<'_> {
    /// The inputs of a server that have no value yet.
    fn missing(&self, server: &ServerConfig, imported: &Imported) -> Result<Vec<MissingInput>, Report> {
        let secrets = self.app.secrets(&self.loaded.config.settings);
        let mut missing = Vec::new();
        for input in imported.inputs_of(server) {
            let name = input_secret(server, &input.id);
            if secrets.get(&name).map_err(|error| secret::failed(&error))?.is_none() {
                missing.push(MissingInput { name, input: input.clone() });
            }
        }
        Ok(missing)
    }
}
