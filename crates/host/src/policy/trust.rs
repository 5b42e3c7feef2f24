//! Which definitions were accepted: the port that remembers their fingerprints.
//!
//! A grant is given for a definition. A definition that changes has another
//! [`Fingerprint`], and is asked about again.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use crate::catalog::{Fingerprint, Origin};

/// Remembers the fingerprints that were accepted.
pub trait TrustLedger: Send + Sync {
    /// What was accepted of this item, if anything.
    fn accepted<'a>(&'a self, origin: &'a Origin) -> BoxFuture<'a, Option<Fingerprint>>;

    /// From now on this is accepted.
    fn accept<'a>(&'a self, origin: &'a Origin, fingerprint: Fingerprint) -> BoxFuture<'a, ()>;
}

/// Remembers as long as the process lives, and no more than a bounded number.
#[derive(Debug, Default)]
pub struct MemoryTrust {
    // Nothing awaits under this lock.
    accepted: Mutex<BTreeMap<Origin, Fingerprint>>,
}

/// More definitions than any catalog holds; one more is not remembered, and so asked about again.
const MOST: usize = 100_000;

impl TrustLedger for MemoryTrust {
    fn accepted<'a>(&'a self, origin: &'a Origin) -> BoxFuture<'a, Option<Fingerprint>> {
        let known = self.accepted.lock().get(origin).copied();
        Box::pin(async move { known })
    }

    fn accept<'a>(&'a self, origin: &'a Origin, fingerprint: Fingerprint) -> BoxFuture<'a, ()> {
        let mut accepted = self.accepted.lock();
        if accepted.len() < MOST || accepted.contains_key(origin) {
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
    async fn what_was_accepted_is_known_again_and_nothing_else_is() {
        let origin = |raw_name: &str| Origin { server: "files".parse().unwrap(), raw_name: raw_name.to_owned() };
        let read = Fingerprint::of_whole(&Raw::empty_object());
        let ledger = MemoryTrust::default();
        ledger.accept(&origin("read"), read).await;
        assert_eq!(ledger.accepted(&origin("read")).await, Some(read));
        assert_eq!(ledger.accepted(&origin("write")).await, None);
    }
}
