//! Where credentials are kept between runs, as a port, and the vault that forgets with the process.

#[cfg(test)]
pub(crate) mod full;

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use toolway_config::Secret;

use crate::credential::CredentialKey;

/// Keeps credentials. Each belongs to one principal, one issuer, one client and one resource, and is given to no other.
pub trait Vault: Send + Sync + fmt::Debug {
    /// What is kept under this key.
    fn load<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<Secret>, VaultError>>;

    /// Keeps it, in the place of what was there; afterwards either the old or the new one is there, whatever happens.
    fn store<'a>(&'a self, key: &'a CredentialKey, credential: Secret) -> BoxFuture<'a, Result<(), VaultError>>;

    /// Forgets it.
    fn forget<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<(), VaultError>>;

    /// Everything that is kept, by key.
    fn all(&self) -> BoxFuture<'_, Result<Vec<(CredentialKey, Secret)>, VaultError>>;

    /// The keys of everything that is kept.
    fn keys(&self) -> BoxFuture<'_, Result<Vec<CredentialKey>, VaultError>> {
        Box::pin(async { Ok(self.all().await?.into_iter().map(|(key, _)| key).collect()) })
    }

    /// Waits for the turn to change what is kept under this key: one holder across tasks and processes. A holder that
    /// dies gives it back.
    fn turn<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Turn, VaultError>>;

    /// Where that is, for people.
    fn place(&self) -> String;

    /// Whether it forgets everything with this process.
    fn forgets(&self) -> bool {
        false
    }
}

/// The turn to change what is kept under a key, given back when dropped.
pub struct Turn {
    _held: Box<dyn Any + Send + Sync>,
}

/// The vault cannot do it, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the vault in {place} {problem}")]
pub struct VaultError {
    /// Where it is.
    pub place: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Turn {
    /// A turn that lasts as long as this is held.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self { _held: Box::new(held) }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turn")
    }
}

/// Keeps credentials as long as the process lives, and no more than a bounded number.
#[derive(Default)]
pub struct MemoryVault {
    // Nothing awaits under this lock.
    kept: Mutex<BTreeMap<CredentialKey, Slot>>,
}

#[derive(Default)]
struct Slot {
    credential: Option<Secret>,
    turn: Option<Arc<Semaphore>>,
}

/// More than any host has servers and users; one more is refused.
const MOST: usize = 10_000;

impl MemoryVault {
    fn full() -> VaultError {
        VaultError { place: "memory".to_owned(), problem: format!("is full: it keeps {MOST} credentials") }
    }

    /// Does something with the slot of a key, where there is room for it.
    fn with<T>(&self, key: &CredentialKey, act: impl FnOnce(&mut Slot) -> T) -> Result<T, VaultError> {
        let mut kept = self.kept.lock();
        if MOST <= kept.len() && !kept.contains_key(key) {
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

    fn turn<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Turn, VaultError>> {
        let turn = self.with(key, |slot| Arc::clone(slot.turn.get_or_insert_with(|| Arc::new(Semaphore::new(1)))));
        Box::pin(async {
            // Never closed, so never refused.
            let held = turn?.acquire_owned().await.map_err(|_| Self::full())?;
            Ok(Turn::new(held))
        })
    }

    fn forgets(&self) -> bool {
        true
    }

    fn place(&self) -> String {
        "memory, until this program ends".to_owned()
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
    async fn a_credential_is_given_to_its_owner_only() {
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
    async fn one_at_a_time_has_the_turn() {
        let (vault, own) = (MemoryVault::default(), key("ada", "https://login.example"));
        let first = vault.turn(&own).await.unwrap();
        vault.turn(&key("eve", "https://login.example")).await.unwrap();
        let second = tokio::time::timeout(Duration::from_secs(1), vault.turn(&own)).await;
        assert!(second.is_err(), "a second holder of the same turn");
        drop(first);
        vault.turn(&own).await.unwrap();
    }
}
