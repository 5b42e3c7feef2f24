//! Where secrets are asked for by name.

use std::fmt;

use crate::secret::Secret;

/// Secrets that were put away, by service and entry.
pub trait Keychain: fmt::Debug + Send + Sync {
    /// One secret.
    fn get(&self, service: &str, entry: &str) -> Result<Secret, KeychainError>;
}

/// Why a secret cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeychainError {
    /// There is no such entry.
    #[error("there is no such entry")]
    Missing,
    /// There is no keychain, or it does not open.
    #[error("{0}")]
    Closed(String),
}

/// No keychain: everything is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoKeychain;

impl Keychain for NoKeychain {
    fn get(&self, _service: &str, _entry: &str) -> Result<Secret, KeychainError> {
        Err(KeychainError::Closed("no keychain is connected here; use a variable or a file instead".to_owned()))
    }
}
