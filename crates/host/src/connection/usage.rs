//! Who uses a connection at the moment, and when somebody last did: a server that nobody uses can be stopped, and one
//! that is being ended can be given a moment.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// Who uses the connection at the moment, and when somebody last did.
#[derive(Debug)]
pub(crate) struct Uses {
    under_way: AtomicUsize,
    /// Those who only listen: the connection is not idle, but nobody waits for them when it is ended.
    listening: AtomicUsize,
    // Nothing awaits under this lock.
    last: Mutex<Instant>,
    none: Notify,
}

/// Somebody listens on the connection; dropping it ends that.
#[derive(Debug)]
pub(crate) struct Ear {
    uses: Arc<Uses>,
}

/// Somebody uses the connection; dropping it ends that.
#[derive(Debug)]
pub(crate) struct Use {
    uses: Arc<Uses>,
}

// === impl Uses ===

impl Uses {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            under_way: AtomicUsize::new(0),
            listening: AtomicUsize::new(0),
            last: Mutex::new(Instant::now()),
            none: Notify::new(),
        })
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::SeqCst)
    }

    /// Whether neither a call nor a listener needs it.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way() == 0 && self.listening.load(Ordering::SeqCst) == 0
    }

    pub(crate) fn last(&self) -> Instant {
        *self.last.lock()
    }

    /// Waits until nobody uses the connection.
    pub(crate) async fn none(&self) {
        loop {
            let none = self.none.notified();
            if self.under_way() == 0 {
                return;
            }
            none.await;
        }
    }
}

impl Ear {
    pub(super) fn open(uses: &Arc<Uses>) -> Self {
        uses.listening.fetch_add(1, Ordering::SeqCst);
        Self { uses: Arc::clone(uses) }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        *self.uses.last.lock() = Instant::now();
        self.uses.listening.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Use {
    pub(super) fn begin(uses: &Arc<Uses>) -> Self {
        uses.under_way.fetch_add(1, Ordering::SeqCst);
        Self { uses: Arc::clone(uses) }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        *self.uses.last.lock() = Instant::now();
        if self.uses.under_way.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.uses.none.notify_waiters();
        }
    }
}
