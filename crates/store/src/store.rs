//! The store as other crates hold it: a cheap handle on the writer, and readers on demand.

use std::{
    future::Future,
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::Connection;
use toolway_config::Secret;
use toolway_host::{
    cluster::{ClientSessionStore, LeaseStore},
    policy::{Attendance, Baseline, DayUse},
    record::{KeyClaim, Settlement},
    roots::ClientRootList,
    sampling::SamplingEnd,
    task::SettledCall,
};
use uuid::Uuid;

use crate::{
    OpenNotice, PostgresEngine, PostgresReader, Reader, SqliteReader, StoreError,
    approvals::StoredApproval,
    audit::AuditEvent,
    batch,
    calls::{CallBody, CallRow},
    conversations::{ConversationNote, StoredConversation, StoredMessage},
    database,
    inbox::InboxRow,
    journal,
    queue::{Queue, Urgency},
    readers::Readers,
    retention::{self, AuditLimit, RetentionLimits, RetentionPlan, Step},
    runs::{self, Run},
    sampling::Reserve,
    sessions::SessionChange,
    tasks::{TaskEnd, TaskRow},
    write::Write,
    writer::Writer,
};

/// Bytes of a database in memory, beyond which its oldest bodies and calls are removed.
const MEMORY: u64 = 64 * 1024 * 1024;

/// How to open a store.
#[derive(Clone, Debug, Default)]
pub struct StoreOptions {
    /// Database file; `None`: in memory, for this process alone.
    pub path: Option<PathBuf>,
    /// URL of a Postgres database, instead of a file.
    pub url: Option<Secret>,
    /// When a commit reaches the disk.
    pub sync: Sync,
    /// What is kept; by default everything.
    pub limits: RetentionLimits,
    /// Who registers this process in a Postgres database.
    pub registered_by: RegisteredBy,
}

/// Who registers this process among those that write to a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegisteredBy {
    /// The store, until it is closed.
    #[default]
    Store,
    /// The cluster of which this process is a member ([`Store::leases`]). Until it is registered, and after it has lost its lease,
    /// writes fail.
    Cluster,
}

/// How full a store is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Bytes of all files, at the last look.
    pub bytes: u64,
    /// Bodies that were removed since the start.
    pub removed_bodies: u64,
    /// Calls that were removed since the start.
    pub removed_calls: u64,
}

/// When a commit reaches the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Survives the end of the process, not a power failure.
    #[default]
    Normal,
    /// Survives a power failure too; every commit waits for the disk.
    Full,
}

/// A handle on an open store. Cloning is cheap; the last clone ends the writer.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    limits: RetentionLimits,
}

#[derive(Debug)]
enum Engine {
    Sqlite { place: Arc<Place>, readers: Arc<Readers>, writer: Writer },
    Postgres(PostgresEngine),
}

/// Where the records are.
#[derive(Debug)]
pub(crate) enum Place {
    File(PathBuf),
    /// The connection keeps the database alive.
    Memory {
        uri: String,
        _connection: parking_lot::Mutex<Connection>,
    },
}

/// What a query has to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// What is committed, which everything is whose write was awaited, except calls.
    Committed,
    /// What was submitted before.
    Submitted,
}

impl Place {
    /// Opens a connection for queries.
    pub(crate) fn reader(&self) -> Result<SqliteReader, StoreError> {
        match self {
            Self::File(path) => SqliteReader::open_committed(path)?.ok_or(StoreError::Closed),
            Self::Memory { uri, .. } => Ok(SqliteReader { connection: database::open_memory(uri)? }),
        }
    }
}

impl Place {
    /// The file; `None` in memory.
    fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Memory { .. } => None,
        }
    }
}

/// Where a query runs.
enum QuerySource {
    Sqlite(Arc<Readers>),
    Postgres(PostgresReader),
}

impl Store {
    /// Opens the store, closes calls that earlier processes left open, and starts the writer.
    pub fn open(options: &StoreOptions) -> Result<(Self, Option<OpenNotice>), StoreError> {
        match (&options.url, &options.path) {
            (Some(url), _) => Self::open_database(url, options),
            (None, Some(path)) => Self::open_file(path, options),
            (None, None) => Ok((Self::in_memory()?, None)),
        }
    }

    fn open_file(path: &Path, options: &StoreOptions) -> Result<(Self, Option<OpenNotice>), StoreError> {
        let StoreOptions { sync, limits, .. } = *options;
        let (mut connection, notice) = database::open(path, sync)?;
        batch::begin_log(&mut connection, path)?;
        let notice = notice.map_or_else(|| retention::take_notice(&connection), |notice| Ok(Some(notice)))?;
        let locks = database::lock_folder(path);
        let dead = runs::dead(&connection, &locks)?;
        runs::remove_stray_locks(&connection, &locks)?;
        journal::remove_strays(&connection, &locks)?;
        let run = Run::register(&connection, Some(&locks))?;
        let writer = Writer::start(connection, run, sync, limits)?;
        dead.into_iter().for_each(|run| writer.insist(Write::Recover(Box::new(run))));
        Ok((Self::new(Place::File(path.to_owned()), writer, limits), notice))
    }

    fn open_database(url: &Secret, options: &StoreOptions) -> Result<(Self, Option<OpenNotice>), StoreError> {
        // Its size is that of the database server, which frees no space by itself.
        let limits = RetentionLimits { max_bytes: None, ..options.limits };
        let (engine, notice) = PostgresEngine::open(url, limits, options.registered_by)?;
        Ok((Self { shared: Arc::new(Shared { engine: Engine::Postgres(engine), limits }) }, notice))
    }

    /// A store that ends with this process.
    pub fn in_memory() -> Result<Self, StoreError> {
        let uri = format!("file:toolway-{}?mode=memory&cache=shared", Uuid::now_v7());
        let connection = database::open_memory(&uri)?;
        let run = Run::register(&connection, None)?;
        let place = Place::Memory { _connection: database::open_memory(&uri)?.into(), uri };
        let max_bytes = Some(MEMORY);
        let limits = RetentionLimits { max_bytes, audit: AuditLimit::AsCalls, ..RetentionLimits::default() };
        Ok(Self::new(place, Writer::start(connection, run, Sync::Normal, limits)?, limits))
    }

    fn new(place: Place, writer: Writer, limits: RetentionLimits) -> Self {
        let place = Arc::new(place);
        let readers = Arc::new(Readers::new(Arc::clone(&place)));
        Self { shared: Arc::new(Shared { engine: Engine::Sqlite { place, readers, writer }, limits }) }
    }

    fn queue(&self) -> &Arc<Queue> {
        match &self.shared.engine {
            Engine::Sqlite { writer, .. } => writer.queue(),
            Engine::Postgres(engine) => engine.queue(),
        }
    }

    /// This process, among those that write to the store.
    fn run(&self) -> Uuid {
        match &self.shared.engine {
            Engine::Sqlite { writer, .. } => writer.run(),
            Engine::Postgres(engine) => engine.run(),
        }
    }

    /// How full it is.
    pub fn usage(&self) -> StoreUsage {
        match &self.shared.engine {
            Engine::Sqlite { writer, .. } => writer.usage(),
            Engine::Postgres(engine) => engine.usage(),
        }
    }

    /// Leases of the members of a cluster; `None` in a file.
    pub fn leases(&self) -> Option<Arc<dyn LeaseStore>> {
        match &self.shared.engine {
            Engine::Sqlite { .. } => None,
            Engine::Postgres(engine) => Some(Arc::new(engine.members())),
        }
    }

    /// Sessions of the clients of a cluster; `None` in a file.
    pub fn client_sessions(&self) -> Option<Arc<dyn ClientSessionStore>> {
        match &self.shared.engine {
            Engine::Sqlite { .. } => None,
            Engine::Postgres(engine) => Some(Arc::new(engine.client_sessions())),
        }
    }

    /// The limits it was opened with.
    pub fn limits(&self) -> &RetentionLimits {
        &self.shared.limits
    }

    /// A body without what is larger than one body may be.
    fn bounded(&self, body: CallBody) -> CallBody {
        match self.shared.limits.max_body() {
            Some(most) => body.bounded(most),
            None => body,
        }
    }

    /// Waits until everything that was written before can be read, for a short time. Blocks.
    pub fn catch_up(&self) {
        self.queue().catch_up();
    }

    /// Opens a connection of its own for queries. It sees everything that was written before; for later writes, see
    /// [`Store::catch_up`]. Blocks.
    pub fn reader(&self) -> Result<Reader, StoreError> {
        self.catch_up();
        match &self.shared.engine {
            Engine::Sqlite { place, .. } => Ok(place.reader()?.into()),
            Engine::Postgres(engine) => Ok(engine.reader().into()),
        }
    }

    /// Runs a query on a thread for blocking work, on one of the few connections that are kept for queries.
    pub async fn query<T: Send + 'static>(
        &self,
        freshness: Freshness,
        query: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // Not the store itself: its last handle waits for the writer when it is dropped.
        let queue = Arc::clone(self.queue());
        let source = match &self.shared.engine {
            Engine::Sqlite { readers, .. } => QuerySource::Sqlite(Arc::clone(readers)),
            Engine::Postgres(engine) => QuerySource::Postgres(engine.reader()),
        };
        let run = move || {
            if freshness == Freshness::Submitted {
                queue.catch_up();
            }
            match source {
                QuerySource::Sqlite(readers) => readers.run(query),
                QuerySource::Postgres(reader) => query(&reader.into()),
            }
        };
        tokio::task::spawn_blocking(run).await.unwrap_or(Err(StoreError::Closed))
    }

    /// Whether records outlive this process.
    pub fn is_durable(&self) -> bool {
        match &self.shared.engine {
            Engine::Sqlite { place, .. } => matches!(**place, Place::File(_)),
            Engine::Postgres(_) => true,
        }
    }

    /// The database file; `None` in memory and in Postgres.
    pub fn path(&self) -> Option<&Path> {
        match &self.shared.engine {
            Engine::Sqlite { place, .. } => place.path(),
            Engine::Postgres(_) => None,
        }
    }

    /// Writes that could not be committed since the start.
    pub fn failed_writes(&self) -> u64 {
        match &self.shared.engine {
            Engine::Sqlite { writer, .. } => writer.failed(),
            Engine::Postgres(engine) => engine.failed(),
        }
    }

    /// Writes a call that has not ended. The future resolves after the commit; dropping it does not cancel the write.
    pub fn write_call(&self, call: CallRow, body: CallBody) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::Call(Box::new(call), self.bounded(body)), Urgency::Refusable)
    }

    /// Writes the end of a call, with its rollup and its audit event.
    pub fn end_call(&self, call: CallRow, body: CallBody) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::CallEnd(Box::new(call), self.bounded(body)), Urgency::Required)
    }

    /// Appends to the audit log.
    pub fn append_audit(&self, event: AuditEvent) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::Audit(Box::new(event)), Urgency::Required)
    }

    /// Saves an approval.
    pub fn save_approval(&self, approval: StoredApproval) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::SaveApproval(Box::new(approval)), Urgency::Refusable)
    }

    /// Keeps definitions as they were seen.
    pub fn save_baselines(&self, seen: Vec<Baseline>) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::Baselines(seen.into()), Urgency::Refusable)
    }

    /// Sets where a saved approval holds.
    pub fn set_approval_holds(
        &self,
        id: Uuid,
        holds: Attendance,
    ) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::ApprovalHolds(id, holds), Urgency::Refusable)
    }

    /// Removes a saved approval.
    pub fn remove_approval(&self, id: Uuid) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::RemoveApproval(id), Urgency::Refusable)
    }

    /// Writes an inbox item, or how it ended.
    pub fn write_inbox(&self, item: InboxRow) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::Inbox(Box::new(item)), Urgency::Required)
    }

    /// Changes the stored sessions of servers.
    /// Replaces the roots that a client supplied.
    pub(crate) fn write_client_roots(
        &self,
        list: ClientRootList,
    ) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::ClientRoots(Box::new(list)), Urgency::Required)
    }

    pub(crate) fn change_session(&self, change: SessionChange) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::Session(Box::new(change)), Urgency::Required)
    }

    /// Writes a task that this process follows.
    pub fn write_task(&self, task: TaskRow) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::Task(Box::new(task)), Urgency::Required)
    }

    /// Takes a task that no process follows. Returns whether this process follows it now.
    pub fn claim_task(&self, id: Uuid) -> impl Future<Output = Result<bool, StoreError>> + use<> {
        let claimed = self.submit(Write::ClaimTask(id), Urgency::Required);
        let store = self.clone();
        async move {
            claimed.await?;
            let task = store.query(Freshness::Committed, move |reader| reader.task(id)).await?;
            Ok(task.is_some_and(|task| task.process == Some(store.run())))
        }
    }

    /// Lets another process claim a task of this one.
    pub fn release_task(&self, id: Uuid) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::ReleaseTask(id), Urgency::Required)
    }

    /// Writes the end of a task and of its call, which another process has recorded.
    pub fn end_task(
        &self,
        task: TaskRow,
        mut call: SettledCall,
    ) -> impl Future<Output = Result<(), StoreError>> + use<> {
        call.body = self.bounded(call.body);
        self.submit(Write::TaskEnd(Box::new(TaskEnd { task, call })), Urgency::Required)
    }

    /// Completes what processes left that have ended since this store was opened.
    pub fn recover(&self) -> Result<(), StoreError> {
        match &self.shared.engine {
            Engine::Sqlite { place, writer, .. } => {
                let Some(path) = place.path() else { return Ok(()) };
                let locks = database::lock_folder(path);
                for dead in runs::dead(&place.reader()?.connection, &locks)? {
                    writer.insist(Write::Recover(Box::new(dead)));
                }
                Ok(())
            }
            Engine::Postgres(engine) => engine.recover(),
        }
    }

    /// Writes a conversation's title, model and times.
    pub fn write_conversation(
        &self,
        conversation: StoredConversation,
    ) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::Conversation(Box::new(conversation)), Urgency::Refusable)
    }

    /// Adds a message to a conversation, or replaces the one at its position.
    pub fn write_message(
        &self,
        conversation: Uuid,
        message: StoredMessage,
    ) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::Message(conversation, Box::new(message)), Urgency::Refusable)
    }

    /// Keeps a note about a conversation, or replaces the one of its name.
    pub fn write_note(
        &self,
        conversation: Uuid,
        note: ConversationNote,
    ) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::Note(conversation, Box::new(note)), Urgency::Refusable)
    }

    /// Deletes a conversation and its messages.
    pub fn delete_conversation(&self, id: Uuid) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::DeleteConversation(id), Urgency::Refusable)
    }

    /// Claims an idempotency key, if no other call holds it.
    pub(crate) fn claim_key(&self, claim: KeyClaim) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::ClaimKey(Box::new(claim)), Urgency::Refusable)
    }

    /// Frees the key of a call.
    pub(crate) fn release_key(&self, call: Uuid) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::ReleaseKey(call), Urgency::Required)
    }

    /// Keeps what a person found out about a call.
    pub fn settle(&self, settlement: Settlement) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::Settle(Box::new(settlement)), Urgency::Refusable)
    }

    /// Reserves tokens of a model, if every quota has room.
    pub(crate) fn reserve_sampling(&self, reserve: Reserve) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::ReserveSampling(Box::new(reserve)), Urgency::Refusable)
    }

    /// Ends a reservation.
    pub(crate) fn settle_sampling(
        &self,
        id: Uuid,
        end: SamplingEnd,
    ) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::SettleSampling(id, end), Urgency::Required)
    }

    /// Takes a call from the counts of its day, if each has room.
    pub(crate) fn take_of_day(&self, wanted: DayUse) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::TakeOfDay(Box::new(wanted)), Urgency::Refusable)
    }

    /// Gives back what a call took from the counts of its day.
    pub(crate) fn give_back_of_day(&self, call: Uuid) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::GiveBackOfDay(call), Urgency::Required)
    }

    /// Applies a step of retention.
    pub(crate) fn submit_step(&self, step: Step) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.submit(Write::Prune(Box::new(step)), Urgency::Required)
    }

    /// Applies the limits now, in steps between which other writes are committed.
    pub async fn prune(&self, limits: &RetentionLimits) -> Result<RetentionPlan, StoreError> {
        match &self.shared.engine {
            Engine::Sqlite { .. } => self.prune_file(limits).await,
            Engine::Postgres(engine) => engine.prune(*limits).await,
        }
    }

    fn submit(&self, write: Write, urgency: Urgency) -> impl Future<Output = Result<(), StoreError>> + use<> {
        let submitted = self.queue().submit(write, urgency);
        async move {
            match submitted? {
                Some(committed) => committed.await.unwrap_or(Err(StoreError::Closed)),
                None => Ok(()),
            }
        }
    }
}
