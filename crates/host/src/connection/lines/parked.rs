//! Calls that wait for an answer, and which of them gives way.
//!
//! Whoever is asked may take minutes, or have left for good; nobody can tell. So nobody is hurried while there is room.
//! Where a call needs a connection and all that there may be are held by calls that wait, what has waited for longest is
//! ended, once it has waited for [`GIVES_WAY`]. A connection of the same key is turned over as it is; one of another key
//! is given up for a new one, first of whoever has most that wait.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::time::{Duration, Instant, sleep_until};
use toolway_wire::exchange::CallOff;

use super::{
    Caller, Lines,
    key::LineKey,
    line::Line,
    pool::{Entry, Need, PER_KEY, Pool},
};

/// Nobody is ended for the sake of another who has waited for an answer for less than this.
const GIVES_WAY: Duration = Duration::from_secs(30);

/// A call that was asked about, as it can be ended from elsewhere.
#[derive(Debug)]
pub(super) struct Parked {
    call_off: CallOff,
    /// When its server last asked something. Nothing awaits under this lock.
    since: Mutex<Instant>,
    gave_way: OnceLock<Duration>,
}

/// A connection whose place was taken, and what waited on it.
#[derive(Debug)]
pub(super) struct GivenUp {
    line: Arc<Line>,
    parked: Vec<Arc<Parked>>,
}

impl Parked {
    pub(super) fn new(call_off: CallOff, now: Instant) -> Self {
        Self { call_off, since: Mutex::new(now), gave_way: OnceLock::new() }
    }

    pub(super) fn is_asked_again(&self, now: Instant) {
        *self.since.lock() = now;
    }

    /// For how long it had waited when it was ended for the sake of another.
    pub(super) fn gave_way(&self) -> Option<Duration> {
        self.gave_way.get().copied()
    }

    /// When it may be ended for the sake of another; not while its server works on what it was answered.
    fn gives_way_at(&self) -> Option<Instant> {
        self.call_off.is_asked().then(|| *self.since.lock() + GIVES_WAY)
    }

    /// It has no place any more; its end is still to be told.
    fn give_way(&self, now: Instant) {
        let waited = now.saturating_duration_since(*self.since.lock());
        // Nobody else sets it: it was on the list of those who have a place.
        let _first = self.gave_way.set(Duration::from_secs(waited.as_secs()));
    }
}

impl Lines {
    /// Resolves when a connection of this key may be turned over to a call that waits; never where there is none.
    pub(super) async fn one_to_give_way(&self, key: &LineKey) {
        let at = self.pool.lock().gives_way_at(key);
        match at {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Ends what has waited for an answer for longest on a connection of this key, which is free then.
    pub(super) fn make_way(&self, key: &LineKey) {
        let given = self.pool.lock().make_way(key, Instant::now());
        given.iter().for_each(|parked| parked.call_off.cancel(WHY));
    }

    /// Closes the connections whose place was taken, and ends what waited on them.
    pub(super) async fn close_given_up(&self) {
        let given_up = std::mem::take(&mut self.pool.lock().given_up);
        for GivenUp { line, parked } in given_up {
            parked.iter().for_each(|parked| parked.call_off.cancel(WHY));
            if let Some(peer) = line.peer() {
                peer.close().await;
            }
        }
    }
}

/// What a server is told of a call that gave way.
const WHY: &str = "nobody answered, and its connection was needed";

impl Pool {
    fn gives_way_at(&self, key: &LineKey) -> Option<Instant> {
        let own = self.lines.iter().filter(|entry| entry.line.key == *key);
        if own.clone().count() < PER_KEY { None } else { own.filter_map(Entry::gives_way_at).min() }
    }

    fn make_way(&mut self, key: &LineKey, now: Instant) -> Vec<Arc<Parked>> {
        let own = self.lines.iter_mut().filter(|entry| entry.line.key == *key);
        let due = own.filter_map(|entry| Some((entry.gives_way_at()?, entry)));
        let Some((_, entry)) = due.filter(|(at, _)| *at <= now).min_by_key(|(at, _)| *at) else { return Vec::new() };
        let given = entry.parked.clone();
        for parked in &given {
            entry.leave(Need::Askable, Some(parked), now);
            parked.give_way(now);
        }
        entry.line.queue.moved.notify_waiters();
        given
    }

    /// Gives up a connection that is only held by calls that have waited for long: of these callers, the one that has
    /// most of those gives up the one that has waited for longest. Whether there was one.
    pub(super) fn give_up(&mut self, whose: impl Fn(&Caller) -> bool, now: Instant) -> bool {
        let only_waits = |entry: &&Entry| whose(&entry.line.key.caller) && entry.calls == entry.parked.len();
        let due = self.lines.iter().filter(only_waits).filter_map(|entry| Some((entry.gives_way_at()?, entry)));
        let due: Vec<(Instant, &Entry)> = due.filter(|(at, _)| *at <= now).collect();
        let held_by = |caller: &Caller| due.iter().filter(|(_, entry)| entry.line.key.caller == *caller).count();
        let first = due.iter().max_by_key(|(at, entry)| (held_by(&entry.line.key.caller), std::cmp::Reverse(*at)));
        let Some((_, entry)) = first else { return false };
        let given = GivenUp { line: Arc::clone(&entry.line), parked: entry.parked.clone() };
        given.parked.iter().for_each(|parked| parked.give_way(now));
        self.end(&given.line);
        self.given_up.push(given);
        true
    }
}

impl Entry {
    /// When it may be turned over, if it is held only by calls that wait for an answer.
    fn gives_way_at(&self) -> Option<Instant> {
        let at: Option<Vec<Instant>> = self.parked.iter().map(|parked| parked.gives_way_at()).collect();
        at?.into_iter().max().filter(|_| !self.runs())
    }
}
