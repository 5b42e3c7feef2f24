//! A store in Postgres, as the handle of other crates holds it: its queue, its writer, and the registration of this process.

use std::{
    collections::HashSet,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use parking_lot::Mutex;
use toolway_config::Secret;
use uuid::Uuid;

use super::{
    client_sessions::PostgresClientSessions, database::Database, members::PostgresMembers, reader::PostgresReader,
    registration::Registration, retention, runs, runs::Looking, writer::Worker,
};
use crate::{
    OpenNotice, StoreError,
    journal::Left,
    queue::{Ahead, Queue},
    retention::{RetentionLimits, RetentionPlan},
    runs::DeadRun,
    store::{RegisteredBy, StoreUsage},
    write::Write,
};

/// A store in Postgres. Dropping it ends the thread after all writes were committed.
pub(crate) struct PostgresEngine {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the handle, the writer and the renewal have in common.
pub(super) struct Shared {
    pub(super) database: Arc<Database>,
    pub(super) queue: Arc<Queue>,
    pub(super) failed: AtomicU64,
    pub(super) removed_calls: AtomicU64,
    /// This process in the table of those that write.
    pub(super) registration: Arc<Registration>,
    /// Processes whose calls the writer is about to close.
    // Nothing awaits under this lock.
    pub(super) recovering: Mutex<HashSet<Uuid>>,
}

impl PostgresEngine {
    /// Connects, registers this process unless its cluster does, and closes calls that processes left open whose registration
    /// has expired. Blocks.
    pub(crate) fn open(
        url: &Secret,
        limits: RetentionLimits,
        by: RegisteredBy,
    ) -> Result<(Self, Option<OpenNotice>), StoreError> {
        let database = Database::open(url)?;
        let registration = Registration::new(by);
        let notice = database.wait(async {
            let client = database.client().await?;
            if by == RegisteredBy::Store {
                let run = Uuid::now_v7();
                runs::register(&client, run).await?;
                registration.set_own(run);
            }
            retention::take_notice(&client).await
        })?;
        let shared = Arc::new(Shared {
            database,
            queue: Arc::new(Queue::new(Ahead::Nothing, None)),
            failed: AtomicU64::default(),
            removed_calls: AtomicU64::default(),
            registration: Arc::new(registration),
            recovering: Mutex::default(),
        });
        shared.recover_dead()?;
        shared.database.spawn(keep_registered(Arc::downgrade(&shared)));
        let worker = Worker::new(Arc::clone(&shared), limits);
        let thread = std::thread::Builder::new().name("toolway-store".to_owned()).spawn(move || worker.work());
        let thread = thread.map_err(|error| StoreError::file("toolway-store", error))?;
        Ok((Self { shared, thread: Some(thread) }, notice))
    }

    /// The queue of writes.
    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.shared.queue
    }

    /// This process.
    pub(crate) fn run(&self) -> Uuid {
        self.shared.registration.run()
    }

    /// The port of leases, for this process as a member of a cluster.
    pub(crate) fn members(&self) -> PostgresMembers {
        let Shared { database, registration, queue, .. } = &*self.shared;
        PostgresMembers::new(Arc::clone(database), Arc::clone(registration), Arc::clone(queue))
    }

    /// The port for the rows of client sessions.
    pub(crate) fn client_sessions(&self) -> PostgresClientSessions {
        PostgresClientSessions::new(Arc::clone(&self.shared.database))
    }

    /// Writes that could not be committed since the start.
    pub(crate) fn failed(&self) -> u64 {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// What was removed; the size of the database is not measured.
    pub(crate) fn usage(&self) -> StoreUsage {
        StoreUsage { removed_calls: self.shared.removed_calls.load(Ordering::Relaxed), ..StoreUsage::default() }
    }

    /// For queries.
    pub(crate) fn reader(&self) -> PostgresReader {
        PostgresReader::new(Arc::clone(&self.shared.database))
    }

    /// Completes what processes left whose registration has expired. Blocks.
    pub(crate) fn recover(&self) -> Result<(), StoreError> {
        self.shared.recover_dead()
    }

    /// Applies the limits now.
    pub(crate) async fn prune(&self, limits: RetentionLimits) -> Result<RetentionPlan, StoreError> {
        let shared = Arc::clone(&self.shared);
        let prune = move || {
            shared.queue.catch_up();
            let run = shared.registration.run();
            shared.database.wait(async {
                let client = shared.database.client().await?;
                let mut removed = RetentionPlan { size: reader(&shared).size().await?, ..RetentionPlan::default() };
                loop {
                    let step = retention::step(&client, run, &limits).await?;
                    if step.is_empty() {
                        return Ok(removed);
                    }
                    removed.calls += step.calls;
                    removed.audit += step.audit;
                    removed.conversations += step.conversations;
                }
            })
        };
        tokio::task::spawn_blocking(prune).await.unwrap_or(Err(StoreError::Closed))
    }
}

impl Drop for PostgresEngine {
    fn drop(&mut self) {
        self.shared.queue.close();
        if let Some(thread) = self.thread.take() {
            // A panic was logged when it occurred.
            let _panicked = thread.join();
        }
    }
}

impl fmt::Debug for PostgresEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresEngine").field("place", self.shared.database.place()).finish_non_exhaustive()
    }
}

fn reader(shared: &Shared) -> PostgresReader {
    PostgresReader::new(Arc::clone(&shared.database))
}

impl Shared {
    /// Has the calls of dead processes closed by the next commit. Blocks.
    fn recover_dead(&self) -> Result<(), StoreError> {
        self.database.wait(self.insist_on_recovery())
    }

    async fn insist_on_recovery(&self) -> Result<(), StoreError> {
        // Before it is registered, this process cannot close anything.
        let Some(run) = self.registration.known_run() else { return Ok(()) };
        let looking = match self.registration.by() {
            RegisteredBy::Store => Looking::All,
            RegisteredBy::Cluster => Looking::ProcessesAlone,
        };
        let client = self.database.client().await?;
        for id in runs::dead(&client, looking).await?.into_iter().filter(|id| *id != run) {
            if self.recovering.lock().insert(id) {
                self.queue.insist(Write::Recover(Box::new(DeadRun { id, journal: Left::default() })));
            }
        }
        Ok(())
    }
}

/// Renews the registration of this process unless its cluster does, and looks for processes that did not, until the store is
/// closed.
async fn keep_registered(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(runs::LEASE / 3).await;
        let Some(shared) = shared.upgrade() else { return };
        if shared.registration.by() == RegisteredBy::Store {
            renew(&shared).await;
        }
        if let Err(error) = shared.insist_on_recovery().await {
            tracing::debug!(%error, "processes that have ended could not be looked for");
        }
    }
}

async fn renew(shared: &Shared) {
    let run = shared.registration.run();
    let renewed = async { runs::renew(&shared.database.client().await?, run).await };
    match renewed.await {
        Ok(true) => {}
        // The next commit fails for this reason and registers anew.
        Ok(false) => tracing::error!(error = %StoreError::Expired),
        Err(error) => tracing::warn!(%error, "the registration of this process could not be renewed"),
    }
}
