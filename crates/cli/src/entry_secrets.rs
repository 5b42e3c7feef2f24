//! Secrets of an entry that a command writes: they go to the vault, and the entry refers to them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolway_config::{
    Loaded, Secret, SecretName, ServerName,
    clear::{Detached, DetachedSecret, SecretNames, detach, detach_changes},
    edit::{Edit, NewValue},
    secret_uses::SecretUse,
};
use toolway_host::record::kind;
use toolway_vault::SecretStore;

use crate::{app::App, commands::secret, report::Report};

/// The secrets of one entry, not stored yet.
#[derive(Debug)]
pub(crate) struct EntrySecrets {
    server: ServerName,
    store: SecretStore,
    secrets: Vec<DetachedSecret>,
}

/// Secrets that were stored for an entry. If the entry cannot be written, they are removed again.
#[must_use]
pub(crate) struct StoredForEntry {
    store: SecretStore,
    /// What the vault had under each name before.
    before: Vec<(SecretName, Option<Secret>)>,
}

/// Chooses names that are free in the vault, or have the same value, or belong to the value that is replaced.
struct FreeNames<'a> {
    server: &'a ServerName,
    store: SecretStore,
    uses: Vec<SecretUse>,
    chosen: BTreeMap<SecretName, Secret>,
}

impl App {
    /// The entry with references in place of its secrets.
    pub(crate) fn detach_entry(
        &self,
        server: &ServerName,
        entry: &NewValue,
        loaded: &Loaded,
    ) -> Result<(NewValue, EntrySecrets), Report> {
        let mut names = FreeNames::of(server, self, loaded);
        let Detached { entry, secrets } = detach(server, entry, &mut names)?;
        Ok((entry, names.found(secrets)))
    }

    /// The edit with references in place of the secrets that it would write.
    pub(crate) fn detach_edit(
        &self,
        server: &ServerName,
        edit: &Edit,
        loaded: &Loaded,
    ) -> Result<(Edit, EntrySecrets), Report> {
        let mut names = FreeNames::of(server, self, loaded);
        match edit {
            Edit::Add { label, entry } => {
                let Detached { entry, secrets } = detach(server, entry, &mut names)?;
                Ok((Edit::Add { label: label.clone(), entry }, names.found(secrets)))
            }
            Edit::Update { name, changes } => {
                let Detached { entry: changes, secrets } = detach_changes(server, changes, &mut names)?;
                Ok((Edit::Update { name: name.clone(), changes }, names.found(secrets)))
            }
            Edit::Remove { .. } | Edit::Enable { .. } | Edit::Disable { .. } => {
                Ok((edit.clone(), names.found(Vec::new())))
            }
        }
    }
}

impl<'a> FreeNames<'a> {
    fn of(server: &'a ServerName, app: &App, loaded: &Loaded) -> Self {
        let store = app.secrets(&loaded.config.settings);
        Self { server, store, uses: loaded.secret_uses(), chosen: BTreeMap::new() }
    }

    fn found(self, secrets: Vec<DetachedSecret>) -> EntrySecrets {
        EntrySecrets { server: self.server.clone(), store: self.store, secrets }
    }

    /// Whether the secret is used for this key of this server, and for nothing else that is known.
    fn is_replaced(&self, name: &SecretName, key: &str) -> bool {
        let mut uses = self.uses.iter().filter(|used| used.name == *name).peekable();
        let is_here = |used: &SecretUse| {
            used.server.as_deref() == Some(self.server.as_str()) && used.key.ends_with(&format!(".{key}"))
        };
        uses.peek().is_some() && uses.all(is_here)
    }
}

impl SecretNames for FreeNames<'_> {
    type Error = Report;

    fn choose(&mut self, wanted: SecretName, key: &str, value: &Secret) -> Result<SecretName, Report> {
        for name in wanted.candidates() {
            let is_free = match self.chosen.get(&name) {
                Some(chosen) => chosen == value,
                None => match self.store.get(&name).map_err(|error| secret::failed(&error))? {
                    Some(held) => held == *value || self.is_replaced(&name, key),
                    None => true,
                },
            };
            if is_free {
                self.chosen.insert(name.clone(), value.clone());
                return Ok(name);
            }
        }
        Ok(wanted)
    }
}

impl EntrySecrets {
    /// Stores the secrets. Nothing was stored if it fails.
    pub(crate) fn store(&self, app: &App) -> Result<StoredForEntry, Report> {
        let mut stored = StoredForEntry { store: self.store.clone(), before: Vec::new() };
        for detached in &self.secrets {
            let DetachedSecret { key, name, value } = detached;
            let before = self.store.get(name);
            let done = before.and_then(|before| {
                stored.before.push((name.clone(), before));
                self.store.set(name, value)
            });
            if let Err(error) = done {
                stored.undo();
                let report = secret::failed(&error);
                let message =
                    format!("the secret in `{key}` of `{}` cannot be stored: {}", self.server, report.message);
                return Err(Report { message, ..report });
            }
        }
        for detached in &self.secrets {
            let details = json!({ "change": "stored", "key": detached.key });
            app.audit(kind::SECRET, Some(self.server.as_str()), Some(detached.name.as_str()), &details);
        }
        Ok(stored)
    }

    /// Number of secrets.
    pub(crate) fn count(&self) -> usize {
        self.secrets.len()
    }

    /// A value in which each reference to one of these secrets is replaced by the secret: they are not stored yet.
    pub(crate) fn put_back(&self, value: &NewValue) -> NewValue {
        match value {
            NewValue::Flag(_) | NewValue::Number(_) => value.clone(),
            NewValue::Text(text) => NewValue::Text(self.secrets.iter().fold(text.clone(), |text, one| {
                // A literal text; the rest of it is written as in the file.
                text.replace(&one.name.reference(), &one.value.expose().replace("${", "$${"))
            })),
            NewValue::List(elements) => NewValue::List(elements.iter().map(|element| self.put_back(element)).collect()),
            NewValue::Object(members) => {
                NewValue::Object(members.iter().map(|(key, value)| (key.clone(), self.put_back(value))).collect())
            }
        }
    }

    /// What happened to the secrets, as one sentence; `None` if there are none.
    pub(crate) fn sentence(&self) -> Option<String> {
        let place = self.store.place();
        match self.secrets.as_slice() {
            [] => None,
            [DetachedSecret { key, name, .. }] => Some(format!(
                "the secret in `{key}` of `{}` is stored as `{name}` in {place}, and the file refers to it",
                self.server
            )),
            several => {
                let names: Vec<String> = several.iter().map(|one| format!("`{}` as `{}`", one.key, one.name)).collect();
                let (server, count) = (&self.server, several.len());
                let names = names.join(", ");
                Some(format!(
                    "{count} secrets of `{server}` are stored in {place}, and the file refers to them: {names}"
                ))
            }
        }
    }

    /// What will happen to the secrets, before it does.
    pub(crate) fn preview(&self) -> Vec<String> {
        let will = |one: &DetachedSecret| {
            format!("the secret in `{}` will be stored in the vault as `{}`, not in the file", one.key, one.name)
        };
        self.secrets.iter().map(will).collect()
    }

    /// Keys and names for scripts, without values.
    pub(crate) fn view(&self) -> Value {
        let view = |one: &DetachedSecret| json!({ "key": one.key, "name": one.name.as_str() });
        self.secrets.iter().map(view).collect()
    }
}

impl StoredForEntry {
    /// The entry was not written: the vault becomes what it was.
    pub(crate) fn undo(self) {
        for (name, before) in self.before.iter().rev() {
            let undone = match before {
                Some(value) => self.store.set(name, value),
                None => self.store.remove(name).map(drop),
            };
            if let Err(error) = undone {
                tracing::error!(%name, "the secret of an entry that was not written is still stored: {error}");
            }
        }
    }
}
