//! What requests carry now: a credential, nothing, or what nobody has looked for yet.

use std::sync::Arc;

use http::HeaderMap;
use parking_lot::Mutex;
use url::Url;

use super::presentable::Presentable;
use crate::proof::DPOP_NONCE;

/// What is held.
#[derive(Default)]
pub(crate) struct Holding {
    // Nothing awaits under this lock.
    held: Mutex<Held>,
}

#[derive(Default)]
enum Held {
    /// Nobody has looked.
    #[default]
    Unknown,
    Nothing,
    Tokens(Arc<Presentable>),
}

impl Holding {
    /// What is held; none where nobody has looked.
    pub(crate) fn known(&self) -> Option<Option<Arc<Presentable>>> {
        match &*self.held.lock() {
            Held::Unknown => None,
            Held::Nothing => Some(None),
            Held::Tokens(held) => Some(Some(Arc::clone(held))),
        }
    }

    /// From now on this.
    pub(crate) fn hold(&self, held: Option<Arc<Presentable>>) -> Option<Arc<Presentable>> {
        *self.held.lock() = held.clone().map_or(Held::Nothing, Held::Tokens);
        held
    }

    /// Gives a nonce that the server answered with to whoever makes the proofs.
    pub(crate) fn hears(&self, url: &Url, headers: &HeaderMap) {
        if headers.contains_key(DPOP_NONCE)
            && let Held::Tokens(held) = &*self.held.lock()
        {
            held.hears(url, headers);
        }
    }
}
