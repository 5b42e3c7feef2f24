//! Parked calls: calls that wait for the answer to a server request, and which of them is preempted.
//!
//! A user may take minutes to answer, or never answer. So no call is ended while there is room. If a call needs a
//! connection and parked calls hold all of them, the call that has waited longest is ended, once it has waited for
//! [`PREEMPT_AFTER`]. While a running call holds one of the connections, its end is awaited instead. A connection of the
//! same key is reused; one of another key is evicted, first that of the caller with the most parked calls. A call that is
//! answered at the same moment is not ended, because its server acts on the answer.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::{Duration, Instant, sleep_until};
use toolway_wire::{exchange::CancelHandle, up::Peer};

use super::{
    Caller, ConnectionPool,
    key::CallerConnectionKey,
    state::{Interactivity, PER_KEY, PoolEntry, PoolState},
};

/// The shortest time a call waits for an answer before it may be preempted.
const PREEMPT_AFTER: Duration = Duration::from_secs(30);

/// A call that waits for an answer, as seen by calls that need its connection.
#[derive(Debug)]
pub(super) struct ParkedCall {
    cancel: CancelHandle,
    // Nothing awaits under this lock.
    waiting: Mutex<WaitingSince>,
}

#[derive(Debug)]
struct WaitingSince {
    /// When the server sent its last request.
    since: Instant,
    /// How long it had waited when it was preempted.
    preempted_after: Option<Duration>,
    /// Its connection is already free for another call.
    released: bool,
}

impl ParkedCall {
    pub(super) fn new(cancel: CancelHandle, now: Instant) -> Self {
        Self { cancel, waiting: Mutex::new(WaitingSince { since: now, preempted_after: None, released: false }) }
    }

    pub(super) fn restart_wait(&self, now: Instant) {
        self.waiting.lock().since = now;
    }

    /// How long it had waited when it was preempted; `None` if it was not.
    pub(super) fn preempted_after(&self) -> Option<Duration> {
        self.waiting.lock().preempted_after
    }

    /// Whether its connection is already free for another call.
    pub(super) fn is_released(&self) -> bool {
        self.waiting.lock().released
    }

    /// When it may be preempted; `None` while its server works on an answer. If the server has ended the call and only its
    /// result is unread, it may be preempted at once.
    fn preemptible_at(&self) -> Option<Instant> {
        let since = || self.waiting.lock().since;
        if self.cancel.is_over() {
            return Some(since());
        }
        self.cancel.awaits_answer().then(|| since() + PREEMPT_AFTER)
    }

    /// Cancels the call, unless it was answered at this moment. Returns whether its connection is free.
    fn preempt(&self, now: Instant) -> bool {
        // Held while cancelling, so that the reason is set when the end is seen.
        let mut waiting = self.waiting.lock();
        if self.cancel.cancel_if_awaiting_answer(REASON) {
            let waited = now.saturating_duration_since(waiting.since);
            waiting.preempted_after = Some(Duration::from_secs(waited.as_secs()));
            waiting.released = true;
        } else {
            waiting.released = self.cancel.is_over();
        }
        waiting.released
    }
}

impl ConnectionPool {
    /// Resolves when a parked call of this key may be preempted; pending forever if none may.
    pub(super) async fn wait_for_preemption(&self, key: &CallerConnectionKey) {
        let at = self.state.lock().preemptible_at(key);
        match at {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Preempts the call of this key that has waited longest, which frees its connection.
    pub(super) fn preempt(&self, key: &CallerConnectionKey) {
        self.state.lock().preempt(key, Instant::now());
    }

    /// Takes the evicted connections; the caller closes them.
    pub(crate) fn take_evicted(&self) -> Vec<Peer> {
        let evicted = std::mem::take(&mut self.state.lock().evicted);
        evicted.iter().filter_map(|connection| connection.peer().cloned()).collect()
    }
}

/// The cancellation reason sent to the server.
const REASON: &str = "no answer in time, and its connection was needed for another call";

impl PoolState {
    /// When the first call of this key may be preempted; `None` while a connection may be created or has a running call.
    fn preemptible_at(&self, key: &CallerConnectionKey) -> Option<Instant> {
        let own = self.entries.iter().filter(|entry| entry.connection.key == *key);
        let all: Vec<Instant> = own.map(PoolEntry::preemptible_at).collect::<Option<_>>()?;
        all.iter().min().copied().filter(|_| PER_KEY <= all.len())
    }

    fn preempt(&mut self, key: &CallerConnectionKey, now: Instant) {
        let Some(at) = self.preemptible_at(key).filter(|at| *at <= now) else { return };
        let mut own = self.entries.iter_mut().filter(|entry| entry.connection.key == *key);
        if let Some(entry) = own.find(|entry| entry.preemptible_at() == Some(at)) {
            entry.preempt(now);
            entry.connection.queue.moved.notify_waiters();
        }
    }

    /// Evicts a connection that only has calls which may be preempted: among the callers selected by `matches`, from the one
    /// with the most such connections, the one that has waited longest. Returns `false` if no connection qualifies.
    pub(super) fn evict_parked(&mut self, matches: impl Fn(&Caller) -> bool, now: Instant) -> bool {
        let is_parked = |entry: &&PoolEntry| matches(&entry.connection.key.caller) && entry.calls == entry.parked.len();
        let due = self.entries.iter().filter(is_parked).filter_map(|entry| Some((entry.preemptible_at()?, entry)));
        let due: Vec<(Instant, &PoolEntry)> = due.filter(|(at, _)| *at <= now).collect();
        let held_by = |caller: &Caller| due.iter().filter(|(_, entry)| entry.connection.key.caller == *caller).count();
        let first =
            due.iter().max_by_key(|(at, entry)| (held_by(&entry.connection.key.caller), std::cmp::Reverse(*at)));
        let Some(connection) = first.map(|(_, entry)| Arc::clone(&entry.connection)) else { return false };
        if !self.entry(&connection).is_some_and(|entry| entry.preempt(now)) {
            return false;
        }
        self.remove(&connection);
        self.evicted.push(connection);
        true
    }
}

impl PoolEntry {
    /// When all its calls may be preempted; `None` if it has a running call.
    fn preemptible_at(&self) -> Option<Instant> {
        let at: Option<Vec<Instant>> = self.parked.iter().map(|parked| parked.preemptible_at()).collect();
        at?.into_iter().max().filter(|_| !self.has_running())
    }

    /// Preempts its parked calls; returns whether none is left.
    fn preempt(&mut self, now: Instant) -> bool {
        let ended: Vec<_> = self.parked.iter().filter(|parked| parked.preempt(now)).cloned().collect();
        ended.iter().for_each(|parked| self.subtract(Interactivity::Interactive, Some(parked), now));
        self.parked.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, Instant};
    use toolway_wire::{
        exchange::{Cause, ExchangeTimeouts, Outcome, ServerRequestDetails, ServerRequestId, pair},
        json::Raw,
    };

    use super::{PREEMPT_AFTER, ParkedCall};

    fn server_request() -> ServerRequestDetails {
        ServerRequestDetails {
            id: ServerRequestId(1),
            key: None,
            method: "elicitation/create".to_owned(),
            params: Some(Raw::empty_object()),
            cause: Cause::Request,
        }
    }

    #[tokio::test]
    async fn parked_call_is_preempted_after_the_minimum_wait() {
        let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 8);
        let begun = Instant::now();
        let parked = ParkedCall::new(exchange.cancel_handle(), begun);
        assert_eq!(parked.preemptible_at(), None, "the server works on the call");
        let _answer = feed.ask(server_request());
        assert_eq!(parked.preemptible_at(), Some(begun + PREEMPT_AFTER));
        assert!(parked.preempt(begun + Duration::from_secs(40)) && parked.is_released());
        assert_eq!(parked.preempted_after(), Some(Duration::from_secs(40)));
    }

    #[tokio::test]
    async fn call_ended_by_its_server_frees_its_connection_before_its_result_is_read() {
        for asked in [true, false] {
            let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 8);
            let begun = Instant::now();
            let parked = ParkedCall::new(exchange.cancel_handle(), begun);
            let answer = asked.then(|| feed.ask(server_request()));
            feed.end(Outcome::Answered(Raw::empty_object()));
            assert_eq!(parked.preemptible_at(), Some(begun), "asked: {asked}");
            assert!(parked.preempt(begun) && parked.is_released());
            assert_eq!(parked.preempted_after(), None, "it was not preempted");
            assert!(matches!(exchange.outcome().await, Outcome::Answered(_)), "and its answer is still there");
            drop(answer);
        }
    }
}
