//! Counts the users of a connection and records the last use: an idle server can be stopped, and calls in flight can be
//! awaited before a connection is closed.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// Calls and listeners that use a connection, and when it was last used.
#[derive(Debug)]
pub(crate) struct UsageCounter {
    calls: AtomicUsize,
    /// Listeners keep the connection from being idle, but are not awaited before it is closed.
    listeners: AtomicUsize,
    // Nothing awaits under this lock.
    last: Mutex<Instant>,
    unused: Notify,
}

/// Counts one listener until it is dropped.
#[derive(Debug)]
pub(crate) struct ListenerGuard {
    uses: Arc<UsageCounter>,
}

/// Counts one call until it is dropped.
#[derive(Debug)]
pub(crate) struct CallGuard {
    uses: Arc<UsageCounter>,
}

// === impl UsageCounter ===

impl UsageCounter {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            calls: AtomicUsize::new(0),
            listeners: AtomicUsize::new(0),
            last: Mutex::new(Instant::now()),
            unused: Notify::new(),
        })
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Whether neither a call nor a listener uses it.
    pub(crate) fn is_idle(&self) -> bool {
        self.calls() == 0 && self.listeners.load(Ordering::SeqCst) == 0
    }

    pub(crate) fn last_use(&self) -> Instant {
        *self.last.lock()
    }

    /// Waits until no call uses the connection.
    pub(crate) async fn wait_until_unused(&self) {
        loop {
            let unused = self.unused.notified();
            if self.calls() == 0 {
                return;
            }
            unused.await;
        }
    }
}

impl ListenerGuard {
    pub(super) fn new(uses: &Arc<UsageCounter>) -> Self {
        uses.listeners.fetch_add(1, Ordering::SeqCst);
        Self { uses: Arc::clone(uses) }
    }
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        *self.uses.last.lock() = Instant::now();
        self.uses.listeners.fetch_sub(1, Ordering::SeqCst);
    }
}

impl CallGuard {
    pub(super) fn new(uses: &Arc<UsageCounter>) -> Self {
        uses.calls.fetch_add(1, Ordering::SeqCst);
        Self { uses: Arc::clone(uses) }
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        *self.uses.last.lock() = Instant::now();
        if self.uses.calls.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.uses.unused.notify_waiters();
        }
    }
}
