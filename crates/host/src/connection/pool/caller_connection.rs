//! One connection to a server, reserved for the calls of one key.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OnceCell, Semaphore},
    time::{Duration, Instant},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolway_wire::{exchange::LogLevel, up::Peer};

use super::key::CallerConnectionKey;
use crate::{
    audience::{ClientText, OperatorText},
    catalog::Listing,
    connection::{state::NotConnected, stderr_tail::StderrTail, stdio::ProcessMonitor},
    record::redact::Redactor,
    whose_move::WhoseMove,
};

/// A connection to a server that is reserved for one caller.
#[derive(Debug)]
pub(crate) struct CallerConnection {
    pub(super) key: CallerConnectionKey,
    /// Empty until the first call has dialled it.
    pub(super) established: OnceCell<Established>,
    pub(super) ended: CancellationToken,
    /// Why it could not be established.
    pub(super) failure: OnceLock<NotConnected>,
    pub(super) stderr_tail: StderrTail,
    pub(super) monitor: ProcessMonitor,
    /// Shared by all connections of the key.
    pub(super) queue: Arc<Queue>,
    /// Its own listing, after the server announced a change on it.
    pub(super) listing: Arc<CallerListing>,
    /// Log level set on the server. Nothing awaits under this lock.
    level: Mutex<Option<LogLevel>>,
}

/// An established connection.
#[derive(Debug)]
pub(super) struct Established {
    pub(super) peer: Peer,
    pub(super) redactor: Redactor,
    since: Instant,
    /// The process, if it was taken over.
    monitor: Option<ProcessMonitor>,
    _follower: AbortOnDropHandle<()>,
}

/// The listing of one connection, if it differs from the shared one.
#[derive(Debug)]
pub(super) struct CallerListing {
    // Nothing awaits under this lock.
    listing: Mutex<Option<Arc<Listing>>>,
    /// Number of items in all such listings of the server.
    items: Arc<AtomicUsize>,
}

/// Calls that wait for a connection of one key, in order of arrival.
#[derive(Debug)]
pub(super) struct Queue {
    /// Held by the call at the front.
    pub(super) front: Semaphore,
    /// Notified when a call ended or waits for an answer.
    pub(super) moved: Notify,
    waiting: AtomicUsize,
}

/// A place in a queue; dropping it leaves the queue.
pub(super) struct QueueSlot(Arc<Queue>);

impl CallerConnection {
    pub(super) fn new(key: CallerConnectionKey, queue: Arc<Queue>, items: &Arc<AtomicUsize>) -> Self {
        Self {
            key,
            established: OnceCell::new(),
            ended: CancellationToken::new(),
            failure: OnceLock::new(),
            stderr_tail: StderrTail::default(),
            monitor: ProcessMonitor::default(),
            queue,
            listing: Arc::new(CallerListing { listing: Mutex::default(), items: Arc::clone(items) }),
            level: Mutex::default(),
        }
    }

    pub(super) fn peer(&self) -> Option<&Peer> {
        self.established.get().map(|established| &established.peer)
    }

    /// The monitor of its process.
    pub(super) fn monitor(&self) -> &ProcessMonitor {
        let taken_over = self.established.get().and_then(|established| established.monitor.as_ref());
        taken_over.unwrap_or(&self.monitor)
    }

    /// Whether it was established and is lost.
    pub(super) fn is_gone(&self) -> bool {
        self.peer().is_some_and(Peer::is_closed)
    }

    /// Time since it was established.
    pub(super) fn connected_for(&self, now: Instant) -> Option<Duration> {
        self.established.get().map(|established| now.saturating_duration_since(established.since))
    }

    pub(super) fn loss_reason(&self) -> NotConnected {
        let why = self.peer().and_then(|peer| peer.closed().now_or_never());
        let whose_move = why.as_ref().map_or(WhoseMove::Supervisor, WhoseMove::after);
        let for_client = why.as_ref().map_or_else(|| ClientText::of_code("ended"), ClientText::from);
        let because = why.map(|why| why.to_string()).unwrap_or_default();
        let because =
            self.established.get().map_or_else(String::new, |established| established.redactor.text(&because));
        NotConnected { because: OperatorText::new(because), for_client, whose_move, error: None }
    }

    /// Makes the server log from this level on; never lowers the verbosity.
    pub(super) async fn raise_log_level(&self, level: LogLevel) {
        let Some(peer) = self.peer().filter(|peer| peer.profile().capabilities.has("logging")) else { return };
        {
            let mut current = self.level.lock();
            if current.is_some_and(|current| current <= level) {
                return;
            }
            *current = Some(level);
        }
        if let Err(error) = peer.set_log_level(level).await {
            tracing::debug!(%error, "cannot set the log level");
        }
    }
}

impl Established {
    pub(super) fn new(peer: Peer, redactor: Redactor, follower: AbortOnDropHandle<()>) -> Self {
        Self { peer, redactor, since: Instant::now(), monitor: None, _follower: follower }
    }

    /// With the monitor of a process that was taken over.
    pub(super) fn with_monitor(self, monitor: ProcessMonitor) -> Self {
        Self { monitor: Some(monitor), ..self }
    }
}

impl CallerListing {
    pub(super) fn get(&self) -> Option<Arc<Listing>> {
        self.listing.lock().clone()
    }

    /// Keeps the listing, unless all listings together would exceed `max` items; returns whether it was kept.
    pub(super) fn keep(&self, listing: Listing, max: usize) -> bool {
        let mut kept = self.listing.lock();
        let (new, old) = (listing.count(), kept.as_ref().map_or(0, |known| known.count()));
        let fits = self.items.load(Ordering::SeqCst) + new <= max + old;
        if fits {
            self.items.fetch_add(new, Ordering::SeqCst);
            self.items.fetch_sub(old, Ordering::SeqCst);
            *kept = Some(Arc::new(listing));
        }
        fits
    }
}

impl Drop for CallerListing {
    fn drop(&mut self) {
        let kept = self.listing.lock().as_ref().map_or(0, |known| known.count());
        self.items.fetch_sub(kept, Ordering::SeqCst);
    }
}

impl Queue {
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Joins the end of the queue; `None` if it is full.
    pub(super) fn join(self: &Arc<Self>, max: usize) -> Option<QueueSlot> {
        let place = QueueSlot(Arc::clone(self));
        (self.waiting.fetch_add(1, Ordering::SeqCst) < max).then_some(place)
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self { front: Semaphore::new(1), moved: Notify::new(), waiting: AtomicUsize::new(0) }
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicUsize, atomic::Ordering};

    use parking_lot::Mutex;
    use serde_json::json;
    use toolway_wire::{
        json::Raw,
        message::item::{Item, Tool},
    };

    use super::CallerListing;
    use crate::catalog::{Listing, entry::ListedItem};

    fn listing(items: usize) -> Listing {
        let tool = |_| ListedItem::new(Tool::view(&Raw::of(&json!({ "name": "one" }))).unwrap());
        Listing { tools: (0..items).map(tool).collect(), ..Listing::empty() }
    }

    #[test]
    fn caller_listings_are_kept_within_a_common_limit() {
        let items = Arc::new(AtomicUsize::new(0));
        let [one, other] = [(); 2].map(|()| CallerListing { listing: Mutex::default(), items: Arc::clone(&items) });
        assert!(one.keep(listing(6), 10));
        assert!(!other.keep(listing(6), 10) && other.get().is_none());
        assert!(one.keep(listing(10), 10), "its own old list makes room");
        assert!(!one.keep(listing(11), 10) && one.get().unwrap().count() == 10);
        drop(one);
        assert_eq!(items.load(Ordering::SeqCst), 0);
        assert!(other.keep(listing(6), 10));
    }
}
