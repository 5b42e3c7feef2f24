//! Credentials in the keychain: an entry each, found by a digest of its key, with the key inside.

use futures_util::future::BoxFuture;
use toolway_auth::{
    credential::CredentialKey,
    vault::{Turn, Vault, VaultError},
};
use toolway_config::Secret;

use super::{
    KeychainProblem, SystemKeychain,
    secret_service::{Attributes, Item, Visit},
};
use crate::{
    entries::{self, MOST},
    turns::{self, Turns},
};

/// Keeps credentials in the operating system's keychain.
#[derive(Clone, Debug)]
pub struct KeychainVault {
    keychain: SystemKeychain,
    turns: Turns,
}

/// What a person sees in the desktop's program for passwords.
const LABEL: &str = "Toolway sign-in";
/// Common to all entries of ours. A configuration's `keychain:` finds by other attributes, so it finds none of these.
const OURS: (&str, &str) = ("xdg:schema", "org.toolway.Credential");
const DIGEST: &str = "digest";

// === impl KeychainVault ===

impl KeychainVault {
    /// A vault in this keychain. The keychain has no turns of its own.
    pub fn new(keychain: SystemKeychain, turns: Turns) -> Self {
        Self { keychain, turns }
    }

    async fn visit<T>(&self, act: impl AsyncFnOnce(&Visit) -> Result<T, KeychainProblem>) -> Result<T, VaultError> {
        self.keychain.visit(act).await.map_err(|problem| self.failed(format!("cannot be used: {problem}")))
    }

    fn failed(&self, problem: impl Into<String>) -> VaultError {
        VaultError { place: self.place(), problem: problem.into() }
    }
}

impl Vault for KeychainVault {
    fn load<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<Secret>, VaultError>> {
        Box::pin(self.visit(async move |visit| {
            let Some(item) = find(visit, &turns::digest_of(key)).await? else {
                return Ok(None);
            };
            let read = visit.read(&[item]).await?;
            let found = read.first().and_then(|bytes| entries::read_one(bytes)).filter(|(of, _)| of == key);
            found.map(|(_, credential)| Some(credential)).ok_or(KeychainProblem::Changed)
        }))
    }

    fn store<'a>(&'a self, key: &'a CredentialKey, credential: Secret) -> BoxFuture<'a, Result<(), VaultError>> {
        Box::pin(async move {
            let written = entries::write_one(key, &credential).map_err(|error| self.failed(error.to_string()))?;
            let digest = turns::digest_of(key);
            self.visit(async |visit| match find(visit, &digest).await? {
                Some(item) => visit.replace(&item, &written).await,
                None => visit.create(LABEL, &attributes(&digest), &written).await,
            })
            .await
        })
    }

    fn forget<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<(), VaultError>> {
        Box::pin(self.visit(async move |visit| match find(visit, &turns::digest_of(key)).await? {
            Some(item) => visit.remove(&item).await,
            None => Ok(()),
        }))
    }

    fn all(&self) -> BoxFuture<'_, Result<Vec<(CredentialKey, Secret)>, VaultError>> {
        Box::pin(self.visit(async |visit| {
            let items = visit.find(&Attributes::from([OURS])).await?;
            if MOST < items.len() {
                return Err(KeychainProblem::TooMany(MOST));
            }
            let read = visit.read(&items).await?;
            let all = read.iter().map(|bytes| entries::read_one(bytes));
            let mut all: Vec<_> = all.collect::<Option<_>>().ok_or(KeychainProblem::Changed)?;
            all.sort_by(|(one, _), (other, _)| one.cmp(other));
            Ok(all)
        }))
    }

    fn turn<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Turn, VaultError>> {
        Box::pin(self.turns.take(key))
    }

    fn place(&self) -> String {
        "the keychain".to_owned()
    }
}

fn attributes(digest: &str) -> Attributes<'_> {
    Attributes::from([OURS, (DIGEST, digest)])
}

/// The entry of a key. There is one; should there be more, it is always the same of them.
async fn find(visit: &Visit, digest: &str) -> Result<Option<Item>, KeychainProblem> {
    Ok(visit.find(&attributes(digest)).await?.into_iter().next())
}
