//! A vault for tests that can be read but not written, like a full disk, until it is made writable.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use toolway_config::Secret;

use super::{MemoryVault, Vault, VaultError, VaultLock};
use crate::credential::CredentialKey;

#[derive(Debug)]
pub(crate) struct FullVault {
    kept: MemoryVault,
    room: AtomicBool,
}

impl FullVault {
    /// A full vault with these entries.
    pub(crate) fn of(kept: MemoryVault) -> Self {
        Self { kept, room: AtomicBool::new(false) }
    }

    /// From now on it can be written.
    pub(crate) fn make_writable(&self) {
        self.room.store(true, Ordering::Relaxed);
    }

    fn or_full<'a>(&self, done: BoxFuture<'a, Result<(), VaultError>>) -> BoxFuture<'a, Result<(), VaultError>> {
        let problem = VaultError { place: "a disk".to_owned(), problem: "is full".to_owned() };
        if self.room.load(Ordering::Relaxed) { done } else { Box::pin(async { Err(problem) }) }
    }
}

impl Vault for FullVault {
    fn load<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<Secret>, VaultError>> {
        self.kept.load(key)
    }

    fn store<'a>(&'a self, key: &'a CredentialKey, credential: Secret) -> BoxFuture<'a, Result<(), VaultError>> {
        self.or_full(Box::pin(async move { self.kept.store(key, credential).await }))
    }

    fn forget<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<(), VaultError>> {
        self.or_full(Box::pin(async move { self.kept.forget(key).await }))
    }

    fn all(&self) -> BoxFuture<'_, Result<Vec<(CredentialKey, Secret)>, VaultError>> {
        self.kept.all()
    }

    fn lock<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<VaultLock, VaultError>> {
        self.kept.lock(key)
    }

    fn place(&self) -> String {
        "a disk".to_owned()
    }
}
