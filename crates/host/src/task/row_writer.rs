//! Writes the changes of one task at a bounded rate: a server may report more than a store should write. The newest change is
//! always written, soon; the end of a task at once.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep_until},
};
use uuid::Uuid;

use super::{TaskLog, TaskRow};

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
    // Nothing awaits under this lock.
    pending: Arc<Mutex<PendingRow>>,
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
        Self { log, pending: Arc::new(Mutex::new(pending)) }
    }

    /// Writes a change of a task that has not ended: now, or soon if it changes often. The future resolves when a write of now
    /// is durable.
    pub(super) fn change(&self, row: &TaskRow, change: TaskChange) -> BoxFuture<'static, ()> {
        let mut pending = self.pending.lock();
        if pending.may_write(change) {
            pending.row = None;
            drop(pending);
            return write(&*self.log, row);
        }
        pending.row = Some(row.clone());
        if !std::mem::replace(&mut pending.is_scheduled, true) {
            self.schedule(pending.next);
        }
        Box::pin(std::future::ready(()))
    }

    /// Writes the end of a task.
    pub(super) fn end(&self, row: &TaskRow) -> BoxFuture<'static, ()> {
        self.pending.lock().row = None;
        write(&*self.log, row)
    }

    /// Writes what is pending now: from here on, another process may write the row.
    pub(super) fn flush(&self) {
        let row = self.pending.lock().row.take();
        if let Some(row) = row {
            drop(write(&*self.log, &row));
        }
    }

    fn schedule(&self, due: Instant) {
        let Ok(runtime) = Handle::try_current() else { return };
        let log = Arc::clone(&self.log);
        let pending = Arc::downgrade(&self.pending);
        runtime.spawn(async move {
            sleep_until(due).await;
            // The task may not be followed any more.
            let Some(pending) = pending.upgrade() else { return };
            let row = {
                let mut pending = pending.lock();
                pending.is_scheduled = false;
                pending.next = Instant::now() + PROGRESS_PAUSE;
                pending.row.take()
            };
            if let Some(row) = row {
                write(&*log, &row).await;
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
fn write(log: &dyn TaskLog, row: &TaskRow) -> BoxFuture<'static, ()> {
    let id: Uuid = row.id;
    if MAX_REMOTE_ID < row.remote_id.len() {
        tracing::warn!(task = %id, "a task id of the server is too long; the task is not stored");
        return Box::pin(std::future::ready(()));
    }
    let written = log.write(row);
    Box::pin(async move {
        if let Err(error) = written.await {
            tracing::error!(task = %id, %error, "the task is not recorded");
        }
    })
}
