//! The forms in which credentials are kept, within bounds: all of them in a sealed file, or one in a keychain's entry.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use toolway_auth::credential::CredentialKey;
use toolway_config::Secret;

/// All credentials of a vault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries(pub(crate) BTreeMap<CredentialKey, Secret>);

/// A credential that is not kept, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooMuch {
    #[error("is full: it keeps {MOST} credentials; sign out where you no longer need it")]
    Entries,
    #[error("keeps no credential of more than {LARGEST} bytes")]
    Entry,
    #[error("is full: it keeps {LARGEST_VAULT} bytes; sign out where you no longer need it")]
    Bytes,
}

/// More than any host has servers and users.
pub(crate) const MOST: usize = 10_000;
/// Tokens are of some kilobytes; with its key, a credential is smaller than this.
pub(crate) const LARGEST: usize = 256 * 1024;
/// What all together may take: it is read and written as a whole.
pub(crate) const LARGEST_VAULT: usize = 16 * 1024 * 1024;

/// The form on the disk.
#[derive(Deserialize, Serialize)]
struct Entry<'a> {
    principal: String,
    issuer: String,
    client: String,
    resource: String,
    #[serde(borrow)]
    credential: Cow<'a, str>,
}

// === impl Entries ===

impl Entries {
    /// Keeps a credential in the place of what was there.
    pub(crate) fn keep(&mut self, key: &CredentialKey, credential: Secret) -> Result<(), TooMuch> {
        if LARGEST < size(key, &credential) {
            return Err(TooMuch::Entry);
        }
        if MOST <= self.0.len() && !self.0.contains_key(key) {
            return Err(TooMuch::Entries);
        }
        self.0.insert(key.clone(), credential);
        Ok(())
    }

    /// As bytes to seal.
    pub(crate) fn write(&self) -> Result<Vec<u8>, TooMuch> {
        let entries: Vec<_> = self.0.iter().map(|(key, credential)| Entry::of(key, credential)).collect();
        let bytes = serde_json::to_vec(&entries).map_err(|_| TooMuch::Bytes)?;
        if LARGEST_VAULT < bytes.len() { Err(TooMuch::Bytes) } else { Ok(bytes) }
    }

    /// From bytes that were sealed. What is wrong with others is not said: it could quote them.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let entries: Vec<Entry<'_>> = serde_json::from_slice(bytes).ok()?;
        Some(Self(entries.into_iter().map(Entry::into_parts).collect()))
    }
}

impl<'a> Entry<'a> {
    fn of(key: &CredentialKey, credential: &'a Secret) -> Self {
        let CredentialKey { principal, issuer, client, resource } = key.clone();
        Self { principal, issuer, client, resource, credential: credential.expose().into() }
    }

    fn into_parts(self) -> (CredentialKey, Secret) {
        let Self { principal, issuer, client, resource, credential } = self;
        (CredentialKey { principal, issuer, client, resource }, Secret::new(credential))
    }
}

/// One credential with its key, as the keychain keeps it.
pub(crate) fn write_one(key: &CredentialKey, credential: &Secret) -> Result<Secret, TooMuch> {
    if LARGEST < size(key, credential) {
        return Err(TooMuch::Entry);
    }
    serde_json::to_string(&Entry::of(key, credential)).map(Secret::new).map_err(|_| TooMuch::Entry)
}

/// Reads what [`write_one`] wrote.
pub(crate) fn read_one(bytes: &[u8]) -> Option<(CredentialKey, Secret)> {
    let entry: Entry<'_> = serde_json::from_slice(bytes).ok()?;
    Some(entry.into_parts())
}

fn size(key: &CredentialKey, credential: &Secret) -> usize {
    let CredentialKey { principal, issuer, client, resource } = key;
    [principal, issuer, client, resource].iter().map(|field| field.len()).sum::<usize>() + credential.expose().len()
}

#[cfg(test)]
mod tests {
    use toolway_auth::credential::CredentialKey;
    use toolway_config::Secret;

    use super::{Entries, LARGEST, LARGEST_VAULT, TooMuch, read_one, write_one};

    fn key(number: usize) -> CredentialKey {
        CredentialKey {
            principal: format!("ada {number}"),
            issuer: "https://login.example".to_owned(),
            client: "toolway".to_owned(),
            resource: "https://example.org/mcp".to_owned(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut entries = Entries::default();
        entries.keep(&key(1), Secret::new("to\"ken\n")).unwrap();
        entries.keep(&key(2), Secret::new("other")).unwrap();
        assert_eq!(Entries::read(&entries.write().unwrap()).unwrap(), entries);
        assert!(Entries::read(b"[{\"principal\": 1}]").is_none());
        let one = write_one(&key(3), &Secret::new("a\\b")).unwrap();
        assert_eq!(read_one(one.expose().as_bytes()).unwrap(), (key(3), Secret::new("a\\b")));
    }

    #[test]
    fn there_is_a_bound_on_one_and_on_all() {
        let mut entries = Entries::default();
        let large = Secret::new("x".repeat(LARGEST));
        assert_eq!(write_one(&key(0), &large), Err(TooMuch::Entry));
        assert_eq!(entries.keep(&key(0), large), Err(TooMuch::Entry));
        let almost = Secret::new("x".repeat(LARGEST - 100));
        for number in 0..=LARGEST_VAULT / LARGEST {
            entries.keep(&key(number), almost.clone()).unwrap();
        }
        assert_eq!(entries.write(), Err(TooMuch::Bytes));
    }
}
