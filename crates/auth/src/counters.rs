//! Counts token refreshes at one server, for the metrics of an operator.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Token refreshes since the start, of all sessions that share a clone.
#[derive(Clone, Debug, Default)]
pub struct RefreshCounters {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    succeeded: AtomicU64,
    failed: AtomicU64,
}

impl RefreshCounters {
    /// Number of refreshes that gave a new access token.
    pub fn succeeded(&self) -> u64 {
        self.shared.succeeded.load(Ordering::Relaxed)
    }

    /// Number of refreshes that failed.
    pub fn failed(&self) -> u64 {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Counts a finished refresh.
    pub(crate) fn record<T, E>(&self, refreshed: &Result<T, E>) {
        let count = if refreshed.is_ok() { &self.shared.succeeded } else { &self.shared.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
