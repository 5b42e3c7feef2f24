//! Port for credential storage, and a vault in memory.

#[cfg(test)]
pub(crate) mod full;

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use toolway_config::Secret;

use crate::credential::CredentialKey;

/// Stores credentials. Each belongs to one principal, one issuer, one client and one resource.
pub trait Vault: Send + Sync + fmt::Debug {
    /// Loads the entry under this key.
    fn load<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<Secret>, VaultError>>;

    /// Stores an entry. After a failure, either the old or the new entry is there.
    fn store<'a>(&'a self, key: &'a CredentialKey, credential: Secret) -> BoxFuture<'a, Result<(), VaultError>>;

    /// Deletes the entry under this key.
    fn forget<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<(), VaultError>>;

    /// All entries, by key.
    fn all(&self) -> BoxFuture<'_, Result<Vec<(CredentialKey, Secret)>, VaultError>>;

    /// Keys of all entries.
    fn keys(&self) -> BoxFuture<'_, Result<Vec<CredentialKey>, VaultError>> {
        Box::pin(async { Ok(self.all().await?.into_iter().map(|(key, _)| key).collect()) })
    }

    /// Waits for the lock of this key: one holder across tasks and processes. The lock of a holder that dies is
    /// released.
    fn lock<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<VaultLock, VaultError>>;

    /// Location of the vault, for messages.
    fn place(&self) -> String;

    /// Whether all entries are lost when the process ends.
    fn is_ephemeral(&self) -> bool {
        false
    }
}

/// The lock of a key, released when dropped.
pub struct VaultLock {
    _held: Box<dyn Any + Send + Sync>,
}

/// A vault operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the vault in {place} {problem}")]
pub struct VaultError {
    /// Location of the vault.
    pub place: String,
    /// What is wrong with it.
    pub problem: String,
}

impl VaultLock {
    /// A lock that is held as long as `held`.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self { _held: Box::new(held) }
    }
}

impl fmt::Debug for VaultLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VaultLock")
    }
}

/// Stores a bounded number of credentials until the process ends.
#[derive(Default)]
pub struct MemoryVault {
    // Nothing awaits under this lock.
    kept: Mutex<BTreeMap<CredentialKey, Slot>>,
}

#[derive(Default)]
struct Slot {
    credential: Option<Secret>,
    lock: Option<Arc<Semaphore>>,
}

/// Maximum number of entries, more than any host has servers and users.
const MAX_CREDENTIALS: usize = 10_000;

impl MemoryVault {
    fn full() -> VaultError {
        VaultError { place: "memory".to_owned(), problem: format!("is full: it keeps {MAX_CREDENTIALS} credentials") }
    }

    /// Runs `act` with the slot of a key; fails if the vault is full.
    fn with<T>(&self, key: &CredentialKey, act: impl FnOnce(&mut Slot) -> T) -> Result<T, VaultError> {
        let mut kept = self.kept.lock();
        if MAX_CREDENTIALS <= kept.len() && !kept.contains_key(key) {
            return Err(Self::full());
        }
        Ok(act(kept.entry(key.clone()).or_default()))
    }
}

impl Vault for MemoryVault {
    fn load<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<Secret>, VaultError>> {
        let found = self.kept.lock().get(key).and_then(|slot| slot.credential.clone());
        Box::pin(async { Ok(found) })
    }

    fn store<'a>(&'a self, key: &'a CredentialKey, credential: Secret) -> BoxFuture<'a, Result<(), VaultError>> {
        let stored = self.with(key, |slot| slot.credential = Some(credential));
        Box::pin(async { stored })
    }

    fn forget<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<(), VaultError>> {
        if let Some(slot) = self.kept.lock().get_mut(key) {
            slot.credential = None;
        }
        Box::pin(async { Ok(()) })
    }

    fn all(&self) -> BoxFuture<'_, Result<Vec<(CredentialKey, Secret)>, VaultError>> {
        let kept = self.kept.lock();
        let all = kept.iter().filter_map(|(key, slot)| Some((key.clone(), slot.credential.clone()?))).collect();
        Box::pin(async { Ok(all) })
    }

    fn lock<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<VaultLock, VaultError>> {
        let lock = self.with(key, |slot| Arc::clone(slot.lock.get_or_insert_with(|| Arc::new(Semaphore::new(1)))));
        Box::pin(async {
            // The semaphore is never closed.
            let held = lock?.acquire_owned().await.map_err(|_| Self::full())?;
            Ok(VaultLock::new(held))
        })
    }

    fn is_ephemeral(&self) -> bool {
        true
    }

    fn place(&self) -> String {
        "memory (lost when this program ends)".to_owned()
    }
}

impl fmt::Debug for MemoryVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryVault").field("kept", &self.kept.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toolway_config::Secret;

    use super::{MemoryVault, Vault};
    use crate::credential::CredentialKey;

    fn key(principal: &str, issuer: &str) -> CredentialKey {
        CredentialKey {
            principal: principal.to_owned(),
            issuer: issuer.to_owned(),
            client: "toolway".to_owned(),
            resource: "https://example.org/mcp".to_owned(),
        }
    }

    #[tokio::test]
    async fn credential_is_loaded_under_its_own_key_only() {
        let (vault, own) = (MemoryVault::default(), key("ada", "https://login.example"));
        vault.store(&own, Secret::new("token")).await.unwrap();
        assert!(vault.load(&own).await.unwrap().is_some());
        assert!(vault.load(&key("eve", "https://login.example")).await.unwrap().is_none());
        assert!(
            vault.load(&key("ada", "https://evil.example")).await.unwrap().is_none(),
            "another issuer, another key"
        );
        assert_eq!(vault.keys().await.unwrap(), std::slice::from_ref(&own));
        vault.forget(&own).await.unwrap();
        assert!(vault.load(&own).await.unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn lock_of_a_key_has_one_holder() {
        let (vault, own) = (MemoryVault::default(), key("ada", "https://login.example"));
        let first = vault.lock(&own).await.unwrap();
        vault.lock(&key("eve", "https://login.example")).await.unwrap();
        let second = tokio::time::timeout(Duration::from_secs(1), vault.lock(&own)).await;
        assert!(second.is_err(), "a second holder of the same lock");
        drop(first);
        vault.lock(&own).await.unwrap();
    }
}
