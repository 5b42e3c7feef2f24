//! Writes the changes of one task at a bounded rate: a server may report more than a store should write. The newest change is
//! always written, soon; the end of a task at once.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{TaskLog, TaskRow};
use crate::record::RecordsError;

/// Shortest time between two writes of progress and messages of one task.
const PROGRESS_PAUSE: Duration = Duration::from_secs(2);
/// Changes of state that are written at once within [`STATE_WINDOW`]; further ones wait like progress.
const MAX_STATES: u32 = 20;
const STATE_WINDOW: Duration = Duration::from_secs(10);

/// Bytes of a task id that are kept. A task with a longer one is not stored.
const MAX_REMOTE_ID: usize = 4_096;

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskChange {
    /// How far it is, or what it says.
    Progress,
    /// Its state, or who follows it.
    State,
}

/// Writes the row of one task.
pub(super) struct RowWriter {
    pub(super) log: Arc<dyn TaskLog>,
    // Nothing awaits under this lock. Writes are submitted under it, so that they are in the order of the changes; to submit
    // one does not block.
    pending: Arc<Mutex<PendingRow>>,
    /// Cancelled when another process follows the task.
    taken: CancellationToken,
}

#[derive(Debug)]
struct PendingRow {
    /// The newest row that is not written.
    row: Option<TaskRow>,
    /// Whether it will be.
    is_scheduled: bool,
    /// When progress may be written again.
    next: Instant,
    /// Changes of state that were written at once since the window began.
    states: u32,
    window: Instant,
}

impl RowWriter {
    pub(super) fn new(log: Arc<dyn TaskLog>) -> Self {
        let now = Instant::now();
        let pending = PendingRow { row: None, is_scheduled: false, next: now, states: 0, window: now };
        Self { log, pending: Arc::new(Mutex::new(pending)), taken: CancellationToken::new() }
    }

    /// Cancelled when a write has found that another process follows the task.
    pub(super) fn taken(&self) -> &CancellationToken {
        &self.taken
    }

    /// Writes a change of a task that has not ended: now, or soon if it changes often. The future resolves when a write of now
    /// is durable.
    pub(super) fn change(&self, row: &TaskRow, change: TaskChange) -> BoxFuture<'static, ()> {
        let mut pending = self.pending.lock();
        if pending.may_write(change) {
            pending.row = None;
            return write(&*self.log, row, self.taken.clone());
        }
        pending.row = Some(row.clone());
        if !std::mem::replace(&mut pending.is_scheduled, true) {
            self.schedule(pending.next);
        }
        Box::pin(std::future::ready(()))
    }

    /// Writes the end of a task.
    pub(super) fn end(&self, row: &TaskRow) -> BoxFuture<'static, ()> {
        let mut pending = self.pending.lock();
        pending.row = None;
        write(&*self.log, row, self.taken.clone())
    }

    /// Writes what is pending, and lets another process write the row from here on.
    pub(super) fn release(&self, id: Uuid) {
        let mut pending = self.pending.lock();
        if let Some(row) = pending.row.take() {
            drop(write(&*self.log, &row, self.taken.clone()));
        }
        self.log.release(id);
    }

    fn schedule(&self, due: Instant) {
        let Ok(runtime) = Handle::try_current() else { return };
        let log = Arc::clone(&self.log);
        let pending = Arc::downgrade(&self.pending);
        let taken = self.taken.clone();
        runtime.spawn(async move {
            sleep_until(due).await;
            // The task may not be followed any more.
            let Some(pending) = pending.upgrade() else { return };
            let written = {
                let mut pending = pending.lock();
                pending.is_scheduled = false;
                pending.next = Instant::now() + PROGRESS_PAUSE;
                pending.row.take().map(|row| write(&*log, &row, taken))
            };
            if let Some(written) = written {
                written.await;
            }
        });
    }
}

impl PendingRow {
    /// Whether a change is written now.
    fn may_write(&mut self, change: TaskChange) -> bool {
        let now = Instant::now();
        if STATE_WINDOW < now - self.window {
            (self.states, self.window) = (0, now);
        }
        match change {
            TaskChange::State if self.states < MAX_STATES => {
                self.states += 1;
                true
            }
            TaskChange::State | TaskChange::Progress if self.is_scheduled || now < self.next => false,
            TaskChange::State | TaskChange::Progress => {
                self.next = now + PROGRESS_PAUSE;
                true
            }
        }
    }
}

/// Submits a write before it returns; the future resolves when it is durable.
fn write(log: &dyn TaskLog, row: &TaskRow, taken: CancellationToken) -> BoxFuture<'static, ()> {
    let id: Uuid = row.id;
    if MAX_REMOTE_ID < row.remote_id.len() {
        tracing::warn!(task = %id, "a task id of the server is too long; the task is not stored");
        return Box::pin(std::future::ready(()));
    }
    let written = log.write(row);
    Box::pin(async move {
        match written.await {
            Ok(()) => {}
            Err(RecordsError::NotOwned(_)) => taken.cancel(),
            Err(error) => tracing::error!(task = %id, %error, "the task is not recorded"),
        }
    })
}

#[cfg(test)]
mod tests {
    use toolway_wire::time::Micros;

    use super::{Arc, BoxFuture, Duration, Mutex, RowWriter, TaskChange, TaskLog, TaskRow, Uuid};
    use crate::{
        record::RecordsError,
        task::{AnsweredBy, KeptBy, SettledCall, StoredTask},
    };

    /// What happened, and whether the next change could have come between a row and its submission.
    #[derive(Default)]
    struct Observed {
        writer: Mutex<Option<std::sync::Weak<RowWriter>>>,
        events: Mutex<Vec<&'static str>>,
    }

    impl Observed {
        fn note(&self, event: &'static str) {
            let writer = self.writer.lock().as_ref().and_then(std::sync::Weak::upgrade);
            let is_between = writer.is_some_and(|writer| writer.pending.try_lock().is_some());
            self.events.lock().push(if is_between { "unordered" } else { event });
        }
    }

    impl TaskLog for Observed {
        fn write(&self, _: &TaskRow) -> BoxFuture<'static, Result<(), RecordsError>> {
            self.note("write");
            Box::pin(std::future::ready(Ok(())))
        }

        fn claim(&self, _: Uuid) -> BoxFuture<'static, Result<bool, RecordsError>> {
            Box::pin(std::future::ready(Ok(true)))
        }

        fn unclaimed(&self) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
            Box::pin(std::future::ready(Ok(Vec::new())))
        }

        fn find(&self, _: Uuid) -> BoxFuture<'static, Result<Option<StoredTask>, RecordsError>> {
            Box::pin(std::future::ready(Ok(None)))
        }

        fn hosted_for(&self, _: &str, _: Micros, _: usize) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
            Box::pin(std::future::ready(Ok(Vec::new())))
        }

        fn release(&self, _: Uuid) {
            self.note("release");
        }

        fn settle(&self, _: &TaskRow, _: SettledCall) -> BoxFuture<'static, Result<(), RecordsError>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_is_submitted_before_any_later_change_and_a_release_is_the_last() {
        let log = Arc::new(Observed::default());
        let writer = Arc::new(RowWriter::new(Arc::<Observed>::clone(&log)));
        *log.writer.lock() = Some(Arc::downgrade(&writer));
        let row = TaskRow::begun(Uuid::now_v7(), KeptBy::Server, AnsweredBy::Host);
        // At once, later, and at the release.
        writer.change(&row, TaskChange::Progress).await;
        writer.change(&row, TaskChange::Progress).await;
        assert_eq!(*log.events.lock(), ["write"]);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(*log.events.lock(), ["write", "write"]);
        writer.change(&row, TaskChange::Progress).await;
        writer.release(row.id);
        assert_eq!(*log.events.lock(), ["write", "write", "write", "release"]);
        tokio::time::sleep(Duration::from_secs(10)).await;
        writer.end(&row).await;
        assert_eq!(*log.events.lock(), ["write", "write", "write", "release", "write"]);
    }
}
