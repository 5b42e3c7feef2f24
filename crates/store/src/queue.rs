//! The queue of the writer: what waits for the next commit, and which writes need not wait for it.
//!
//! A write is acknowledged in one of three ways: by its commit; under load by the journal (`journal.rs`); in memory at once
//! (`recent.rs`). Acknowledged writes let the writer wait a little, so that a commit has many of them.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::{
    StoreError,
    calls::CallState,
    journal::{ClosedFile, Journal},
    recent::Recent,
    write::Write,
};

/// Writes that may wait. Every open call may still add its end beyond it, so that no end is lost.
const QUEUE: usize = 16_384;
/// Writes beyond which calls wait for a commit, so that they are not faster than the writer.
const CROWD: usize = 12_000;
/// Bytes of bodies that may wait.
const WAITING: usize = 64 * 1024 * 1024;
/// How long the writer waits for more writes if no caller and no reader waits for these. A commit writes about a dozen
/// pages, however few calls it has.
const LINGER: Duration = Duration::from_millis(50);
/// Writes for which the writer no longer waits.
const ENOUGH: usize = 2_000;
/// How long a reader waits for the writes before it.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// The writer waits for it.
    changed: Condvar,
    /// Readers wait for it.
    finished: Condvar,
}

#[derive(Debug)]
struct State {
    jobs: Vec<Job>,
    closed: bool,
    ahead: Ahead,
    /// A caller or a reader waits for the next commit.
    is_urgent: bool,
    /// The writer waits for a first write.
    is_idle: bool,
    submitted: u64,
    finished: u64,
    /// Acknowledged writes whose commit failed; the writer tries them again.
    retained: usize,
    /// Bytes of bodies that wait.
    bodies: WaitingBodies,
}

/// Bytes of bodies that wait for the next commit. Beyond a bound, records are kept without them, first those of a caller
/// that has most of it, so that no call is refused and no transaction is too large.
#[derive(Debug)]
struct WaitingBodies {
    most: usize,
    bytes: usize,
    by_caller: HashMap<String, usize>,
}

/// What acknowledges a write before its commit.
#[derive(Debug)]
pub(crate) enum Ahead {
    /// Nothing: every commit reaches the disk, and so must every write.
    Nothing,
    Journal(Box<Journal>),
    /// The database is in memory.
    Memory(Recent),
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) write: Write,
    /// `None`: acknowledged already.
    pub(crate) done: Option<oneshot::Sender<Result<(), StoreError>>>,
    /// A commit of it failed before.
    pub(crate) has_failed: bool,
}

/// A batch to commit.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) jobs: Vec<Job>,
    pub(crate) file: Option<ClosedFile>,
}

/// The result of a write that was submitted; `None`: acknowledged.
pub(crate) type Submitted = Option<oneshot::Receiver<Result<(), StoreError>>>;

/// Whether a write may be refused when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Refused if the queue is full.
    Refusable,
    /// Taken in any case: the end of something whose beginning was taken.
    Required,
}

impl Queue {
    /// `max_bytes`: the budget of the store.
    pub(crate) fn new(ahead: Ahead, max_bytes: Option<u64>) -> Self {
        let (jobs, closed, is_urgent, is_idle) = (Vec::new(), false, false, false);
        let bodies = WaitingBodies::new(max_bytes);
        let state = State { jobs, closed, ahead, is_urgent, is_idle, submitted: 0, finished: 0, retained: 0, bodies };
        Self { state: state.into(), changed: Condvar::new(), finished: Condvar::new() }
    }

    /// Adds a write. The receiver gets its result after the commit; dropping the receiver does not cancel the write.
    pub(crate) fn submit(&self, mut write: Write, urgency: Urgency) -> Result<Submitted, StoreError> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        if urgency == Urgency::Refusable && QUEUE <= state.jobs.len() {
            return Err(StoreError::QueueFull(state.jobs.len()));
        }
        if !matches!(state.ahead, Ahead::Memory(_)) {
            state.bodies.admit(&mut write);
        }
        let crowded = CROWD <= state.jobs.len();
        let acknowledged = match &mut state.ahead {
            Ahead::Nothing => false,
            Ahead::Journal(journal) => !crowded && !is_beginning(&write) && journal.append(&write),
            Ahead::Memory(recent) => match recent.keep(write) {
                Ok(()) if !recent.is_large() => return Ok(None),
                Ok(()) => return Ok(Some(self.push_recent(&mut state))),
                Err(other) => return Ok(Some(self.push(&mut state, other))),
            },
        };
        if acknowledged {
            state.add(write, None);
            self.wake(&state);
            return Ok(None);
        }
        Ok(Some(self.push(&mut state, write)))
    }

    /// Adds a write of the store itself. It is tried until it is committed.
    pub(crate) fn insist(&self, write: Write) {
        let mut state = self.state.lock();
        state.is_urgent = true;
        state.add(write, None);
        self.wake(&state);
    }

    /// Adds a write that waits for its commit.
    fn push(&self, state: &mut MutexGuard<'_, State>, write: Write) -> oneshot::Receiver<Result<(), StoreError>> {
        let (done, receiver) = oneshot::channel();
        state.is_urgent |= !is_patient(&write);
        state.add(write, Some(done));
        self.wake(state);
        receiver
    }

    /// Adds everything that is kept in memory, and a receiver for the last of it.
    fn push_recent(&self, state: &mut MutexGuard<'_, State>) -> oneshot::Receiver<Result<(), StoreError>> {
        let (done, receiver) = oneshot::channel();
        state.take_recent();
        if let Some(last) = state.jobs.last_mut() {
            last.done = Some(done);
        }
        state.is_urgent = true;
        self.wake(state);
        receiver
    }

    /// Wakes the writer, unless it waits for more writes and no one waits for it.
    fn wake(&self, state: &State) {
        if state.is_idle || state.is_urgent || state.has_enough() {
            self.changed.notify_one();
        }
    }

    /// Waits until everything that was submitted before is in the database, for a short time.
    pub(crate) fn catch_up(&self) {
        let mut state = self.state.lock();
        state.take_recent();
        let (target, deadline) = (state.submitted, Instant::now() + PATIENCE);
        if state.finished < target || 0 < state.retained {
            // Once: if a commit fails, the writer tries again after a while.
            state.is_urgent = true;
            self.changed.notify_one();
        }
        while (state.finished < target || 0 < state.retained) && !state.closed {
            if self.finished.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
    }

    /// Takes what waits. Returns `None` when the store is closed and all was taken, and no writes after `patience`.
    pub(crate) fn take(&self, patience: Option<Duration>) -> Option<Taken> {
        let mut state = self.state.lock();
        let again = patience.map(|patience| Instant::now() + patience);
        // A reader that waits for retained writes lets them be tried at once.
        while state.jobs.is_empty() && !state.closed && !(state.is_urgent && 0 < state.retained) {
            state.is_idle = true;
            match again {
                None => self.changed.wait(&mut state),
                Some(again) if self.changed.wait_until(&mut state, again).timed_out() => break,
                Some(_) => {}
            }
        }
        state.is_idle = false;
        if state.jobs.is_empty() && state.closed {
            return None;
        }
        let enough = Instant::now() + LINGER;
        while !state.jobs.is_empty() && !state.is_urgent && !state.closed && !state.has_enough() {
            if self.changed.wait_until(&mut state, enough).timed_out() {
                break;
            }
        }
        state.is_urgent = false;
        state.bodies.clear();
        let file = match &mut state.ahead {
            Ahead::Journal(journal) => journal.close_file(),
            Ahead::Nothing | Ahead::Memory(_) => None,
        };
        Some(Taken { jobs: std::mem::take(&mut state.jobs), file })
    }

    /// Reports the end of a batch with this many jobs to readers and to the journal. `retained` acknowledged ones are
    /// not committed.
    pub(crate) fn finish(&self, jobs: usize, retained: usize, is_committed: bool) {
        let mut state = self.state.lock();
        state.finished += jobs as u64;
        state.retained = retained;
        if let Ahead::Journal(journal) = &mut state.ahead {
            if is_committed { journal.mark_committed() } else { journal.mark_failed() }
        }
        self.finished.notify_all();
    }

    /// A file of the journal could not be emptied.
    pub(crate) fn stop_journal(&self) {
        if let Ahead::Journal(journal) = &mut self.state.lock().ahead {
            journal.stop();
        }
    }

    /// Refuses further writes, and those that wait: there is no writer any more.
    pub(crate) fn abandon(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.jobs.clear();
        self.finished.notify_all();
    }

    /// Refuses further writes. The writer ends after those that wait.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_one();
        self.finished.notify_all();
    }
}

impl WaitingBodies {
    fn new(max_bytes: Option<u64>) -> Self {
        let share = max_bytes.map_or(WAITING, |most| usize::try_from(most / 16).unwrap_or(WAITING));
        Self { most: share.min(WAITING), bytes: 0, by_caller: HashMap::new() }
    }

    /// Counts the body of a write, or drops it.
    fn admit(&mut self, write: &mut Write) {
        let (Write::Call(call, body) | Write::CallEnd(call, body)) = write else { return };
        let bytes = body.bytes();
        if bytes == 0 {
            return;
        }
        let of_caller = self.by_caller.get(&call.caller).copied().unwrap_or_default() + bytes;
        let all = self.bytes + bytes;
        // A body that finds an empty queue is taken, whatever its size.
        if 0 < self.bytes && (self.most < all || (self.most / 2 < all && self.most / 4 < of_caller)) {
            return body.omit("too much was waiting to be written");
        }
        self.bytes = all;
        match self.by_caller.get_mut(&call.caller) {
            Some(bytes) => *bytes = of_caller,
            None => drop(self.by_caller.insert(call.caller.clone(), of_caller)),
        }
    }

    /// Everything that waited was taken.
    fn clear(&mut self) {
        self.bytes = 0;
        self.by_caller.clear();
    }
}

impl State {
    fn add(&mut self, write: Write, done: Option<oneshot::Sender<Result<(), StoreError>>>) {
        self.jobs.push(Job { write, done, has_failed: false });
        self.submitted += 1;
    }

    /// Whether so much waits that the writer should not wait for more.
    fn has_enough(&self) -> bool {
        ENOUGH <= self.jobs.len() || self.bodies.most / 4 < self.bodies.bytes
    }

    fn take_recent(&mut self) {
        let Ahead::Memory(recent) = &mut self.ahead else { return };
        if !recent.is_empty() {
            recent.take().into_iter().for_each(|write| self.add(write, None));
        }
    }
}

/// Whether no caller waits for its result before something else of the same call is written.
fn is_patient(write: &Write) -> bool {
    let is_settlement = matches!(write, Write::SettleSampling(..) | Write::GiveBackOfDay(_));
    is_beginning(write) || is_settlement || matches!(write, Write::Audit(_) | Write::Inbox(_))
}

/// Whether a call began and nothing was sent.
fn is_beginning(write: &Write) -> bool {
    matches!(write, Write::Call(call, _) if call.state == CallState::Pending)
}
