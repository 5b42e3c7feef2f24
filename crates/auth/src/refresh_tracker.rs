//! State that all sessions of a process share: refreshes in progress, and refreshed credentials that the vault could
//! not store.
//!
//! An authorization server may invalidate a refresh token with its first use. A refresh that was started is therefore
//! finished and stored even if its caller was cancelled, and shutdown waits for it. If the vault cannot store the
//! result, it is kept in memory and stored later; until then it replaces the credential in the vault.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_util::task::TaskTracker;
use toolway_config::Secret;

use crate::{
    cooldown::AFTER_FAILURE,
    counters::RefreshCounters,
    credential::{Credential, CredentialError, CredentialKey},
    vault::Vault,
};

/// Refreshes in progress. Clones share the same state.
#[derive(Clone, Default)]
pub struct RefreshTracker {
    in_progress: TaskTracker,
    // Nothing awaits under this lock.
    unsaved: Arc<Mutex<HashMap<CredentialKey, Unsaved>>>,
    counters: RefreshCounters,
}

/// A credential that the vault could not store.
struct Unsaved {
    credential: Credential,
    /// Access token in the vault at that time. If the vault holds another one, another sign-in or refresh replaced it.
    replaces: Option<Secret>,
    /// Time of the next attempt.
    again: Instant,
}

/// Time limit at shutdown; no request to an authorization server takes longer.
pub const LAST_WAIT: Duration = Duration::from_secs(30);

impl RefreshTracker {
    /// The same tracker; refreshes of the returned clone are counted in `counters`.
    pub fn counted_by(&self, counters: RefreshCounters) -> Self {
        Self { counters, ..self.clone() }
    }

    pub(crate) fn counters(&self) -> &RefreshCounters {
        &self.counters
    }

    /// Whether there is something to wait for at shutdown.
    pub fn is_in_progress(&self) -> bool {
        !self.in_progress.is_empty() || !self.unsaved.lock().is_empty()
    }

    /// Waits for refreshes in progress and stores their results. Returns whether everything was stored within
    /// [`LAST_WAIT`].
    pub async fn settle(&self, vault: &dyn Vault) -> bool {
        self.in_progress.close();
        let settled = timeout(LAST_WAIT, async {
            self.in_progress.wait().await;
            let unsaved: Vec<_> = self.unsaved.lock().keys().cloned().collect();
            for key in &unsaved {
                self.save(vault, key).await;
            }
        });
        settled.await.is_ok() && self.unsaved.lock().is_empty()
    }

    pub(crate) fn spawn<T: Send + 'static>(&self, refresh: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.in_progress.spawn(refresh)
    }

    /// The newer of `kept`, which is in the vault, and an unsaved credential that replaces it.
    pub(crate) fn newest(&self, key: &CredentialKey, kept: Credential) -> Credential {
        let mut unsaved = self.unsaved.lock();
        match unsaved.get(key) {
            Some(newer) if newer.replaces == access(&kept) => newer.credential.clone(),
            Some(_) => {
                unsaved.remove(key);
                kept
            }
            None => kept,
        }
    }

    /// Stores a credential in place of `kept`; keeps it in memory if that fails. The caller holds the lock.
    pub(crate) async fn store(&self, vault: &dyn Vault, key: &CredentialKey, new: &Credential, kept: &Credential) {
        match new.store(vault, key).await {
            Ok(()) => drop(self.unsaved.lock().remove(key)),
            Err(error) => {
                // The authorization server may have invalidated the old one.
                tracing::warn!(%error, "cannot store the refreshed token in the vault; trying again later");
                let again = Instant::now() + AFTER_FAILURE;
                let unsaved = Unsaved { credential: new.clone(), replaces: access(kept), again };
                self.unsaved.lock().insert(key.clone(), unsaved);
            }
        }
    }

    /// Whether an unsaved credential is due for another attempt.
    pub(crate) fn needs_save(&self, key: &CredentialKey) -> bool {
        let mut unsaved = self.unsaved.lock();
        let due = unsaved.get_mut(key).filter(|unsaved| unsaved.again <= Instant::now());
        due.map(|unsaved| unsaved.again = Instant::now() + AFTER_FAILURE).is_some()
    }

    /// Tries to store an unsaved credential.
    pub(crate) async fn save(&self, vault: &dyn Vault, key: &CredentialKey) {
        if let Err(error) = self.try_save(vault, key).await {
            tracing::warn!(%error, "still cannot store the refreshed token in the vault");
        }
    }

    async fn try_save(&self, vault: &dyn Vault, key: &CredentialKey) -> Result<(), CredentialError> {
        let _lock = vault.lock(key).await?;
        match Credential::load(vault, key).await? {
            Some(kept) => {
                let newest = self.newest(key, kept.clone());
                if newest != kept {
                    self.store(vault, key, &newest, &kept).await;
                }
            }
            // The user has signed out.
            None => drop(self.unsaved.lock().remove(key)),
        }
        Ok(())
    }
}

fn access(credential: &Credential) -> Option<Secret> {
    credential.tokens.as_ref().map(|tokens| tokens.access.clone())
}

impl fmt::Debug for RefreshTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefreshTracker").field("in_progress", &self.in_progress.len()).finish_non_exhaustive()
    }
}
