//! What all sessions of a process share: the renewals that are under way, and what they brought and the vault would not
//! take.
//!
//! An authorization server that gives each refresh token one use has used up the old one as soon as it is asked. So a
//! renewal that was begun is finished and kept, whoever waited for it, and whoever ends the process waits here. Where the
//! vault cannot keep it, it is remembered and put there later; until then it counts in the place of what the vault has.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_util::task::TaskTracker;
use toolway_config::Secret;

use crate::{
    credential::{Credential, CredentialError, CredentialKey},
    rest::AFTER_FAILURE,
    vault::Vault,
};

/// Renewals under way. Cloning is cheap; every clone knows the same ones.
#[derive(Clone, Default)]
pub struct Renewals {
    under_way: TaskTracker,
    // Nothing awaits under this lock.
    unsaved: Arc<Mutex<HashMap<CredentialKey, Unsaved>>>,
}

/// A credential that the vault did not take.
struct Unsaved {
    credential: Credential,
    /// The token that the vault had then. As soon as it has another one, somebody has signed in or renewed.
    replaces: Option<Secret>,
    /// When it is tried again.
    again: Instant,
}

/// Nobody waits longer for an authorization server at the end: no request to one takes longer either.
pub const LAST_WAIT: Duration = Duration::from_secs(30);

impl Renewals {
    /// Whether there is something to wait for.
    pub fn is_under_way(&self) -> bool {
        !self.under_way.is_empty() || !self.unsaved.lock().is_empty()
    }

    /// Waits for renewals that are under way, so that what they bring is kept; whether all came to an end within
    /// [`LAST_WAIT`] and is.
    pub async fn settle(&self, vault: &dyn Vault) -> bool {
        self.under_way.close();
        let settled = timeout(LAST_WAIT, async {
            self.under_way.wait().await;
            let unsaved: Vec<_> = self.unsaved.lock().keys().cloned().collect();
            for key in &unsaved {
                self.save(vault, key).await;
            }
        });
        settled.await.is_ok() && self.unsaved.lock().is_empty()
    }

    pub(crate) fn spawn<T: Send + 'static>(&self, renewal: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.under_way.spawn(renewal)
    }

    /// What counts where the vault has `kept`: that, or what it would not take in its place.
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

    /// Keeps a credential in the vault, in the place of `kept`; remembers it where that fails. The caller has the turn.
    pub(crate) async fn keep(&self, vault: &dyn Vault, key: &CredentialKey, new: &Credential, kept: &Credential) {
        match new.store(vault, key).await {
            Ok(()) => drop(self.unsaved.lock().remove(key)),
            Err(error) => {
                // The old one may be worth nothing now.
                tracing::warn!(%error, "a renewed sign-in could not be kept; it is tried again");
                let again = Instant::now() + AFTER_FAILURE;
                let unsaved = Unsaved { credential: new.clone(), replaces: access(kept), again };
                self.unsaved.lock().insert(key.clone(), unsaved);
            }
        }
    }

    /// Whether something waits to be kept under this key, and it is time to try.
    pub(crate) fn is_to_be_saved(&self, key: &CredentialKey) -> bool {
        let mut unsaved = self.unsaved.lock();
        let due = unsaved.get_mut(key).filter(|unsaved| unsaved.again <= Instant::now());
        due.map(|unsaved| unsaved.again = Instant::now() + AFTER_FAILURE).is_some()
    }

    /// Tries once more to keep what waits under this key.
    pub(crate) async fn save(&self, vault: &dyn Vault, key: &CredentialKey) {
        if let Err(error) = self.try_save(vault, key).await {
            tracing::warn!(%error, "a renewed sign-in could still not be kept");
        }
    }

    async fn try_save(&self, vault: &dyn Vault, key: &CredentialKey) -> Result<(), CredentialError> {
        let _turn = vault.turn(key).await?;
        match Credential::load(vault, key).await? {
            Some(kept) => {
                let newest = self.newest(key, kept.clone());
                if newest != kept {
                    self.keep(vault, key, &newest, &kept).await;
                }
            }
            // Somebody has signed out.
            None => drop(self.unsaved.lock().remove(key)),
        }
        Ok(())
    }
}

fn access(credential: &Credential) -> Option<Secret> {
    credential.tokens.as_ref().map(|tokens| tokens.access.clone())
}

impl fmt::Debug for Renewals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewals").field("under_way", &self.under_way.len()).finish_non_exhaustive()
    }
}
