//! Lookup of secrets by name.

use std::fmt;

use crate::secret::{Secret, SecretName};

/// A keychain: secrets by service and entry, and those of Toolway's vault by name.
pub trait Keychain: fmt::Debug + Send + Sync {
    /// Reads one secret. May block the calling thread.
    fn get(&self, service: &str, entry: &str) -> Result<Secret, KeychainError>;

    /// Reads a secret that the user stored in Toolway's vault. May block the calling thread.
    fn stored(&self, _name: &SecretName) -> Result<Secret, KeychainError> {
        Err(KeychainError::Closed("no vault is available".to_owned()))
    }
}

/// Why a secret cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeychainError {
    /// There is no such entry.
    #[error("no such entry")]
    Missing,
    /// The keychain is missing, locked or failing.
    #[error("{0}")]
    Closed(String),
}

/// A keychain that refuses every lookup.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoKeychain;

impl Keychain for NoKeychain {
    fn get(&self, _service: &str, _entry: &str) -> Result<Secret, KeychainError> {
        Err(KeychainError::Closed("no keychain is available; use an environment variable or a file instead".to_owned()))
    }
}
