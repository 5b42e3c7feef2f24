//! Credentials in the keychain: one entry each, found by a digest of its key, with the key inside.

use futures_util::future::BoxFuture;
use toolway_auth::{
    credential::CredentialKey,
    vault::{Vault, VaultError, VaultLock},
};
use toolway_config::Secret;

use super::{
    KeychainProblem, SystemKeychain,
    secret_service::{Attributes, Item, KeychainSession},
};
use crate::{
    entries::{self, MAX_CREDENTIALS},
    key_locks::{self, KeyLocks},
    secrets,
};

/// Stores credentials in the keychain of the operating system.
#[derive(Clone, Debug)]
pub struct KeychainVault {
    keychain: SystemKeychain,
    locks: KeyLocks,
}

/// Label of an entry in a password manager.
const LABEL: &str = "Toolway sign-in";
/// Label of a secret of the user.
const SECRET_LABEL: &str = "Toolway secret";
/// Attribute of all entries of Toolway. `keychain:` references search by other attributes, so they never match these.
const SCHEMA: (&str, &str) = ("xdg:schema", "org.toolway.Credential");
const DIGEST: &str = "digest";

// === impl KeychainVault ===

impl KeychainVault {
    /// A vault in this keychain. The keychain has no locks, so they are passed in.
    pub fn new(keychain: SystemKeychain, locks: KeyLocks) -> Self {
        Self { keychain, locks }
    }

    async fn with_session<T>(
        &self,
        act: impl AsyncFnOnce(&KeychainSession) -> Result<T, KeychainProblem>,
    ) -> Result<T, VaultError> {
        self.keychain.with_session(act).await.map_err(|problem| self.failed(format!("cannot be used: {problem}")))
    }

    fn failed(&self, problem: impl Into<String>) -> VaultError {
        VaultError { place: self.place(), problem: problem.into() }
    }
}

impl Vault for KeychainVault {
    fn load<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<Secret>, VaultError>> {
        Box::pin(self.with_session(async move |session| {
            let Some(item) = find(session, &key_locks::digest_of(key)).await? else {
                return Ok(None);
            };
            let read = session.read(&[item]).await?;
            let found = read.first().and_then(|bytes| entries::read_one(bytes)).filter(|(of, _)| of == key);
            found.map(|(_, credential)| Some(credential)).ok_or(KeychainProblem::Changed)
        }))
    }

    fn store<'a>(&'a self, key: &'a CredentialKey, credential: Secret) -> BoxFuture<'a, Result<(), VaultError>> {
        Box::pin(async move {
            let written = entries::write_one(key, &credential).map_err(|error| self.failed(error.to_string()))?;
            let digest = key_locks::digest_of(key);
            self.with_session(async |session| match find(session, &digest).await? {
                Some(item) => session.replace(&item, &written).await,
                None => session.create(label(key), &attributes(&digest), &written).await,
            })
            .await
        })
    }

    fn forget<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<(), VaultError>> {
        Box::pin(self.with_session(async move |session| match find(session, &key_locks::digest_of(key)).await? {
            Some(item) => session.remove(&item).await,
            None => Ok(()),
        }))
    }

    fn all(&self) -> BoxFuture<'_, Result<Vec<(CredentialKey, Secret)>, VaultError>> {
        Box::pin(self.with_session(async |session| {
            let items = session.find(&Attributes::from([SCHEMA])).await?;
            if MAX_CREDENTIALS < items.len() {
                return Err(KeychainProblem::TooMany(MAX_CREDENTIALS));
            }
            let read = session.read(&items).await?;
            let all = read.iter().map(|bytes| entries::read_one(bytes));
            let mut all: Vec<_> = all.collect::<Option<_>>().ok_or(KeychainProblem::Changed)?;
            all.sort_by(|(one, _), (other, _)| one.cmp(other));
            Ok(all)
        }))
    }

    fn lock<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<VaultLock, VaultError>> {
        Box::pin(self.locks.take(key))
    }

    fn place(&self) -> String {
        "the keychain".to_owned()
    }
}

fn label(key: &CredentialKey) -> &'static str {
    if secrets::is_secret(key) { SECRET_LABEL } else { LABEL }
}

fn attributes(digest: &str) -> Attributes<'_> {
    Attributes::from([SCHEMA, (DIGEST, digest)])
}

/// The entry of a key; if there are several, always the same one.
async fn find(session: &KeychainSession, digest: &str) -> Result<Option<Item>, KeychainProblem> {
    Ok(session.find(&attributes(digest)).await?.into_iter().next())
}
