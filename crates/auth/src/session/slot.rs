//! The current credential of a session: not loaded, absent or present.

use std::sync::Arc;

use http::HeaderMap;
use parking_lot::Mutex;
use url::Url;

use super::active::ActiveCredential;
use crate::proof::DPOP_NONCE;

/// Holder of the current credential.
#[derive(Default)]
pub(crate) struct CredentialSlot {
    // Nothing awaits under this lock.
    held: Mutex<Held>,
}

#[derive(Default)]
enum Held {
    /// The vault was not read yet.
    #[default]
    Unknown,
    Nothing,
    Tokens(Arc<ActiveCredential>),
}

impl CredentialSlot {
    /// The current credential; the outer `None` means that the vault was not read yet.
    pub(crate) fn get(&self) -> Option<Option<Arc<ActiveCredential>>> {
        match &*self.held.lock() {
            Held::Unknown => None,
            Held::Nothing => Some(None),
            Held::Tokens(held) => Some(Some(Arc::clone(held))),
        }
    }

    /// Replaces the current credential and returns it.
    pub(crate) fn set(&self, held: Option<Arc<ActiveCredential>>) -> Option<Arc<ActiveCredential>> {
        *self.held.lock() = held.clone().map_or(Held::Nothing, Held::Tokens);
        held
    }

    /// Passes a DPoP nonce of a response to the prover.
    pub(crate) fn record_nonce(&self, url: &Url, headers: &HeaderMap) {
        if headers.contains_key(DPOP_NONCE)
            && let Held::Tokens(held) = &*self.held.lock()
        {
            held.record_nonce(url, headers);
        }
    }
}
