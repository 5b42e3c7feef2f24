//! Secrets of the user, by name: what `${secret:NAME}` refers to. They are kept in the vault beside the credentials.
//!
//! The functions block the calling thread, because configuration is resolved in code that is not async; a multi-threaded
//! runtime is told so.

use std::{
    fmt,
    future::Future,
    sync::Arc,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use tokio::{
    runtime::{self, Handle, RuntimeFlavor},
    task,
};
use toolway_auth::{
    credential::CredentialKey,
    vault::{Vault, VaultError},
};
use toolway_config::{Keychain, Secret, SecretName, keychain::KeychainError};

/// Secrets of the user in a vault. Cloning is cheap.
#[derive(Clone)]
pub struct SecretStore {
    vault: Arc<dyn Vault>,
}

/// A stored secret, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSecret {
    /// Its name.
    pub name: SecretName,
    /// When it was stored.
    pub set_at: SystemTime,
}

/// Why a secret cannot be stored or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The vault is in memory, so the secret would be lost when this process ends.
    #[error("the vault is only in memory, so the secret would be lost when this program ends; it was not stored")]
    Ephemeral,
    /// The vault failed.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The stored entry cannot be read.
    #[error("the stored secret `{0}` is damaged; store it again with `toolway secret set {0}`")]
    Damaged(SecretName),
    /// The thread that reads the vault could not be started.
    #[error("the vault cannot be used: {0}")]
    NoThread(String),
}

/// The keychain of the user and the secrets of the vault, as the configuration reads them.
#[derive(Clone, Debug)]
pub struct SecretSources {
    /// Source of `${keychain:…}`.
    pub keychain: Arc<dyn Keychain>,
    /// Source of `${secret:…}`.
    pub secrets: SecretStore,
}

/// Issuer of the keys of secrets. No authorization server has it: it is not a URL.
const ISSUER: &str = "toolway:secrets";
/// Principal of the keys of secrets. No user or client has it.
const PRINCIPAL: &str = "secrets";

/// Stored form of a secret.
#[derive(Serialize, Deserialize)]
struct Entry {
    value: String,
    /// Seconds since 1970.
    set_at: u64,
}

// === impl SecretStore ===

impl SecretStore {
    /// The secrets of this vault.
    pub fn new(vault: Arc<dyn Vault>) -> Self {
        Self { vault }
    }

    /// Stores a secret; replaces the one of this name. Fails if the vault is only in memory.
    pub fn set(&self, name: &SecretName, value: &Secret) -> Result<(), SecretError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let entry = Entry { value: value.expose().to_owned(), set_at: now.as_secs() };
        // Serializing a string and a number cannot fail.
        let text = Secret::new(serde_json::to_string(&entry).unwrap_or_default());
        wait(async {
            // Opens the vault, which then says whether it is in memory.
            self.vault.load(&key(name)).await?;
            if self.vault.is_ephemeral() {
                return Err(SecretError::Ephemeral);
            }
            Ok(self.vault.store(&key(name), text).await?)
        })
    }

    /// The value of a secret; `None` if it is not stored.
    pub fn get(&self, name: &SecretName) -> Result<Option<Secret>, SecretError> {
        let Some(text) = wait(async { Ok(self.vault.load(&key(name)).await?) })? else { return Ok(None) };
        let entry: Entry = serde_json::from_str(text.expose()).map_err(|_| SecretError::Damaged(name.clone()))?;
        Ok(Some(Secret::new(entry.value)))
    }

    /// All secrets, by name. A damaged one has no time.
    pub fn list(&self) -> Result<Vec<StoredSecret>, SecretError> {
        let all = wait(async { Ok(self.vault.all().await?) })?;
        let mut secrets: Vec<StoredSecret> = all.iter().filter_map(|(key, text)| stored(key, text)).collect();
        secrets.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(secrets)
    }

    /// Removes a secret. Returns whether there was one.
    pub fn remove(&self, name: &SecretName) -> Result<Removed, SecretError> {
        wait(async {
            let found = self.vault.load(&key(name)).await?;
            self.vault.forget(&key(name)).await?;
            Ok(if found.is_some() { Removed::Yes } else { Removed::NotFound })
        })
    }

    /// Location of the vault, for messages.
    pub fn place(&self) -> String {
        self.vault.place()
    }
}

/// Whether a secret was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// It was there, and is removed.
    Yes,
    /// No secret has this name.
    NotFound,
}

impl fmt::Debug for SecretStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretStore").field("vault", &self.vault).finish()
    }
}

impl Keychain for SecretSources {
    fn get(&self, service: &str, entry: &str) -> Result<Secret, KeychainError> {
        self.keychain.get(service, entry)
    }

    fn stored(&self, name: &SecretName) -> Result<Secret, KeychainError> {
        let found = self.secrets.get(name).map_err(|error| KeychainError::Closed(error.to_string()))?;
        found.ok_or(KeychainError::Missing)
    }
}

fn key(name: &SecretName) -> CredentialKey {
    CredentialKey {
        principal: PRINCIPAL.to_owned(),
        issuer: ISSUER.to_owned(),
        client: String::new(),
        resource: name.to_string(),
    }
}

/// Whether a key of the vault is that of a secret.
pub(crate) fn is_secret(key: &CredentialKey) -> bool {
    key.issuer == ISSUER && key.principal == PRINCIPAL
}

fn stored(key: &CredentialKey, text: &Secret) -> Option<StoredSecret> {
    let name: SecretName = key.resource.parse().ok().filter(|_| is_secret(key))?;
    let seconds = serde_json::from_str::<Entry>(text.expose()).map_or(0, |entry| entry.set_at);
    Some(StoredSecret { name, set_at: UNIX_EPOCH + Duration::from_secs(seconds) })
}

/// Runs a future of the vault to its end. A runtime within a runtime needs a thread of its own.
fn wait<T: Send>(access: impl Future<Output = Result<T, SecretError>> + Send) -> Result<T, SecretError> {
    let failed = |problem: &dyn fmt::Display| SecretError::NoThread(problem.to_string());
    let run = || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(|error| failed(&error))?;
        runtime.block_on(access)
    };
    let in_thread = || {
        thread::scope(|scope| match thread::Builder::new().name("vault".to_owned()).spawn_scoped(scope, run) {
            Ok(thread) => thread.join().unwrap_or_else(|_| Err(failed(&"its thread failed"))),
            Err(error) => Err(failed(&error)),
        })
    };
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => task::block_in_place(in_thread),
        _ => in_thread(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toolway_auth::vault::MemoryVault;
    use toolway_config::{Keychain, NoKeychain, Secret, SecretName, keychain::KeychainError};

    use super::{Removed, SecretError, SecretSources, SecretStore};
    use crate::{SealedVault, SealedWith};

    fn name(text: &str) -> SecretName {
        text.parse().unwrap()
    }

    fn sealed(folder: &tempfile::TempDir) -> SecretStore {
        let vault = SealedVault::new(folder.path().join("vault"), SealedWith::KeyFile, Arc::new(|_| {}));
        SecretStore::new(Arc::new(vault))
    }

    #[test]
    fn secrets_are_kept_by_name_between_runs() {
        let folder = tempfile::tempdir().unwrap();
        sealed(&folder).set(&name("b"), &Secret::new("one")).unwrap();
        sealed(&folder).set(&name("a"), &Secret::new("two\n")).unwrap();
        sealed(&folder).set(&name("b"), &Secret::new("three")).unwrap();
        let store = sealed(&folder);
        assert_eq!(store.get(&name("b")).unwrap(), Some(Secret::new("three")));
        assert_eq!(store.get(&name("c")).unwrap(), None);
        let names: Vec<String> = store.list().unwrap().iter().map(|secret| secret.name.to_string()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(store.remove(&name("a")).unwrap(), Removed::Yes);
        assert_eq!(store.remove(&name("a")).unwrap(), Removed::NotFound);
        let file = std::fs::read(folder.path().join("vault/credentials")).unwrap();
        assert!(!file.windows(5).any(|part| part == b"three"), "the file is encrypted");
    }

    #[test]
    fn a_vault_in_memory_stores_no_secret() {
        let store = SecretStore::new(Arc::new(MemoryVault::default()));
        assert_eq!(store.set(&name("a"), &Secret::new("one")), Err(SecretError::Ephemeral));
        assert!(store.list().unwrap().is_empty());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_reference_is_resolved_inside_a_runtime() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = sealed(&folder);
        secrets.set(&name("a"), &Secret::new("one")).unwrap();
        let sources = SecretSources { keychain: Arc::new(NoKeychain), secrets };
        assert_eq!(sources.stored(&name("a")), Ok(Secret::new("one")));
        assert_eq!(sources.stored(&name("b")), Err(KeychainError::Missing));
        let current_thread = tokio::runtime::Builder::new_current_thread().build().unwrap();
        std::thread::spawn(move || current_thread.block_on(async { sources.stored(&name("a")) }))
            .join()
            .unwrap()
            .unwrap();
    }
}
