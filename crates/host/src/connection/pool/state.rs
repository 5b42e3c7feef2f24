//! The lines of one server there are, and which of them a request takes. Decides; nothing here dials or waits.

use std::sync::{Arc, atomic::AtomicUsize};

use tokio::time::{Duration, Instant};
use toolway_wire::up::Peer;

use super::{
    Caller,
    key::LineKey,
    line::{Line, Queue},
    parked::Parked,
    tasks::KeptTasks,
    trouble::Trouble,
};

/// Lines of one key: as many calls of it can wait for an answer while others go on.
pub(super) const PER_KEY: usize = 4;
/// Lines of one caller to one server: sessions and profiles are a stranger's to choose.
const PER_CALLER: usize = 16;
/// Lines to one server in all.
const PER_SERVER: usize = 64;
/// A line is kept no longer than this for a task that nobody asks about.
const TASK_LASTS: Duration = Duration::from_secs(3_600);
/// How long the server of a caller that is gone is given to hear what was called off.
const TO_HEAR: Duration = Duration::from_millis(250);
/// A line that stood so long was a good one.
const STABLE: Duration = Duration::from_secs(10);

/// The lines there are.
#[derive(Debug)]
pub(super) struct Pool {
    /// Whether there may be any: while the server is connected.
    pub(super) open: bool,
    /// Oldest first: what a server keeps in a session, it keeps in the first.
    pub(super) lines: Vec<Entry>,
    pub(super) trouble: Trouble,
    /// Whose task is whose, and on which line.
    pub(super) tasks: KeptTasks,
    /// Items of the lists that lines have of their own.
    items: Arc<AtomicUsize>,
    /// Those whose place was taken; the supervisor closes them.
    pub(super) given_up: Vec<Arc<Line>>,
    /// Those whose caller is gone, and until when they are kept.
    leaving: Vec<(Instant, Arc<Line>)>,
}

/// A line and who is on it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) line: Arc<Line>,
    pub(super) calls: usize,
    /// Of them, those during which the server may ask something.
    pub(super) interactive: usize,
    /// Of those, the ones that it has asked about.
    pub(super) parked: Vec<Arc<Parked>>,
    pub(super) last: Instant,
    /// It keeps a task at least until then.
    until: Option<Instant>,
}

/// What a request needs of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Only to be carried.
    Carried,
    /// To be the one that is asked.
    Askable,
}

/// What is known of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manners {
    /// It has not been seen to ask while several calls were under way.
    Unknown,
    /// It has: nobody can say which call it means, so there is only one at a time.
    Asks,
}

/// Whether a request waited already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    JustCame,
    Waited,
}

/// What a request does.
#[derive(Debug)]
pub(super) enum Pick {
    /// It has a seat on this line.
    Seat(Arc<Line>),
    /// It waits until somebody leaves.
    Wait(Arc<Queue>),
    /// There are too many lines already, and all are in use.
    Full(usize, &'static str),
    /// There is no server to have a line to.
    Closed,
}

impl Pool {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            open: false,
            lines: Vec::new(),
            trouble: Trouble::seeded(seed),
            tasks: KeptTasks::default(),
            items: Arc::default(),
            given_up: Vec::new(),
            leaving: Vec::new(),
        }
    }

    /// A task goes on on this line.
    pub(super) fn keep_task(&mut self, task: String, lasts: Option<Duration>, line: &Arc<Line>, now: Instant) {
        let until = now + lasts.unwrap_or(TASK_LASTS).min(TASK_LASTS);
        let Some(entry) = self.entry(line) else { return };
        entry.until = entry.until.max(Some(until));
        self.tasks.keep(task, line, now);
    }

    /// A seat on the line that keeps this task, where the caller has one.
    pub(super) fn seat_at_task(&mut self, task: &str, key: &LineKey, need: Need) -> Option<Arc<Line>> {
        let kept = self.tasks.line(task, &key.caller)?;
        if !self.open || kept.key.session != key.session || kept.is_gone() || self.entry(&kept).is_none() {
            return None;
        }
        self.seat(&kept, need);
        Some(kept)
    }

    /// Finds a seat, on a line that is there or a new one.
    pub(super) fn pick(&mut self, key: &LineKey, need: Need, manners: Manners, turn: Turn, now: Instant) -> Pick {
        if !self.open {
            return Pick::Closed;
        }
        self.prune(now);
        let own = self.lines.iter().filter(|entry| entry.line.key == *key);
        let in_line = own.clone().map(|entry| &entry.line.queue).find(|queue| 0 < queue.waiting());
        if let (Need::Askable, Turn::JustCame, Some(queue)) = (need, turn, in_line) {
            return Pick::Wait(Arc::clone(queue));
        }
        let found = own.clone().find(|entry| entry.is_free(need, manners)).map(|entry| Arc::clone(&entry.line));
        if let Some(line) = found {
            return self.seat(&line, need);
        }
        let queue = own.clone().next().map(|entry| Arc::clone(&entry.line.queue));
        let runs = manners == Manners::Asks && own.clone().any(Entry::runs);
        match queue {
            Some(queue) if runs || PER_KEY <= own.count() => Pick::Wait(queue),
            queue => self.begin(key, queue.unwrap_or_default(), need, now),
        }
    }

    fn seat(&mut self, line: &Arc<Line>, need: Need) -> Pick {
        if let Some(entry) = self.entry(line) {
            entry.calls += 1;
            entry.interactive += usize::from(need == Need::Askable);
        }
        Pick::Seat(Arc::clone(line))
    }

    fn begin(&mut self, key: &LineKey, queue: Arc<Queue>, need: Need, now: Instant) -> Pick {
        let of_caller = |entry: &Entry| entry.line.key.caller == key.caller;
        let of_this = |caller: &Caller| *caller == key.caller;
        let own = self.lines.iter().filter(|entry| of_caller(entry)).count();
        if PER_CALLER <= own && !self.evict(of_caller) && !self.give_up(of_this, now) {
            return Pick::Full(PER_CALLER, "on connections of this caller");
        }
        if PER_SERVER <= self.lines.len() && !self.evict(|_| true) && !self.give_up(|_| true, now) {
            return Pick::Full(PER_SERVER, "on connections of all callers");
        }
        let line = Arc::new(Line::new(key.clone(), queue, &self.items));
        self.lines.push(Entry {
            line: Arc::clone(&line),
            calls: 0,
            interactive: 0,
            parked: Vec::new(),
            last: now,
            until: None,
        });
        self.seat(&line, need)
    }

    /// Ends the one that was idle for the longest; whether there was one.
    fn evict(&mut self, such: impl Fn(&Entry) -> bool) -> bool {
        let idle = self.lines.iter().filter(|entry| entry.calls == 0 && such(entry));
        let Some(oldest) = idle.min_by_key(|entry| entry.last).map(|entry| Arc::clone(&entry.line)) else {
            return false;
        };
        self.end(&oldest);
        true
    }

    pub(super) fn entry(&mut self, line: &Arc<Line>) -> Option<&mut Entry> {
        self.lines.iter_mut().find(|entry| Arc::ptr_eq(&entry.line, line))
    }

    /// Nobody is given a seat on it any more; it ends with the last call that is on it.
    pub(super) fn end(&mut self, line: &Arc<Line>) {
        self.lines.retain(|entry| !Arc::ptr_eq(&entry.line, line));
        line.ended.cancel();
    }

    /// The same for a line whose caller is gone; it lasts for a moment.
    pub(super) fn let_go(&mut self, line: &Arc<Line>, now: Instant) {
        self.end(line);
        self.leaving.push((now + TO_HEAR, Arc::clone(line)));
    }

    /// Ends those that nobody has used for so long.
    pub(super) fn reap(&mut self, idle: Duration, now: Instant) {
        self.leaving.retain(|(until, _)| now < *until);
        self.prune(now);
        let (kept, over) =
            std::mem::take(&mut self.lines).into_iter().partition(|entry| now < entry.over_at(idle, now));
        self.lines = kept;
        over.iter().for_each(|entry: &Entry| entry.line.ended.cancel());
    }

    /// When the next one may have been idle for so long.
    pub(super) fn due(&self, idle: Duration, now: Instant) -> Option<Instant> {
        let leaving = self.leaving.iter().map(|(until, _)| *until);
        self.lines.iter().map(|entry| entry.over_at(idle, now)).chain(leaving).min()
    }

    /// Ends all of them, until the server is connected again; gives what has to be closed.
    pub(super) fn close(&mut self) -> Vec<Peer> {
        self.open = false;
        self.tasks.forget_base();
        let leaving = std::mem::take(&mut self.leaving);
        let lines: Vec<_> = std::mem::take(&mut self.lines).into_iter().map(|entry| entry.line).collect();
        lines
            .iter()
            .chain(&std::mem::take(&mut self.given_up))
            .chain(leaving.iter().map(|(_, line)| line))
            .filter_map(|line| {
                line.ended.cancel();
                line.queue.moved.notify_waiters();
                line.peer().cloned()
            })
            .collect()
    }

    /// Leaves out what has gone by itself. A server that does not stay is not started again and again.
    fn prune(&mut self, now: Instant) {
        if !self.lines.iter().any(|entry| entry.line.is_gone()) {
            return;
        }
        let (gone, kept): (Vec<Entry>, Vec<Entry>) =
            std::mem::take(&mut self.lines).into_iter().partition(|entry| entry.line.is_gone());
        self.lines = kept;
        for entry in gone {
            match entry.line.stood(now) {
                Some(stood) if stood < STABLE => self.trouble.fail(entry.line.why_gone(), now),
                _ => self.trouble.succeed(),
            }
        }
    }
}

impl Entry {
    /// When it will have been idle for so long, as far as can be said now.
    fn over_at(&self, idle: Duration, now: Instant) -> Instant {
        let over = if self.calls == 0 { self.last + idle } else { now + idle };
        self.until.map_or(over, |until| over.max(until))
    }

    fn is_free(&self, need: Need, manners: Manners) -> bool {
        match (need, manners) {
            (Need::Carried, _) => true,
            (Need::Askable, Manners::Asks) => self.interactive == 0,
            // Whoever waits for an answer would be mistaken for the one who is asked next.
            (Need::Askable, Manners::Unknown) => self.parked.is_empty(),
        }
    }

    /// Whether it will be free when a call goes on that nobody has to answer anything about.
    pub(super) fn runs(&self) -> bool {
        self.parked.len() < self.interactive
    }

    /// A call has ended; the place of one that waited may be somebody else's already.
    pub(super) fn leave(&mut self, need: Need, parked: Option<&Arc<Parked>>, now: Instant) {
        if parked.is_none_or(|parked| !parked.has_left()) {
            self.without(need, parked, now);
        }
    }

    pub(super) fn without(&mut self, need: Need, parked: Option<&Arc<Parked>>, now: Instant) {
        self.calls -= 1;
        self.interactive -= usize::from(need == Need::Askable);
        self.parked.retain(|other| !parked.is_some_and(|parked| Arc::ptr_eq(other, parked)));
        self.last = now;
    }
}
