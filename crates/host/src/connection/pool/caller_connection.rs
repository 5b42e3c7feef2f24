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

/// The listing of one connection, if it differs from the shared one. Nothing awaits under its lock.
#[derive(Debug, Default)]
pub(super) struct CallerListing(Mutex<Option<Arc<Listing>>>);

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
    pub(super) fn new(key: CallerConnectionKey, queue: Arc<Queue>) -> Self {
        Self {
            key,
            established: OnceCell::new(),
            ended: CancellationToken::new(),
            failure: OnceLock::new(),
            stderr_tail: StderrTail::default(),
            monitor: ProcessMonitor::default(),
            queue,
            listing: Arc::default(),
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
        self.0.lock().clone()
    }

    pub(super) fn set(&self, listing: Arc<Listing>) {
        *self.0.lock() = Some(listing);
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
