//! Serialized forms of credentials, with size limits: all in an encrypted file, or one per keychain entry.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use toolway_auth::credential::CredentialKey;
use toolway_config::Secret;

/// All credentials of a vault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries(pub(crate) BTreeMap<CredentialKey, Secret>);

/// Why a credential cannot be stored. The message follows the location of the vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LimitExceeded {
    #[error("is full: it has {MAX_CREDENTIALS} credentials; run `toolway logout` for servers you no longer use")]
    Entries,
    #[error("cannot store a credential of more than {MAX_CREDENTIAL} bytes")]
    Entry,
    #[error("is full: it has {MAX_VAULT} bytes; run `toolway logout` for servers you no longer use")]
    Bytes,
}

/// Maximum number of credentials.
pub(crate) const MAX_CREDENTIALS: usize = 10_000;
/// Maximum size of a credential with its key, in bytes.
pub(crate) const MAX_CREDENTIAL: usize = 256 * 1024;
/// Maximum size of all credentials in bytes; the file is read and written as a whole.
pub(crate) const MAX_VAULT: usize = 16 * 1024 * 1024;

/// On-disk form of a credential.
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
    /// Stores a credential; replaces the previous one under this key.
    pub(crate) fn keep(&mut self, key: &CredentialKey, credential: Secret) -> Result<(), LimitExceeded> {
        if MAX_CREDENTIAL < size(key, &credential) {
            return Err(LimitExceeded::Entry);
        }
        if MAX_CREDENTIALS <= self.0.len() && !self.0.contains_key(key) {
            return Err(LimitExceeded::Entries);
        }
        self.0.insert(key.clone(), credential);
        Ok(())
    }

    /// Serializes all credentials for encryption.
    pub(crate) fn write(&self) -> Result<Vec<u8>, LimitExceeded> {
        let entries: Vec<_> = self.0.iter().map(|(key, credential)| Entry::of(key, credential)).collect();
        let bytes = serde_json::to_vec(&entries).map_err(|_| LimitExceeded::Bytes)?;
        if MAX_VAULT < bytes.len() { Err(LimitExceeded::Bytes) } else { Ok(bytes) }
    }

    /// Parses decrypted bytes. Returns no error details, because they could quote a secret.
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

/// Serializes one credential with its key for the keychain.
pub(crate) fn write_one(key: &CredentialKey, credential: &Secret) -> Result<Secret, LimitExceeded> {
    if MAX_CREDENTIAL < size(key, credential) {
        return Err(LimitExceeded::Entry);
    }
    serde_json::to_string(&Entry::of(key, credential)).map(Secret::new).map_err(|_| LimitExceeded::Entry)
}

/// Parses the output of [`write_one`].
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

    use super::{Entries, LimitExceeded, MAX_CREDENTIAL, MAX_VAULT, read_one, write_one};

    fn key(number: usize) -> CredentialKey {
        CredentialKey {
            principal: format!("ada {number}"),
            issuer: "https://login.example".to_owned(),
            client: "toolway".to_owned(),
            resource: "https://example.org/mcp".to_owned(),
        }
    }

    #[test]
    fn written_credentials_can_be_read() {
        let mut entries = Entries::default();
        entries.keep(&key(1), Secret::new("to\"ken\n")).unwrap();
        entries.keep(&key(2), Secret::new("other")).unwrap();
        assert_eq!(Entries::read(&entries.write().unwrap()).unwrap(), entries);
        assert!(Entries::read(b"[{\"principal\": 1}]").is_none());
        let one = write_one(&key(3), &Secret::new("a\\b")).unwrap();
        assert_eq!(read_one(one.expose().as_bytes()).unwrap(), (key(3), Secret::new("a\\b")));
    }

    #[test]
    fn size_of_one_and_of_all_credentials_is_bounded() {
        let mut entries = Entries::default();
        let large = Secret::new("x".repeat(MAX_CREDENTIAL));
        assert_eq!(write_one(&key(0), &large), Err(LimitExceeded::Entry));
        assert_eq!(entries.keep(&key(0), large), Err(LimitExceeded::Entry));
        let almost = Secret::new("x".repeat(MAX_CREDENTIAL - 100));
        for number in 0..=MAX_VAULT / MAX_CREDENTIAL {
            entries.keep(&key(number), almost.clone()).unwrap();
        }
        assert_eq!(entries.write(), Err(LimitExceeded::Bytes));
    }
}
