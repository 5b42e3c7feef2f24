//! Calls that wait for an answer, and which of them gives way.
//!
//! Whoever is asked may take minutes, or have left for good; nobody can tell. So nobody is hurried while there is room.
//! Where a call needs a connection and each that there may be is held by a call that waits, what has waited for longest
//! is ended, once it has waited for [`GIVES_WAY`]; while a call goes on on one of them, that one's end is waited for. A
//! connection of the same key is turned over as it is; one of another key is given up for a new one, first of whoever has
//! most that wait. What was answered in that very moment is not ended: its server acts on the answer.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::{Duration, Instant, sleep_until};
use toolway_wire::{exchange::CallOff, up::Peer};

use super::{
    Caller, Lines,
    key::LineKey,
    pool::{Entry, Need, PER_KEY, Pool},
};

/// Nobody is ended for the sake of another who has waited for an answer for less than this.
const GIVES_WAY: Duration = Duration::from_secs(30);

/// A call that was asked about, as it can be ended from elsewhere.
#[derive(Debug)]
pub(super) struct Parked {
    call_off: CallOff,
    // Nothing awaits under this lock.
    waiting: Mutex<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// When its server last asked something.
    since: Instant,
    /// For how long it had waited when it was ended for the sake of another.
    gave_way: Option<Duration>,
    /// Its place is somebody else's already.
    left: bool,
}

impl Parked {
    pub(super) fn new(call_off: CallOff, now: Instant) -> Self {
        Self { call_off, waiting: Mutex::new(Waiting { since: now, gave_way: None, left: false }) }
    }

    pub(super) fn is_asked_again(&self, now: Instant) {
        self.waiting.lock().since = now;
    }

    /// For how long it had waited when it was ended for the sake of another.
    pub(super) fn gave_way(&self) -> Option<Duration> {
        self.waiting.lock().gave_way
    }

    /// Whether its place is somebody else's already.
    pub(super) fn has_left(&self) -> bool {
        self.waiting.lock().left
    }

    /// When it may be ended for the sake of another; not while its server works on what it was answered. One whose server
    /// has given up asking and ended it only waits for somebody who reads its end.
    fn gives_way_at(&self) -> Option<Instant> {
        let since = || self.waiting.lock().since;
        if self.call_off.is_over() {
            return Some(since());
        }
        self.call_off.is_asked().then(|| since() + GIVES_WAY)
    }

    /// Ends it; not if it was answered in this very moment. Whether it has ended: then it has no place any more.
    fn give_way(&self, now: Instant) -> bool {
        // Held meanwhile: whoever sees its end sees why.
        let mut waiting = self.waiting.lock();
        if self.call_off.cancel_if_asked(WHY) {
            let waited = now.saturating_duration_since(waiting.since);
            waiting.gave_way = Some(Duration::from_secs(waited.as_secs()));
            waiting.left = true;
        } else {
            waiting.left = self.call_off.is_over();
        }
        waiting.left
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
        self.pool.lock().make_way(key, Instant::now());
    }

    /// Connections whose place was taken since this was last asked; whoever asks closes them.
    pub(crate) fn given_up(&self) -> Vec<Peer> {
        let given_up = std::mem::take(&mut self.pool.lock().given_up);
        given_up.iter().filter_map(|line| line.peer().cloned()).collect()
    }
}

/// What a server is told of a call that gave way.
const WHY: &str = "nobody answered, and its connection was needed";

impl Pool {
    /// When the first of the lines of this key may be turned over; none while there may be more of them, or one is held by
    /// a call that goes on.
    fn gives_way_at(&self, key: &LineKey) -> Option<Instant> {
        let own = self.lines.iter().filter(|entry| entry.line.key == *key);
        let all: Vec<Instant> = own.map(Entry::gives_way_at).collect::<Option<_>>()?;
        all.iter().min().copied().filter(|_| PER_KEY <= all.len())
    }

    fn make_way(&mut self, key: &LineKey, now: Instant) {
        let Some(at) = self.gives_way_at(key).filter(|at| *at <= now) else { return };
        let mut own = self.lines.iter_mut().filter(|entry| entry.line.key == *key);
        if let Some(entry) = own.find(|entry| entry.gives_way_at() == Some(at)) {
            entry.give_way(now);
            entry.line.queue.moved.notify_waiters();
        }
    }

    /// Gives up a connection that is only held by calls that have waited for long: of these callers, the one that has
    /// most of those gives up the one that has waited for longest. Whether there was one.
    pub(super) fn give_up(&mut self, whose: impl Fn(&Caller) -> bool, now: Instant) -> bool {
        let only_waits = |entry: &&Entry| whose(&entry.line.key.caller) && entry.calls == entry.parked.len();
        let due = self.lines.iter().filter(only_waits).filter_map(|entry| Some((entry.gives_way_at()?, entry)));
        let due: Vec<(Instant, &Entry)> = due.filter(|(at, _)| *at <= now).collect();
        let held_by = |caller: &Caller| due.iter().filter(|(_, entry)| entry.line.key.caller == *caller).count();
        let first = due.iter().max_by_key(|(at, entry)| (held_by(&entry.line.key.caller), std::cmp::Reverse(*at)));
        let Some(line) = first.map(|(_, entry)| Arc::clone(&entry.line)) else { return false };
        if !self.entry(&line).is_some_and(|entry| entry.give_way(now)) {
            return false;
        }
        self.end(&line);
        self.given_up.push(line);
        true
    }
}

impl Entry {
    /// When it may be turned over, if it is held only by calls that wait for an answer.
    fn gives_way_at(&self) -> Option<Instant> {
        let at: Option<Vec<Instant>> = self.parked.iter().map(|parked| parked.gives_way_at()).collect();
        at?.into_iter().max().filter(|_| !self.runs())
    }

    /// Ends what waits on it for an answer; whether nothing does any more.
    fn give_way(&mut self, now: Instant) -> bool {
        let ended: Vec<_> = self.parked.iter().filter(|parked| parked.give_way(now)).cloned().collect();
        ended.iter().for_each(|parked| self.without(Need::Askable, Some(parked), now));
        self.parked.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, Instant};
    use toolway_wire::{
        exchange::{AskId, Cause, Outcome, Question, Terms, pair},
        json::Raw,
    };

    use super::{GIVES_WAY, Parked};

    fn question() -> Question {
        Question {
            id: AskId(1),
            key: None,
            method: "elicitation/create".to_owned(),
            params: Some(Raw::empty_object()),
            cause: Cause::Request,
        }
    }

    #[tokio::test]
    async fn one_that_waits_gives_way_after_a_while_and_is_told_why() {
        let (exchange, feed) = pair(Terms::unbounded(), 8);
        let begun = Instant::now();
        let parked = Parked::new(exchange.call_off(), begun);
        assert_eq!(parked.gives_way_at(), None, "its server works");
        let _answer = feed.ask(question());
        assert_eq!(parked.gives_way_at(), Some(begun + GIVES_WAY));
        assert!(parked.give_way(begun + Duration::from_secs(40)) && parked.has_left());
        assert_eq!(parked.gave_way(), Some(Duration::from_secs(40)));
    }

    #[tokio::test]
    async fn one_that_its_server_has_ended_has_no_place_although_nobody_read_its_end() {
        for asked in [true, false] {
            let (exchange, feed) = pair(Terms::unbounded(), 8);
            let begun = Instant::now();
            let parked = Parked::new(exchange.call_off(), begun);
            let answer = asked.then(|| feed.ask(question()));
            feed.end(Outcome::Answered(Raw::empty_object()));
            assert_eq!(parked.gives_way_at(), Some(begun), "asked: {asked}");
            assert!(parked.give_way(begun) && parked.has_left());
            assert_eq!(parked.gave_way(), None, "it was not ended for anybody's sake");
            assert!(matches!(exchange.outcome().await, Outcome::Answered(_)), "and its answer is still there");
            drop(answer);
        }
    }
}
