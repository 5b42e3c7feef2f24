//! The connections in a pool, and which of them a request uses. Decides only; nothing here dials or waits.

use std::sync::Arc;

use tokio::time::{Duration, Instant};
use toolway_wire::up::Peer;

use super::{
    Caller,
    caller_connection::{CallerConnection, Queue},
    dial_backoff::DialBackoff,
    key::CallerConnectionKey,
    parked::ParkedCall,
    tasks::TaskOwners,
};

/// Connections per key: this many calls can wait for an answer at the same time.
pub(super) const PER_KEY: usize = 4;
/// Connections per caller and server: clients choose their sessions and capabilities freely.
const PER_CALLER: usize = 16;
/// Caller connections per server.
const PER_SERVER: usize = 64;
/// The longest time an unused connection is kept for a task.
const TASK_KEPT: Duration = Duration::from_secs(3_600);
/// How long the connection of a removed caller stays open, so that cancellations reach the server.
const CANCEL_DELAY: Duration = Duration::from_millis(250);
/// How long a connection is kept that only listed: a client that lists everything at its start calls few servers.
const ONLY_LISTED_IDLE: Duration = Duration::from_secs(60);
/// After being connected this long, a loss does not count as a failure.
const STABLE: Duration = Duration::from_secs(10);

/// The connections in a pool.
#[derive(Debug)]
pub(super) struct PoolState {
    /// Whether connections may be created: only while the server is connected.
    pub(super) open: bool,
    /// Oldest first, so that a caller keeps using the session it began with.
    pub(super) entries: Vec<PoolEntry>,
    pub(super) dial_backoff: DialBackoff,
    /// The caller and the connection of each task.
    pub(super) tasks: TaskOwners,
    /// Evicted connections, to be closed by the supervisor.
    pub(super) evicted: Vec<Arc<CallerConnection>>,
    /// Connections of removed callers, and until when they stay open.
    leaving: Vec<(Instant, Arc<CallerConnection>)>,
}

/// A connection and the calls on it.
#[derive(Debug)]
pub(super) struct PoolEntry {
    pub(super) connection: Arc<CallerConnection>,
    pub(super) calls: usize,
    /// Calls during which the server may send requests.
    pub(super) interactive: usize,
    /// Interactive calls that wait for an answer.
    pub(super) parked: Vec<Arc<ParkedCall>>,
    pub(super) last_use: Instant,
    /// Kept at least until then, because of a task.
    keep_until: Option<Instant>,
    /// Whether it served a request, and not only a listing.
    pub(super) called: bool,
}

/// Whether the server may send requests during a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interactivity {
    /// The server sends no requests during the call.
    NonInteractive,
    /// The server may send requests during the call.
    Interactive,
}

/// How many interactive calls a server may receive at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Concurrency {
    /// Any number: no ambiguous server request was seen.
    Parallel,
    /// One: a server request could not be attributed to one of several calls.
    OneAtATime,
}

/// Whether a request is new or at the front of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    New,
    Queued,
}

/// The connection selected for a request.
#[derive(Debug)]
pub(super) enum Selection {
    /// Use this connection.
    Use(Arc<CallerConnection>),
    /// Wait in this queue.
    Wait(Arc<Queue>),
    /// The limit of connections is reached, and all are in use: the limit and its scope.
    Full(usize, &'static str),
    /// The server is not connected.
    Closed,
}

impl PoolState {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            open: false,
            entries: Vec::new(),
            dial_backoff: DialBackoff::seeded(seed),
            tasks: TaskOwners::default(),
            evicted: Vec::new(),
            leaving: Vec::new(),
        }
    }

    /// Records a task on this connection.
    pub(super) fn keep_task(
        &mut self,
        task: String,
        ttl: Option<Duration>,
        connection: &Arc<CallerConnection>,
        now: Instant,
    ) {
        let until = now + ttl.unwrap_or(TASK_KEPT).min(TASK_KEPT);
        let Some(entry) = self.entry(connection) else { return };
        entry.keep_until = entry.keep_until.max(Some(until));
        self.tasks.keep(task, connection, now);
    }

    /// Uses the connection that keeps this task, if it belongs to the caller.
    pub(super) fn use_for_task(
        &mut self,
        task: &str,
        key: &CallerConnectionKey,
        interactivity: Interactivity,
    ) -> Option<Arc<CallerConnection>> {
        let kept = self.tasks.connection(task, &key.caller)?;
        if !self.open || kept.key.session != key.session || kept.is_gone() || self.entry(&kept).is_none() {
            return None;
        }
        self.use_connection(&kept, interactivity);
        Some(kept)
    }

    /// Selects an existing connection or creates one.
    pub(super) fn select(
        &mut self,
        key: &CallerConnectionKey,
        interactivity: Interactivity,
        concurrency: Concurrency,
        arrival: Arrival,
        now: Instant,
    ) -> Selection {
        if !self.open {
            return Selection::Closed;
        }
        self.prune(now);
        let own = self.entries.iter().filter(|entry| entry.connection.key == *key);
        let queued = own.clone().map(|entry| &entry.connection.queue).find(|queue| 0 < queue.waiting());
        if let (Interactivity::Interactive, Arrival::New, Some(queue)) = (interactivity, arrival, queued) {
            return Selection::Wait(Arc::clone(queue));
        }
        let found = own
            .clone()
            .find(|entry| entry.is_free(interactivity, concurrency))
            .map(|entry| Arc::clone(&entry.connection));
        if let Some(connection) = found {
            return self.use_connection(&connection, interactivity);
        }
        let queue = own.clone().next().map(|entry| Arc::clone(&entry.connection.queue));
        let busy = concurrency == Concurrency::OneAtATime && own.clone().any(PoolEntry::has_running);
        match queue {
            Some(queue) if busy || PER_KEY <= own.count() => Selection::Wait(queue),
            queue => self.create(key, queue.unwrap_or_default(), interactivity, now),
        }
    }

    fn use_connection(&mut self, connection: &Arc<CallerConnection>, interactivity: Interactivity) -> Selection {
        if let Some(entry) = self.entry(connection) {
            entry.calls += 1;
            entry.interactive += usize::from(interactivity == Interactivity::Interactive);
        }
        Selection::Use(Arc::clone(connection))
    }

    fn create(
        &mut self,
        key: &CallerConnectionKey,
        queue: Arc<Queue>,
        interactivity: Interactivity,
        now: Instant,
    ) -> Selection {
        let of_caller = |entry: &PoolEntry| entry.connection.key.caller == key.caller;
        let of_this = |caller: &Caller| *caller == key.caller;
        let own = self.entries.iter().filter(|entry| of_caller(entry)).count();
        if PER_CALLER <= own && !self.evict_idle(of_caller) && !self.evict_parked(of_this, now) {
            return Selection::Full(PER_CALLER, "on connections of this caller");
        }
        if PER_SERVER <= self.entries.len() && !self.evict_idle(|_| true) && !self.evict_parked(|_| true, now) {
            return Selection::Full(PER_SERVER, "on connections of all callers");
        }
        let connection = Arc::new(CallerConnection::new(key.clone(), queue));
        self.entries.push(PoolEntry {
            connection: Arc::clone(&connection),
            calls: 0,
            interactive: 0,
            parked: Vec::new(),
            last_use: now,
            keep_until: None,
            called: false,
        });
        self.use_connection(&connection, interactivity)
    }

    /// Removes the connection that was idle for the longest; `false` if none is idle.
    fn evict_idle(&mut self, matches: impl Fn(&PoolEntry) -> bool) -> bool {
        let idle = self.entries.iter().filter(|entry| entry.calls == 0 && matches(entry));
        let Some(oldest) = idle.min_by_key(|entry| entry.last_use).map(|entry| Arc::clone(&entry.connection)) else {
            return false;
        };
        self.remove(&oldest);
        true
    }

    pub(super) fn entry(&mut self, connection: &Arc<CallerConnection>) -> Option<&mut PoolEntry> {
        self.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.connection, connection))
    }

    /// Removes a connection; it closes with the last of its calls.
    pub(super) fn remove(&mut self, connection: &Arc<CallerConnection>) {
        self.entries.retain(|entry| !Arc::ptr_eq(&entry.connection, connection));
        connection.ended.cancel();
    }

    /// Removes the connection of a removed caller, and keeps it open for a moment.
    pub(super) fn remove_soon(&mut self, connection: &Arc<CallerConnection>, now: Instant) {
        self.remove(connection);
        self.leaving.push((now + CANCEL_DELAY, Arc::clone(connection)));
    }

    /// Removes the connections that were idle for this long.
    pub(super) fn expire_idle(&mut self, idle: Duration, now: Instant) {
        self.leaving.retain(|(until, _)| now < *until);
        self.prune(now);
        let (kept, expired) =
            std::mem::take(&mut self.entries).into_iter().partition(|entry| now < entry.expires_at(idle, now));
        self.entries = kept;
        expired.iter().for_each(|entry: &PoolEntry| entry.connection.ended.cancel());
    }

    /// When the next connection may expire.
    pub(super) fn due(&self, idle: Duration, now: Instant) -> Option<Instant> {
        let leaving = self.leaving.iter().map(|(until, _)| *until);
        self.entries.iter().map(|entry| entry.expires_at(idle, now)).chain(leaving).min()
    }

    /// Removes all connections until the server is connected again; returns the peers to close.
    pub(super) fn close(&mut self) -> Vec<Peer> {
        self.open = false;
        self.tasks.forget_shared();
        let leaving = std::mem::take(&mut self.leaving);
        let connections: Vec<_> = std::mem::take(&mut self.entries).into_iter().map(|entry| entry.connection).collect();
        connections
            .iter()
            .chain(&std::mem::take(&mut self.evicted))
            .chain(leaving.iter().map(|(_, connection)| connection))
            .filter_map(|connection| {
                connection.ended.cancel();
                connection.queue.moved.notify_waiters();
                connection.peer().cloned()
            })
            .collect()
    }

    /// Removes lost connections. Those lost early count as failures, which delay the next dial.
    fn prune(&mut self, now: Instant) {
        if !self.entries.iter().any(|entry| entry.connection.is_gone()) {
            return;
        }
        let (gone, kept): (Vec<PoolEntry>, Vec<PoolEntry>) =
            std::mem::take(&mut self.entries).into_iter().partition(|entry| entry.connection.is_gone());
        self.entries = kept;
        for entry in gone {
            match entry.connection.connected_for(now) {
                Some(time) if time < STABLE => self.dial_backoff.fail(entry.connection.loss_reason(), now),
                _ => self.dial_backoff.succeed(),
            }
        }
    }
}

impl PoolEntry {
    /// When it expires, if it is not used again.
    fn expires_at(&self, idle: Duration, now: Instant) -> Instant {
        let idle = if self.called { idle } else { idle.min(ONLY_LISTED_IDLE) };
        let expiry = if self.calls == 0 { self.last_use + idle } else { now + idle };
        self.keep_until.map_or(expiry, |until| expiry.max(until))
    }

    fn is_free(&self, interactivity: Interactivity, concurrency: Concurrency) -> bool {
        match (interactivity, concurrency) {
            (Interactivity::NonInteractive, _) => true,
            (Interactivity::Interactive, Concurrency::OneAtATime) => self.interactive == 0,
            // The next server request could not be told from that of the waiting call.
            (Interactivity::Interactive, Concurrency::Parallel) => self.parked.is_empty(),
        }
    }

    /// Whether an interactive call runs on it that does not wait for an answer.
    pub(super) fn has_running(&self) -> bool {
        self.parked.len() < self.interactive
    }

    /// A call has ended; if it was preempted, it was subtracted before.
    pub(super) fn release(&mut self, interactivity: Interactivity, parked: Option<&Arc<ParkedCall>>, now: Instant) {
        if parked.is_none_or(|parked| !parked.is_released()) {
            self.subtract(interactivity, parked, now);
        }
    }

    pub(super) fn subtract(&mut self, interactivity: Interactivity, parked: Option<&Arc<ParkedCall>>, now: Instant) {
        self.calls -= 1;
        self.interactive -= usize::from(interactivity == Interactivity::Interactive);
        self.parked.retain(|other| !parked.is_some_and(|parked| Arc::ptr_eq(other, parked)));
        self.last_use = now;
    }
}
