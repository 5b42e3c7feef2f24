//! The writer: one thread and a bounded queue. All writes that wait when a commit ends form the next one.
//!
//! The thread waits for writes; connections and the renewal of the registration are tasks of the runtime of the database.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;
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
/// Ends of calls that are kept in memory, without their bodies, until the database can be reached. Their answers are held for the
/// time of a transaction.
const MAX_ENDS: usize = 10_000;
/// Ends in one transaction.
const ENDS: usize = 1_000;
/// Time between two looks for records that have become too old.
const LOOK: Duration = Duration::from_secs(60);

/// The thread.
pub(super) struct Worker {
    shared: Arc<Shared>,
    limits: RetentionLimits,
    look_at: Instant,
    /// Writes of the store itself whose commit failed.
    insisted: Vec<Job>,
    /// Ends of calls whose commit failed, oldest first.
    late: VecDeque<LateEnd>,
    /// The last failure to reach the database.
    away: Option<(Instant, StoreError)>,
}

/// An end that could not be written yet.
struct LateEnd {
    call: Box<CallRow>,
    /// Who waits for it; `None` once an error was reported.
    held: Option<HeldEnd>,
}

/// The answer of a call is held until its end is written, or this time has come.
struct HeldEnd {
    done: oneshot::Sender<Result<(), StoreError>>,
    until: Instant,
    error: StoreError,
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
            self.give_up_held(Instant::now());
            if is_tried {
                self.shared.queue.finish(count, self.insisted.len(), result.is_ok());
            }
            if self.look_at <= Instant::now() {
                // One transaction between two commits.
                let pause = if self.remove_old() { Duration::ZERO } else { LOOK };
                self.look_at = Instant::now() + pause;
            }
        }
        self.end();
    }

    /// Writes what is left, and closes what this process has not ended. If that fails, another process does it.
    fn end(mut self) {
        // There is no later attempt.
        self.away = None;
        self.write_late();
        self.late.drain(..).filter_map(|late| late.held).for_each(HeldEnd::give_up);
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
        let applied = match self.apply(&writes) {
            // It has registered anew: calls that another process has closed are refused as such, and the others are written. An
            // error of the registration would let a call be sent that is recorded as not sent.
            Err(StoreError::Expired) if self.shared.registration.by() == RegisteredBy::Store => self.apply(&writes),
            applied => applied,
        };
        match applied {
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
                    applied => applied,
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

    /// This process did not renew its registration, because it slept or could not reach the database. It keeps what no other
    /// process has closed or taken meanwhile.
    fn register_anew(&self, expired: Uuid) {
        let run = Uuid::now_v7();
        let database = &self.shared.database;
        let registered = database.wait(async { runs::register_anew(&database.client().await?, expired, run).await });
        match registered {
            Ok(()) => self.shared.registration.set_own(run),
            Err(error) => tracing::error!(%error, "this process could not register anew in the database"),
        }
    }

    /// Ends a write that was committed, or cannot be applied.
    fn finish(&self, job: Job, result: Result<(), StoreError>) {
        if let Err(error) = &result {
            self.count_failure(&job, error);
        }
        if let Write::Recover(dead) = &job.write {
            self.shared.recovering.lock().remove(&dead.id);
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
                let held = HeldEnd { done, until: Instant::now() + TRANSACTION, error: error.clone() };
                match job.write {
                    Write::CallEnd(call, _) if self.late.len() < MAX_ENDS => self.hold(call, held),
                    _ => held.give_up(),
                }
            }
        }
    }

    /// Keeps an end until it is written. One of a member that has lost its lease is kept as an audit event only, so that its caller
    /// does not wait.
    fn hold(&mut self, call: Box<CallRow>, held: HeldEnd) {
        let is_lost =
            matches!(held.error, StoreError::Expired) && self.shared.registration.by() == RegisteredBy::Cluster;
        let held = if is_lost {
            held.give_up();
            None
        } else {
            Some(held)
        };
        self.late.push_back(LateEnd { call, held });
    }

    /// Reports the errors of ends that were held long enough.
    fn give_up_held(&mut self, now: Instant) {
        for late in &mut self.late {
            if let Some(held) = late.held.take_if(|held| held.until <= now) {
                held.give_up();
            }
        }
    }

    /// Writes ends that could not be written, as far as that succeeds.
    fn write_late(&mut self) {
        while !self.late.is_empty() {
            let late = self.late.iter().take(ENDS);
            let batch: Vec<Write> = late.map(|late| Write::CallEnd(late.call.clone(), CallBody::default())).collect();
            let writes: Vec<&Write> = batch.iter().collect();
            let Ok(results) = self.apply(&writes) else { return };
            tracing::info!(calls = batch.len(), "recorded ends of calls that could not be written before");
            for (late, result) in self.late.drain(..batch.len()).zip(results) {
                if let Err(error) = &result {
                    tracing::error!(%error, call_id = %late.call.id, "the end of a call is not recorded");
                }
                if let Some(held) = late.held {
                    // The caller may have gone.
                    let _unheard = held.done.send(result);
                }
            }
        }
    }

    /// Removes some of what has become too old. Returns whether there may be more.
    fn remove_old(&self) -> bool {
        if self.limits == RetentionLimits::default() {
            return false;
        }
        let Shared { database, removed_calls, registration, .. } = &*self.shared;
        let Some(run) = registration.known_run() else { return false };
        let removed = database.wait(async {
            let client = database.client().await?;
            let step = tokio::time::timeout(TRANSACTION, retention::step(&client, run, &self.limits)).await;
            let step = step.unwrap_or_else(|_| Err(StoreError::TimedOut(Arc::clone(database.place()))));
            if step.as_ref().is_err_and(StoreError::is_disconnection) {
                // Not back into the pool: a transaction may be open on it.
                drop(deadpool_postgres::Object::take(client));
            }
            step
        });
        match removed {
            Ok(step) if step.is_empty() => false,
            Ok(RetentionPlan { calls, audit, conversations, .. }) => {
                removed_calls.fetch_add(calls, Ordering::Relaxed);
                tracing::info!(calls, audit_entries = audit, conversations, "retention removed old records");
                true
            }
            Err(error) => {
                // Tried again at the next look.
                tracing::error!(%error, "retention cannot remove old records");
                false
            }
        }
    }

    fn count_failure(&self, job: &Job, error: &StoreError) {
        if job.has_failed || matches!(error, StoreError::NotOwned(_)) {
            return;
        }
        let failed = self.shared.failed.fetch_add(1, Ordering::Relaxed) + 1;
        // The first, and then ever fewer: a database that is away must not fill the log as well.
        if failed.is_power_of_two() {
            tracing::error!(%error, failed, "the store cannot write");
        }
    }
}

impl HeldEnd {
    fn give_up(self) {
        // The caller may have gone.
        let _unheard = self.done.send(Err(self.error));
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
