//! The writer: one thread, one connection, a bounded queue. All writes that wait when a commit ends form the next one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use rusqlite::Connection;
use uuid::Uuid;

use crate::{
    StoreError,
    batch::{self, Batch},
    database,
    journal::{self, ClosedFile, Journal, Left},
    queue::{Ahead, Job, Queue, Taken},
    recent::Recent,
    retention::{Enforcer, Fullness, RetentionLimits},
    runs::{DeadRun, Run},
    store::{StoreUsage, Sync},
    unwritten::{self, Unwritten},
    write::Write,
};

/// Sends writes to the thread. Dropping it ends the thread after all of them were committed.
#[derive(Debug)]
pub(crate) struct Writer {
    run: Uuid,
    queue: Arc<Queue>,
    failed: Arc<AtomicU64>,
    fullness: Arc<Fullness>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(crate) fn start(
        connection: Connection,
        run: Run,
        sync: Sync,
        limits: RetentionLimits,
    ) -> Result<Self, StoreError> {
        if let Some(most) = limits.max_bytes {
            database::bound_wal(&connection, most)?;
        }
        let ahead = match (run.folder(), sync) {
            (None, _) => Ahead::Memory(Recent::default()),
            (Some(_), Sync::Full) => Ahead::Nothing,
            (Some(folder), Sync::Normal) => Ahead::Journal(Box::new(Journal::new(folder, run.id))),
        };
        let (queue, failed) = (Arc::new(Queue::new(ahead, limits.max_bytes)), Arc::new(AtomicU64::default()));
        let fullness = Arc::new(Fullness::default());
        let id = run.id;
        let worker = Worker {
            queue: Arc::clone(&queue),
            failed: Arc::clone(&failed),
            connection,
            run,
            acknowledged: Vec::new(),
            files: Vec::new(),
            unwritten: Unwritten::default(),
            enforcer: Enforcer::new(limits, Arc::clone(&fullness)),
        };
        let thread = std::thread::Builder::new().name("toolway-store".to_owned()).spawn(move || worker.work());
        let thread = thread.map_err(|error| StoreError::file("toolway-store", error))?;
        Ok(Self { run: id, queue, failed, fullness, thread: Some(thread) })
    }

    /// Adds a write of the store itself. It is tried until it is committed.
    pub(crate) fn insist(&self, write: Write) {
        self.queue.insist(write);
    }

    /// The queue, to wait for it on another thread.
    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// This process.
    pub(crate) fn run(&self) -> Uuid {
        self.run
    }

    /// How full the store is.
    pub(crate) fn usage(&self) -> StoreUsage {
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        StoreUsage {
            bytes: load(&self.fullness.bytes),
            removed_bodies: load(&self.fullness.removed_bodies),
            removed_calls: load(&self.fullness.removed_calls),
        }
    }

    /// Writes that could not be committed since the start.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // A panic was logged when it occurred.
            let _panicked = thread.join();
        }
    }
}

/// The thread.
struct Worker {
    queue: Arc<Queue>,
    failed: Arc<AtomicU64>,
    connection: Connection,
    run: Run,
    /// Acknowledged writes whose commit failed. Those of calls are in the journal too.
    acknowledged: Vec<Job>,
    /// Files of the journal that have them.
    files: Vec<ClosedFile>,
    unwritten: Unwritten,
    enforcer: Enforcer,
}

impl Worker {
    fn work(mut self) {
        let _abandon = AbandonOnEnd(Arc::clone(&self.queue));
        let mut is_locked = false;
        loop {
            let waits = !self.unwritten.is_empty() || !self.acknowledged.is_empty();
            let again = waits.then_some(unwritten::AGAIN);
            let patience = again.into_iter().chain(self.enforcer.patience()).min();
            let Some(taken) = self.queue.take(patience) else { break };
            let count = taken.jobs.len();
            let written = taken.jobs.iter().map(|job| job.write.bytes()).sum();
            let is_tried = 0 < count || !self.acknowledged.is_empty();
            let result = self.commit(taken);
            let locked = result.as_ref().is_err_and(StoreError::is_locked);
            // After acknowledged writes: an earlier state of a call must not follow its end.
            if !locked && self.acknowledged.is_empty() && !self.unwritten.is_empty() {
                self.unwritten.write(&mut self.connection, self.run.id);
            }
            if is_tried {
                self.queue.finish(count, self.acknowledged.len(), result.is_ok());
            }
            if result.is_ok() {
                self.enforcer.after_commit(&mut self.connection, self.run.id, written);
            }
            if locked != is_locked {
                is_locked = locked;
                self.set_patience(locked);
            }
        }
        self.end();
    }

    fn set_patience(&self, locked: bool) {
        // Writes that wait behind one that waited in vain fail soon.
        let patience = if locked { database::BUSY_AGAIN } else { database::BUSY };
        if let Err(error) = self.connection.busy_timeout(patience) {
            tracing::warn!(%error, "the time limit for locks of the store could not be set");
        }
    }

    /// Writes what is left, closes calls that have not ended, and removes this process from the list. If that fails, a
    /// later process does it.
    fn end(mut self) {
        if !self.acknowledged.is_empty() {
            // The result is logged. What is not written stays in the journal.
            let _result = self.commit(Taken { jobs: Vec::new(), file: None });
        }
        let (run, Some(folder)) = (self.run.id, self.run.folder()) else { return };
        if !self.acknowledged.is_empty() {
            return;
        }
        self.unwritten.write(&mut self.connection, run);
        let itself = Write::Recover(Box::new(DeadRun { id: run, journal: Left::default() }));
        match batch::apply(&mut self.connection, Batch { run, writes: &[&itself], journal: None }) {
            Ok(()) => journal::remove(folder, run, &[]),
            Err(error) => {
                tracing::warn!(%error, "this process could not be removed from the store's list of processes");
            }
        }
    }

    /// Commits a batch, with acknowledged writes of earlier ones. If that fails for a reason in one write, each is tried
    /// alone, so that one that fails does not undo the others. Returns an error if nothing is committed.
    fn commit(&mut self, taken: Taken) -> Result<(), StoreError> {
        let mut jobs = std::mem::take(&mut self.acknowledged);
        jobs.extend(taken.jobs);
        let known = self.files.last().map(|file| file.generation);
        self.files.extend(taken.file.filter(|file| Some(file.generation) != known));
        let journal = self.files.last().map(|file| file.generation);
        if jobs.is_empty() {
            return Ok(());
        }
        let results = match self.apply(&jobs, journal) {
            // A record without its body is small, and may fit into pages that are free.
            Err(error) if error.is_full() => {
                jobs.iter_mut().for_each(|job| job.write.omit_body("the disk was full"));
                self.apply(&jobs, journal)
            }
            applied => applied,
        };
        match results {
            Ok(results) => {
                jobs.into_iter().zip(results).for_each(|(job, result)| self.finish(job, result));
                self.empty_files();
                Ok(())
            }
            Err(error) => {
                jobs.into_iter().for_each(|job| self.retain(job, &error));
                Err(error)
            }
        }
    }

    /// Applies the writes of a batch, or those that can be applied.
    fn apply(&mut self, jobs: &[Job], journal: Option<i64>) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        let writes: Vec<&Write> = jobs.iter().map(|job| &job.write).collect();
        let batch = Batch { run: self.run.id, writes: &writes, journal };
        match batch::apply(&mut self.connection, batch) {
            Err(error) if !error.is_of_file() => batch::apply_each(&mut self.connection, batch),
            applied => applied.map(|()| vec![Ok(()); jobs.len()]),
        }
    }

    /// Empties the files of the journal whose records are committed.
    fn empty_files(&mut self) {
        for file in self.files.drain(..) {
            if let Err(error) = file.empty() {
                tracing::error!(%error, "a journal of the store cannot be emptied; calls wait for commits from now on");
                self.queue.stop_journal();
            }
        }
    }

    /// Ends a write that was committed, or cannot be applied.
    fn finish(&mut self, job: Job, result: Result<(), StoreError>) {
        match (&job.write, &result) {
            (Write::Recover(dead), Ok(())) => self.run.remove_files_of(dead),
            (_, Ok(())) => {}
            (_, Err(error)) => {
                self.count_failure(&job, error);
                if job.done.is_none() {
                    tracing::error!(%error, "a record that was acknowledged cannot be applied and is lost");
                }
            }
        }
        if let Some(done) = job.done {
            // The writer may not wait for the result.
            let _unheard = done.send(result);
        }
    }

    /// Ends a write whose transaction failed, or keeps it if it was acknowledged.
    fn retain(&mut self, mut job: Job, error: &StoreError) {
        self.count_failure(&job, error);
        match job.done.take() {
            None => {
                job.has_failed = true;
                self.acknowledged.push(job);
            }
            Some(done) => {
                self.unwritten.keep(job.write);
                // The writer may not wait for the result.
                let _unheard = done.send(Err(error.clone()));
            }
        }
    }

    fn count_failure(&self, job: &Job, error: &StoreError) {
        if job.has_failed {
            return;
        }
        let failed = self.failed.fetch_add(1, Ordering::Relaxed) + 1;
        // The first, and then ever fewer: a full disk must not fill the log as well.
        if failed.is_power_of_two() {
            tracing::error!(%error, failed, "the store cannot write");
        }
    }
}

/// Refuses what waits and what comes when the thread ends, also by a panic.
struct AbandonOnEnd(Arc<Queue>);

impl Drop for AbandonOnEnd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the store's writer thread panicked; nothing is recorded until the next start");
        }
        self.0.abandon();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::AbandonOnEnd;
    use crate::{
        StoreError,
        queue::{Ahead, Queue, Urgency},
        write::Write,
    };

    #[test]
    fn a_panic_of_the_writer_refuses_what_waits() {
        let queue = Arc::new(Queue::new(Ahead::Nothing, None));
        let write = || queue.submit(Write::RemoveApproval(uuid::Uuid::nil()), Urgency::Required);
        let waiting = write().unwrap().unwrap();
        let abandon = AbandonOnEnd(Arc::clone(&queue));
        let panicking = std::thread::spawn(move || {
            let _abandon = abandon;
            panic!("as a defect in the writer would");
        });
        panicking.join().unwrap_err();
        waiting.blocking_recv().unwrap_err();
        assert!(matches!(write(), Err(StoreError::Closed)));
    }
}
