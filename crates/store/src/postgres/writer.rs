//! The writer: one thread and a bounded queue. All writes that wait when a commit ends form the next one.
//!
//! The thread waits for writes; connections and the renewal of the registration are tasks of the runtime of the database.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::{batch, database::TRANSACTION, engine::Shared, retention, runs};
use crate::{
    StoreError,
    calls::{CallBody, CallRow},
    journal::Left,
    queue::{Job, Queue},
    retention::{RetentionLimits, RetentionPlan},
    runs::DeadRun,
    store::RegisteredBy,
    write::Write,
};

/// How long writes fail at once after the database could not be reached.
const AWAY: Duration = Duration::from_millis(500);
/// Time between two attempts to write what could not be written.
const AGAIN: Duration = Duration::from_secs(1);
/// Ends of calls that are kept in memory, without their bodies, until the database can be reached.
const MAX_ENDS: usize = 10_000;
/// Ends in one transaction.
const ENDS: usize = 1_000;
/// Time between two looks for records that have become too old.
const LOOK: Duration = Duration::from_secs(60);
/// Transactions of one look.
const STEPS: usize = 64;

/// The thread.
pub(super) struct Worker {
    shared: Arc<Shared>,
    limits: RetentionLimits,
    look_at: Instant,
    /// Writes of the store itself whose commit failed.
    insisted: Vec<Job>,
    /// Ends of calls whose commit failed, oldest first.
    late: VecDeque<Box<CallRow>>,
    /// The last failure to reach the database.
    away: Option<(Instant, StoreError)>,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, limits: RetentionLimits) -> Self {
        Self { shared, limits, look_at: Instant::now(), insisted: Vec::new(), late: VecDeque::new(), away: None }
    }

    pub(super) fn work(mut self) {
        let _abandon = AbandonOnEnd(Arc::clone(&self.shared.queue));
        loop {
            let has_late = !self.late.is_empty() || !self.insisted.is_empty();
            let until = self.look_at.saturating_duration_since(Instant::now());
            let patience = if has_late { until.min(AGAIN) } else { until };
            let Some(taken) = self.shared.queue.take(Some(patience)) else { break };
            let count = taken.jobs.len();
            let is_tried = 0 < count || !self.insisted.is_empty();
            let result = self.commit(taken.jobs);
            if result.is_ok() {
                self.write_late();
            }
            if is_tried {
                self.shared.queue.finish(count, self.insisted.len(), result.is_ok());
            }
            if self.look_at <= Instant::now() {
                self.remove_old();
                self.look_at = Instant::now() + LOOK;
            }
        }
        self.end();
    }

    /// Writes what is left, and closes what this process has not ended. If that fails, another process does it.
    fn end(mut self) {
        // There is no later attempt.
        self.away = None;
        self.write_late();
        if self.shared.registration.by() == RegisteredBy::Cluster {
            // It has left its cluster, or another member takes it over.
            return;
        }
        let run = self.shared.registration.run();
        let itself = Write::Recover(Box::new(DeadRun { id: run, journal: Left::default() }));
        if let Err(error) = self.apply(&[&itself]) {
            tracing::warn!(%error, "this process could not be removed from the store's list of processes");
        }
    }

    /// Commits a batch. If that fails for a reason in one write, each is tried alone.
    fn commit(&mut self, jobs: Vec<Job>) -> Result<(), StoreError> {
        let mut all = std::mem::take(&mut self.insisted);
        all.extend(jobs);
        if all.is_empty() {
            return Ok(());
        }
        let writes: Vec<&Write> = all.iter().map(|job| &job.write).collect();
        match self.apply(&writes) {
            Ok(results) => {
                all.into_iter().zip(results).for_each(|(job, result)| self.finish(job, result));
                Ok(())
            }
            Err(error) => {
                all.into_iter().for_each(|job| self.keep(job, &error));
                Err(error)
            }
        }
    }

    /// Applies writes in one transaction, or those that can be applied. If this process was taken for dead, they fail; it
    /// registers anew, or its cluster does.
    fn apply(&mut self, writes: &[&Write]) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        if let Some((since, error)) = &self.away
            && since.elapsed() < AWAY
        {
            return Err(error.clone());
        }
        let shared = Arc::clone(&self.shared);
        let Some(run) = shared.registration.known_run() else { return Err(StoreError::Expired) };
        let applied = shared.database.wait(async {
            let client = shared.database.client().await?;
            let applying = async {
                match batch::apply(&client, run, writes).await {
                    Err(error) if !error.is_of_file() => batch::apply_each(&client, run, writes).await,
                    applied => applied.map(|()| writes.iter().map(|_| Ok(())).collect()),
                }
            };
            let applied = tokio::time::timeout(TRANSACTION, applying).await;
            let applied = applied.unwrap_or_else(|_| Err(StoreError::TimedOut(Arc::clone(shared.database.place()))));
            if applied.as_ref().is_err_and(StoreError::is_disconnection) {
                // Not back into the pool: a transaction may be open on it.
                drop(deadpool_postgres::Object::take(client));
            }
            applied
        });
        self.away = match &applied {
            Err(StoreError::Expired) => {
                match self.shared.registration.by() {
                    RegisteredBy::Store => self.register_anew(run),
                    RegisteredBy::Cluster => self.shared.registration.lose(run),
                }
                None
            }
            Err(error) => Some((Instant::now(), error.clone())),
            Ok(_) => None,
        };
        applied
    }

    /// This process was taken for dead, because it slept or could not reach the database.
    fn register_anew(&self, expired: Uuid) {
        let run = Uuid::now_v7();
        let database = &self.shared.database;
        let registered = database.wait(async { runs::register(&database.client().await?, run).await });
        match registered {
            Ok(()) => {
                self.shared.registration.set_own(run);
                self.shared.queue.insist(Write::Recover(Box::new(DeadRun { id: expired, journal: Left::default() })));
            }
            Err(error) => tracing::error!(%error, "this process could not register anew in the database"),
        }
    }

    /// Ends a write that was committed, or cannot be applied.
    fn finish(&self, job: Job, result: Result<(), StoreError>) {
        if let Err(error) = &result {
            self.count_failure(&job, error);
        }
        if let Some(done) = job.done {
            // The writer may not wait for the result.
            let _unheard = done.send(result);
        }
    }

    /// Ends a write whose transaction failed, or keeps it.
    fn keep(&mut self, mut job: Job, error: &StoreError) {
        self.count_failure(&job, error);
        match job.done.take() {
            None => {
                job.has_failed = true;
                self.insisted.push(job);
            }
            Some(done) => {
                if let (Write::CallEnd(call, _), true) = (job.write, self.late.len() < MAX_ENDS) {
                    self.late.push_back(call);
                }
                // The writer may not wait for the result.
                let _unheard = done.send(Err(error.clone()));
            }
        }
    }

    /// Writes ends that could not be written, as far as that succeeds.
    fn write_late(&mut self) {
        while !self.late.is_empty() {
            let calls = self.late.iter().take(ENDS);
            let batch: Vec<Write> = calls.map(|call| Write::CallEnd(call.clone(), CallBody::default())).collect();
            let writes: Vec<&Write> = batch.iter().collect();
            let Ok(results) = self.apply(&writes) else { return };
            let failed = results.iter().filter_map(|result| result.as_ref().err());
            failed.for_each(|error| tracing::error!(%error, "the end of a call is not recorded"));
            tracing::info!(calls = batch.len(), "recorded ends of calls that could not be written before");
            self.late.drain(..batch.len());
        }
    }

    fn remove_old(&self) {
        if self.limits == RetentionLimits::default() {
            return;
        }
        let Shared { database, removed_calls, registration, .. } = &*self.shared;
        let Some(run) = registration.known_run() else { return };
        let removed = database.wait(async {
            let client = database.client().await?;
            for _ in 0..STEPS {
                let step = retention::step(&client, run, &self.limits).await?;
                if step.is_empty() {
                    break;
                }
                removed_calls.fetch_add(step.calls, Ordering::Relaxed);
                let RetentionPlan { calls, audit, conversations, .. } = step;
                tracing::info!(calls, audit_entries = audit, conversations, "retention removed old records");
            }
            Ok::<_, StoreError>(())
        });
        if let Err(error) = removed {
            // Tried again at the next look.
            tracing::error!(%error, "retention cannot remove old records");
        }
    }

    fn count_failure(&self, job: &Job, error: &StoreError) {
        if job.has_failed {
            return;
        }
        let failed = self.shared.failed.fetch_add(1, Ordering::Relaxed) + 1;
        // The first, and then ever fewer: a database that is away must not fill the log as well.
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
