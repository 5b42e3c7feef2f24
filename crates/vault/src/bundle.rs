//! Secrets of a backup: all credentials of a vault and small secret files, sealed with a passphrase in the format of an
//! encrypted vault.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolway_auth::vault::{Vault, VaultError};
use toolway_config::Secret;

use crate::{
    entries::Entries,
    sealed::{open_with_passphrase, seal_with_passphrase},
};

/// Secrets as they are backed up.
#[derive(Debug, Default)]
pub struct SecretBundle {
    credentials: Entries,
    /// Contents of secret files, by name.
    files: BTreeMap<String, Vec<u8>>,
}

/// Why secrets cannot be backed up or restored.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The vault failed.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The secrets cannot be sealed or opened: a wrong passphrase, damaged, too large.
    #[error("the secrets of the backup cannot be used: {0}")]
    Sealed(String),
    /// The vault is in memory, so that nothing would be restored.
    #[error("the vault is only in memory, so the secrets would be lost when this program ends")]
    Ephemeral,
}

/// What is sealed.
#[derive(Serialize, Deserialize)]
struct Content {
    credentials: Vec<u8>,
    files: BTreeMap<String, Vec<u8>>,
}

impl SecretBundle {
    /// All credentials of the vault.
    pub async fn of(vault: &dyn Vault) -> Result<Self, BundleError> {
        let credentials = Entries(vault.all().await?.into_iter().collect());
        Ok(Self { credentials, files: BTreeMap::new() })
    }

    /// Adds a secret file.
    pub fn add_file(&mut self, name: &str, content: Vec<u8>) {
        self.files.insert(name.to_owned(), content);
    }

    /// The secret files, by name.
    pub fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    /// Number of credentials.
    pub fn credentials(&self) -> usize {
        self.credentials.0.len()
    }

    /// Seals everything. Slow and memory-intensive on purpose; blocks the thread.
    pub fn seal(&self, passphrase: &Secret) -> Result<Vec<u8>, BundleError> {
        let failed = |problem: &dyn std::fmt::Display| BundleError::Sealed(problem.to_string());
        let credentials = self.credentials.write().map_err(|error| failed(&error))?;
        let content = Content { credentials, files: self.files.clone() };
        let content = serde_json::to_vec(&content).map_err(|error| failed(&error))?;
        seal_with_passphrase(passphrase, content).map_err(BundleError::Sealed)
    }

    /// Opens what [`Self::seal`] returned. Slow and memory-intensive on purpose; blocks the thread.
    pub fn open(sealed: &[u8], passphrase: &Secret) -> Result<Self, BundleError> {
        // No details of a failure: they could quote a secret.
        let damaged = || BundleError::Sealed("they are damaged".to_owned());
        let content = open_with_passphrase(passphrase, sealed).map_err(BundleError::Sealed)?;
        let Content { credentials, files } = serde_json::from_slice(&content).map_err(|_| damaged())?;
        Ok(Self { credentials: Entries::read(&credentials).ok_or_else(damaged)?, files })
    }

    /// Stores the credentials in a vault. Others that it has are kept.
    pub async fn store_in(&self, vault: &dyn Vault) -> Result<(), BundleError> {
        for (key, credential) in &self.credentials.0 {
            vault.store(key, credential.clone()).await?;
            if vault.is_ephemeral() {
                return Err(BundleError::Ephemeral);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use toolway_auth::{
        credential::CredentialKey,
        vault::{MemoryVault, Vault},
    };
    use toolway_config::Secret;

    use super::SecretBundle;

    #[tokio::test]
    async fn sealed_bundle_opens_with_its_passphrase_only() {
        let (vault, key) = (
            MemoryVault::default(),
            CredentialKey {
                principal: "ada".to_owned(),
                issuer: "https://login.example".to_owned(),
                client: "toolway".to_owned(),
                resource: "https://example.org/mcp".to_owned(),
            },
        );
        vault.store(&key, Secret::new("token-1")).await.unwrap();
        let mut bundle = SecretBundle::of(&vault).await.unwrap();
        bundle.add_file("clients.json", b"[]".to_vec());
        let sealed = bundle.seal(&Secret::new("right")).unwrap();
        assert!(!String::from_utf8_lossy(&sealed).contains("token-1"));
        let wrong = SecretBundle::open(&sealed, &Secret::new("wrong")).unwrap_err();
        assert!(wrong.to_string().contains("the passphrase is wrong"), "{wrong}");
        let opened = SecretBundle::open(&sealed, &Secret::new("right")).unwrap();
        assert_eq!((opened.credentials(), opened.files()["clients.json"].as_slice()), (1, b"[]".as_slice()));
    }
}
