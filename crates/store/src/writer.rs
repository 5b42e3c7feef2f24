//! The writer: one thread, one connection, a bounded queue. All writes that wait when a commit ends form the next one.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::{
    StoreError, database,
    retention::{self, RetentionLimits},
    runs::Run,
    time,
    write::{self, Write},
};

/// Writes in one transaction at most; more wait for the next.
const BATCH: usize = 1_024;
/// Writes that may wait. Every open call may still add its end beyond it, so that no end is lost.
const QUEUE: usize = 16_384;

/// Bytes of a database in memory, beyond which its oldest calls are removed.
const MEMORY: u64 = 64 * 1024 * 1024;
/// Commits between two looks at its size.
const MEMORY_CHECK: u64 = 16;

/// Sends writes to the thread. Dropping it ends the thread after all of them were committed.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    failed: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    closed: bool,
}

#[derive(Debug)]
struct Job {
    write: Write,
    done: oneshot::Sender<Result<(), StoreError>>,
}

/// Whether a write may be refused when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Refused if the queue is full.
    Refusable,
    /// Taken in any case: the end of something whose beginning was taken.
    Required,
}

impl Writer {
    pub(crate) fn start(connection: Connection, run: Run) -> Result<Self, StoreError> {
        let queue = Arc::new(Queue::default());
        let thread = std::thread::Builder::new().name("toolway-store".to_owned()).spawn({
            let queue = Arc::clone(&queue);
            move || {
                let mut connection = connection;
                work(&queue, &mut connection, &run);
            }
        });
        let thread = thread.map_err(|error| StoreError::file("toolway-store", error))?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Adds a write. The receiver gets its result after the commit; dropping the receiver does not cancel the write.
    pub(crate) fn submit(
        &self,
        write: Write,
        urgency: Urgency,
    ) -> Result<oneshot::Receiver<Result<(), StoreError>>, StoreError> {
        let (done, receiver) = oneshot::channel();
        let mut waiting = self.queue.waiting.lock();
        if waiting.closed {
            return Err(StoreError::Closed);
        }
        if urgency == Urgency::Refusable && waiting.jobs.len() >= QUEUE {
            return Err(StoreError::QueueFull(waiting.jobs.len()));
        }
        waiting.jobs.push_back(Job { write, done });
        self.queue.changed.notify_one();
        Ok(receiver)
    }

    /// Writes that could not be committed since the start.
    pub(crate) fn failed(&self) -> u64 {
        self.queue.failed.load(Ordering::Relaxed)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.waiting.lock().closed = true;
        self.queue.changed.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's writer thread panicked");
        }
    }
}

fn work(queue: &Queue, connection: &mut Connection, run: &Run) {
    let mut is_locked = false;
    for number in 1_u64.. {
        let Some(batch) = queue.next_batch() else { break };
        let locked = commit(queue, connection, run, batch);
        if run.is_in_memory() && number.is_multiple_of(MEMORY_CHECK) {
            bound_memory(connection, run);
        }
        if locked != is_locked {
            is_locked = locked;
            // Writes that wait behind one that waited in vain fail soon.
            let patience = if locked { database::BUSY_AGAIN } else { database::BUSY };
            if let Err(error) = connection.busy_timeout(patience) {
                tracing::warn!(%error, "the time limit for locks of the store could not be set");
            }
        }
    }
    if let Err(error) = crate::runs::forget(connection, run.id) {
        tracing::warn!(%error, "this process could not be removed from the store's list of processes");
    }
}

/// Removes the oldest calls of a database in memory that has become too large.
fn bound_memory(connection: &mut Connection, run: &Run) {
    let limits = RetentionLimits { max_age: None, max_bytes: Some(MEMORY) };
    let plan = match retention::data_bytes(connection) {
        Ok(bytes) if bytes <= MEMORY => return,
        Ok(_) => retention::plan(connection, &limits, time::now()),
        Err(error) => Err(error),
    };
    let pruned = plan.and_then(|plan| write::apply(connection, run.id, &[&Write::Prune(Box::new(plan))]));
    if let Err(error) = pruned {
        tracing::error!(%error, "old calls in memory could not be removed");
    }
}

/// Commits a batch. If that fails for a reason in one write, each is tried alone, so that one that cannot be applied takes
/// no other with it. Returns whether another process holds the lock.
fn commit(queue: &Queue, connection: &mut Connection, run: &Run, batch: Vec<Job>) -> bool {
    let writes: Vec<&Write> = batch.iter().map(|job| &job.write).collect();
    let result = write::apply(connection, run.id, &writes);
    if batch.len() == 1 || result.as_ref().err().is_none_or(StoreError::is_of_file) {
        for job in batch {
            finish(queue, run, job, result.clone());
        }
        return result.is_err_and(|error| error.is_locked());
    }
    for job in batch {
        let result = write::apply(connection, run.id, &[&job.write]);
        finish(queue, run, job, result);
    }
    false
}

fn finish(queue: &Queue, run: &Run, job: Job, result: Result<(), StoreError>) {
    if let (Write::Recover(dead), Ok(())) = (&job.write, &result) {
        run.remove_lock_of(*dead);
    }
    if let Err(error) = &result {
        let failed = queue.failed.fetch_add(1, Ordering::Relaxed) + 1;
        // The first, and then ever fewer: a full disk must not fill the log as well.
        if failed.is_power_of_two() {
            tracing::error!(%error, failed, "the store cannot write");
        }
    }
    // The writer may not wait for the result.
    let _unheard = job.done.send(result);
}

impl Queue {
    /// Waits for writes. Returns `None` when the store is closed and all were taken.
    fn next_batch(&self) -> Option<Vec<Job>> {
        let mut waiting = self.waiting.lock();
        while waiting.jobs.is_empty() {
            if waiting.closed {
                return None;
            }
            self.changed.wait(&mut waiting);
        }
        let size = waiting.jobs.len().min(BATCH);
        Some(waiting.jobs.drain(..size).collect())
    }
}
