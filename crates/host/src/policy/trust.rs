//! The port that stores the fingerprints of accepted definitions.
//!
//! A grant applies to one definition. A changed definition has another [`Fingerprint`] and needs a new approval.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use crate::catalog::{Fingerprint, Origin};

/// Stores the fingerprints of accepted definitions.
pub trait TrustLedger: Send + Sync {
    /// Returns the accepted fingerprint of an item, if there is one.
    fn accepted<'a>(&'a self, origin: &'a Origin) -> BoxFuture<'a, Option<Fingerprint>>;

    /// Accepts a definition of an item and replaces the previous one.
    fn accept<'a>(&'a self, origin: &'a Origin, fingerprint: Fingerprint) -> BoxFuture<'a, ()>;
}

/// Stores a limited number of fingerprints in memory.
#[derive(Debug, Default)]
pub struct MemoryTrust {
    // Nothing awaits under this lock.
    accepted: Mutex<BTreeMap<Origin, Fingerprint>>,
}

/// Maximum number of stored definitions, more than any catalog holds. Further ones are not stored and need approval
/// again.
const MAX_DEFINITIONS: usize = 100_000;

impl TrustLedger for MemoryTrust {
    fn accepted<'a>(&'a self, origin: &'a Origin) -> BoxFuture<'a, Option<Fingerprint>> {
        let known = self.accepted.lock().get(origin).copied();
        Box::pin(async move { known })
    }

    fn accept<'a>(&'a self, origin: &'a Origin, fingerprint: Fingerprint) -> BoxFuture<'a, ()> {
        let mut accepted = self.accepted.lock();
        if accepted.len() < MAX_DEFINITIONS || accepted.contains_key(origin) {
            accepted.insert(origin.clone(), fingerprint);
        }
        Box::pin(async {})
    }
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::{Fingerprint, MemoryTrust, Origin, TrustLedger};

    #[tokio::test]
    async fn only_accepted_definitions_are_found() {
        let origin = |raw_name: &str| Origin { server: "files".parse().unwrap(), raw_name: raw_name.to_owned() };
        let read = Fingerprint::of_whole(&Raw::empty_object());
        let ledger = MemoryTrust::default();
        ledger.accept(&origin("read"), read).await;
        assert_eq!(ledger.accepted(&origin("read")).await, Some(read));
        assert_eq!(ledger.accepted(&origin("write")).await, None);
    }
}
