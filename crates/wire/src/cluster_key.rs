//! The secret that the gateways of a cluster share, and the keys that are derived from it.

use std::fmt;

use ring::hmac;

use crate::seal::{KEY_BYTES, NoRandomness, Sealer};

/// The secret of a cluster. It is never used itself; each use has a key of its own.
#[derive(Clone)]
pub struct ClusterKey(hmac::Key);

/// The secret that is used, and a second one that is accepted while the secret is being changed: first every gateway
/// accepts the new one, then every gateway uses it, then the old one is removed.
#[derive(Clone, Debug)]
pub struct ClusterKeys {
    /// Seals, and proves that this gateway belongs to the cluster.
    pub current: ClusterKey,
    /// Accepted only.
    pub accepted: Option<ClusterKey>,
}

/// A secret that can be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the key of the cluster is too short: it must have at least {LEAST} characters, such as the output of `openssl rand -base64 32`"
)]
pub struct WeakClusterKey;

/// What a derived key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyUse {
    /// Session ids.
    Sessions,
    /// The identity that gateways prove to each other.
    Peers,
    /// What clients hold besides: positions in lists, ids of tasks, requests that wait for answers.
    Handles,
}

/// Fewest characters of a secret.
const LEAST: usize = 32;

impl ClusterKey {
    /// Takes the secret as configured; spaces around it are ignored.
    pub fn new(secret: &str) -> Result<Self, WeakClusterKey> {
        let secret = secret.trim();
        if secret.len() < LEAST {
            return Err(WeakClusterKey);
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())))
    }

    /// The key for one use.
    pub(crate) fn derive(&self, of: KeyUse) -> [u8; KEY_BYTES] {
        let label: &[u8] = match of {
            KeyUse::Sessions => b"toolway cluster sessions",
            KeyUse::Peers => b"toolway cluster peers",
            KeyUse::Handles => b"toolway cluster handles",
        };
        let mut key = [0; KEY_BYTES];
        key.copy_from_slice(hmac::sign(&self.0, label).as_ref());
        key
    }
}

impl ClusterKeys {
    /// Seals what clients hold besides the ids of their sessions. What was sealed before the key was changed does not open.
    pub fn sealer(&self) -> Result<Sealer, NoRandomness> {
        Sealer::with_key(&self.current.derive(KeyUse::Handles))
    }

    /// One key, which is not being changed.
    pub fn only(current: ClusterKey) -> Self {
        Self { current, accepted: None }
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::{ClusterKey, KeyUse, WeakClusterKey};

    #[test]
    fn each_use_has_a_key_of_its_own() {
        let key = ClusterKey::new("0123456789abcdef0123456789abcdef").unwrap();
        let same = ClusterKey::new(" 0123456789abcdef0123456789abcdef\n").unwrap();
        assert_eq!(key.derive(KeyUse::Peers), same.derive(KeyUse::Peers));
        assert_ne!(key.derive(KeyUse::Peers), key.derive(KeyUse::Sessions));
        assert_eq!(format!("{key:?}"), "ClusterKey(..)");
        assert_eq!(ClusterKey::new("short").unwrap_err(), WeakClusterKey);
    }
}
