//! Credentials for servers: where they are kept between runs. How they are got is a later room of this file.

use std::{collections::BTreeMap, fmt};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use toolway_config::Secret;

/// Keeps credentials. Each belongs to one person, one issuer, one client and one resource, and is given to no other.
pub trait CredentialVault: Send + Sync {
    /// What is kept under this key.
    fn load<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Option<Secret>>;

    /// Keeps it, in the place of what was there.
    fn store<'a>(&'a self, key: &'a CredentialKey, credential: Secret) -> BoxFuture<'a, ()>;

    /// Forgets it.
    fn forget<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, ()>;
}

/// Whose credential it is, from whom, for what.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CredentialKey {
    /// On whose behalf.
    pub principal: String,
    /// Who issued it.
    pub issuer: String,
    /// The client it was issued to.
    pub client: String,
    /// The resource it is for.
    pub resource: String,
}

/// Keeps credentials as long as the process lives, and no more than a bounded number.
#[derive(Default)]
pub struct MemoryVault {
    // Nothing awaits under this lock.
    kept: Mutex<BTreeMap<CredentialKey, Secret>>,
}

/// More than any host has servers and users; one more is not kept, and is asked for again.
const MOST: usize = 10_000;

impl CredentialVault for MemoryVault {
    fn load<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Option<Secret>> {
        let kept = self.kept.lock().get(key).cloned();
        Box::pin(async { kept })
    }

    fn store<'a>(&'a self, key: &'a CredentialKey, credential: Secret) -> BoxFuture<'a, ()> {
        let mut kept = self.kept.lock();
        if kept.len() < MOST || kept.contains_key(key) {
            kept.insert(key.clone(), credential);
        }
        Box::pin(async {})
    }

    fn forget<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, ()> {
        self.kept.lock().remove(key);
        Box::pin(async {})
    }
}

impl fmt::Debug for MemoryVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryVault").field("kept", &self.kept.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use toolway_config::Secret;

    use super::{CredentialKey, CredentialVault, MemoryVault};

    #[tokio::test]
    async fn a_credential_is_given_to_its_owner_only() {
        let key = |principal: &str, issuer: &str| CredentialKey {
            principal: principal.to_owned(),
            issuer: issuer.to_owned(),
            client: "toolway".to_owned(),
            resource: "https://example.org/mcp".to_owned(),
        };
        let vault = MemoryVault::default();
        vault.store(&key("ada", "https://login.example"), Secret::new("token")).await;
        assert!(vault.load(&key("ada", "https://login.example")).await.is_some());
        assert!(vault.load(&key("eve", "https://login.example")).await.is_none());
        assert!(vault.load(&key("ada", "https://evil.example")).await.is_none(), "another issuer is another key");
        vault.forget(&key("ada", "https://login.example")).await;
        assert!(vault.load(&key("ada", "https://login.example")).await.is_none());
    }
}
