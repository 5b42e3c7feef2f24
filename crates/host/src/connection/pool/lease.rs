//! A seat on a line: what a call holds of it until its end.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use toolway_wire::{
    exchange::{CallOff, LogLevel},
    task::Task,
    up::Peer,
};

use super::{Lines, line::Line, parked::Parked, pool::Need};
use crate::{
    connection::{
        stdio::Life,
        uses::{Ear, Use},
    },
    record::redact::Redactor,
};

/// A seat on a line; dropping it leaves the line.
pub(crate) struct LineSeat {
    lines: Arc<Lines>,
    pub(super) line: Arc<Line>,
    need: Need,
    parked: Option<Arc<Parked>>,
    _hold: Hold,
}

/// How a line is used.
#[derive(Debug)]
pub(crate) enum Hold {
    /// By somebody who is waited for when the server is ended.
    Call { _use: Use },
    /// By somebody who only listens.
    Ear { _ear: Ear },
}

// === impl LineSeat ===

impl LineSeat {
    pub(super) fn new(lines: &Arc<Lines>, line: Arc<Line>, need: Need) -> Self {
        let hold = Hold::Call { _use: Use::begin(&lines.uses) };
        Self { lines: Arc::clone(lines), line, need, parked: None, _hold: hold }
    }

    /// The peer, and what must not be shown of it. A seat is handed out when it stands.
    pub(crate) fn peer(&self) -> Option<(&Peer, &Redactor)> {
        self.line.stands.get().map(|stands| (&stands.peer, &stands.redactor))
    }

    /// Sees to it that the server logs from this level on.
    pub(crate) async fn log_from(&self, level: Option<LogLevel>) {
        if let Some(level) = level {
            self.line.log_from(level).await;
        }
    }

    pub(crate) fn life(&self) -> Arc<Life> {
        self.line.pulse.now()
    }

    /// The server asked something: others need not wait for the answer, and may end the call if none comes.
    pub(crate) fn park(&mut self, call_off: CallOff) {
        if self.need == Need::Carried {
            return;
        }
        match &self.parked {
            Some(parked) => parked.is_asked_again(Instant::now()),
            None => {
                let parked = Arc::new(Parked::new(call_off, Instant::now()));
                if let Some(entry) = self.lines.pool.lock().entry(&self.line) {
                    entry.parked.push(Arc::clone(&parked));
                }
                self.parked = Some(parked);
            }
        }
        self.line.queue.moved.notify_waiters();
    }

    /// For how long nobody had answered when its call was ended for the sake of another; nothing where it was not.
    pub(crate) fn gave_way(&self) -> Option<Duration> {
        self.parked.as_ref().and_then(|parked| parked.gave_way())
    }

    /// From here on somebody only listens on it, and is not waited for.
    pub(crate) fn listening(mut self) -> Self {
        self._hold = Hold::Ear { _ear: Ear::open(&self.lines.uses) };
        self
    }

    /// Resolves when nobody is given a seat on it any more.
    pub(crate) async fn ended(&self) {
        self.line.ended.cancelled().await;
    }

    /// A task goes on on it: whoever asks about that finds it here, and the line lasts as long.
    pub(crate) fn keep_task(&self, task: &Task) {
        self.lines.pool.lock().keep_task(task.id.clone(), task.keeps, &self.line, Instant::now());
    }

    /// The line is not what it was: nobody is given a seat on it any more.
    pub(crate) fn discard(&self) {
        self.lines.pool.lock().end(&self.line);
    }
}

impl Drop for LineSeat {
    fn drop(&mut self) {
        if let Some(entry) = self.lines.pool.lock().entry(&self.line) {
            entry.leave(self.need, self.parked.as_ref(), Instant::now());
        }
        self.line.queue.moved.notify_waiters();
    }
}

impl std::fmt::Debug for LineSeat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LineSeat").field("key", &self.line.key).finish_non_exhaustive()
    }
}
