//! The store as the read port of the host, and as the port for changes that a user asks for.

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc, time::SystemTime};

use parking_lot::Mutex;
use toolway_config::{Secret, ServerName};
use toolway_host::{
    conversation::{ConversationNote, FoundMessage, StoredConversation, StoredMessage},
    policy::{Attendance, Baseline, StoredApproval},
    record::{
        AuditEntry, AuditFilter, CallFilter, CallRow, Fetch, InboxRow, LogOrigin, RecordChanges, Records, RecordsError,
        RetentionPlan, SamplingRow, Settlement, StatsFilter, StoreUsage, StoredCall, ToolStats, Verified,
    },
    task::{TaskFilter, TaskRow},
};
use uuid::Uuid;

use crate::{
    Reader, Store, StoreError,
    retention::{self, RetentionLimits, StoreSize},
    rollup::{self, RollupFilter},
    store::Freshness,
    time,
};

/// The records of a store. Cheap to clone.
#[derive(Clone)]
pub struct StoreRecords {
    source: Source,
    /// The limits of `plan_retention` and `prune`.
    limits: RetentionLimits,
}

/// What queries run on.
#[derive(Clone)]
enum Source {
    /// A store that this process writes to.
    Store(Store),
    /// A connection of its own to a store that other processes may write to. Nothing but a query holds the lock.
    Reader(Arc<Mutex<Reader>>),
}

impl StoreRecords {
    /// The records of an open store.
    pub fn of(store: Store) -> Self {
        let limits = *store.limits();
        Self { source: Source::Store(store), limits }
    }

    /// The records in a file; `None` if there is no file yet. Blocks.
    pub fn open(path: &Path, limits: RetentionLimits) -> Result<Option<Self>, StoreError> {
        let reader = Reader::open(path)?;
        Ok(reader.map(|reader| Self { source: Source::Reader(Arc::new(Mutex::new(reader))), limits }))
    }

    /// The records in a Postgres database, for queries alone. Blocks.
    pub fn connect(url: &Secret, limits: RetentionLimits) -> Result<Self, StoreError> {
        Ok(Self { source: Source::Reader(Arc::new(Mutex::new(Reader::connect(url)?))), limits })
    }

    /// The same records with other limits for `plan_retention` and `prune`.
    #[must_use]
    pub fn with_limits(self, limits: RetentionLimits) -> Self {
        Self { limits, ..self }
    }

    /// Runs a query on a thread for blocking work.
    fn fetch<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Fetch<'_, T> {
        match &self.source {
            Source::Store(store) => Box::pin(async move { Ok(store.query(Freshness::Submitted, query).await?) }),
            Source::Reader(reader) => {
                let reader = Arc::clone(reader);
                Box::pin(async move {
                    let found = tokio::task::spawn_blocking(move || query(&reader.lock()));
                    Ok(found.await.unwrap_or(Err(StoreError::Closed))?)
                })
            }
        }
    }

    /// The store for changes.
    fn store(&self) -> Result<&Store, RecordsError> {
        match &self.source {
            Source::Store(store) => Ok(store),
            Source::Reader(_) => Err(RecordsError::Invalid("the store is open for queries only")),
        }
    }

    fn usage_of(&self, size: &StoreSize) -> StoreUsage {
        StoreUsage { bytes: size.total(), max_bytes: self.limits.max_bytes, corrupt_bytes: size.set_aside }
    }

    fn plan_of(&self, plan: &retention::RetentionPlan) -> RetentionPlan {
        RetentionPlan {
            corrupt: plan.files,
            bodies: plan.bodies,
            calls: plan.calls,
            audit: plan.audit,
            conversations: plan.conversations,
            usage: self.usage_of(&plan.size),
        }
    }
}

impl Records for StoreRecords {
    fn calls(&self, filter: CallFilter) -> Fetch<'_, Vec<CallRow>> {
        self.fetch(move |reader| reader.calls(&filter))
    }

    fn call(&self, id: Uuid) -> Fetch<'_, Option<StoredCall>> {
        self.fetch(move |reader| reader.call(id))
    }

    fn calls_with_arguments(&self, filter: CallFilter, max_bytes: usize) -> Fetch<'_, Vec<StoredCall>> {
        self.fetch(move |reader| reader.calls_with_arguments(&filter, max_bytes))
    }

    fn baselines(&self) -> Fetch<'_, Vec<Baseline>> {
        self.fetch(Reader::baselines)
    }

    fn settlement(&self, call: Uuid) -> Fetch<'_, Option<Settlement>> {
        self.fetch(move |reader| reader.settlement(call))
    }

    fn unsettled(&self, limit: usize) -> Fetch<'_, Vec<CallRow>> {
        self.fetch(move |reader| reader.unsettled(limit))
    }

    fn find_calls(&self, digits: &str) -> Fetch<'_, Vec<Uuid>> {
        let digits = digits.to_owned();
        self.fetch(move |reader| reader.find_calls(&digits))
    }

    fn tasks(&self, filter: TaskFilter) -> Fetch<'_, Vec<TaskRow>> {
        self.fetch(move |reader| reader.tasks(&filter))
    }

    fn task(&self, id: Uuid) -> Fetch<'_, Option<TaskRow>> {
        self.fetch(move |reader| reader.task(id))
    }

    fn stats(&self, filter: StatsFilter) -> Fetch<'_, Vec<ToolStats>> {
        let StatsFilter { since, server, tool, caller } = filter;
        let filter = RollupFilter { since, server, tool, caller };
        self.fetch(move |reader| Ok(reader.stats(&filter)?.into_iter().map(stats).collect()))
    }

    fn audit(&self, filter: AuditFilter) -> Fetch<'_, Vec<AuditEntry>> {
        self.fetch(move |reader| reader.audit(&filter))
    }

    fn verify_audit(&self) -> Fetch<'_, Verified> {
        self.fetch(Reader::verify_audit)
    }

    fn log_origin(&self) -> Fetch<'_, LogOrigin> {
        self.fetch(Reader::log_origin)
    }

    fn approvals(&self) -> Fetch<'_, Vec<StoredApproval>> {
        self.fetch(Reader::approvals)
    }

    fn approvals_of(&self, server: &ServerName, tool: &str) -> Fetch<'_, Vec<StoredApproval>> {
        let server = server.clone();
        let tool = tool.to_owned();
        self.fetch(move |reader| reader.approvals_of(server.as_str(), &tool))
    }

    fn sampling_of(&self, call: Uuid) -> Fetch<'_, Vec<SamplingRow>> {
        self.fetch(move |reader| reader.sampling_of(call))
    }

    fn calls_of_day(&self, at: SystemTime) -> Fetch<'_, BTreeMap<String, u64>> {
        self.fetch(move |reader| reader.calls_of_day(at))
    }

    fn inbox(&self, limit: usize) -> Fetch<'_, Vec<InboxRow>> {
        self.fetch(move |reader| reader.inbox(limit))
    }

    fn conversations(&self, limit: usize) -> Fetch<'_, Vec<StoredConversation>> {
        self.fetch(move |reader| reader.conversations(limit))
    }

    fn conversation(&self, id: Uuid) -> Fetch<'_, Option<StoredConversation>> {
        self.fetch(move |reader| reader.conversation(id))
    }

    fn messages(&self, conversation: Uuid) -> Fetch<'_, Vec<StoredMessage>> {
        self.fetch(move |reader| reader.messages(conversation))
    }

    fn conversation_notes(&self, conversation: Uuid) -> Fetch<'_, Vec<ConversationNote>> {
        self.fetch(move |reader| reader.conversation_notes(conversation))
    }

    fn replay_notes(&self, conversation: Uuid) -> Fetch<'_, Vec<ConversationNote>> {
        self.fetch(move |reader| reader.replay_notes(conversation))
    }

    fn search_conversations(&self, text: &str, limit: usize) -> Fetch<'_, Vec<FoundMessage>> {
        let text = text.to_owned();
        self.fetch(move |reader| reader.search_conversations(&text, limit))
    }

    fn usage(&self) -> Fetch<'_, StoreUsage> {
        Box::pin(async { Ok(self.usage_of(&self.fetch(Reader::size).await?)) })
    }

    fn plan_retention(&self) -> Fetch<'_, RetentionPlan> {
        let limits = self.limits;
        Box::pin(async move {
            let plan = self.fetch(move |reader| reader.plan_retention(&limits, time::now())).await?;
            Ok(self.plan_of(&plan))
        })
    }
}

impl RecordChanges for StoreRecords {
    fn set_approval_holds(&self, id: &str, holds: Attendance) -> Fetch<'_, ()> {
        let id = approval_id(id);
        Box::pin(async move { Ok(self.store()?.set_approval_holds(id?, holds).await?) })
    }

    fn settle(&self, settlement: Settlement) -> Fetch<'_, ()> {
        Box::pin(async move { Ok(self.store()?.settle(settlement).await?) })
    }

    fn remove_approval(&self, id: &str) -> Fetch<'_, ()> {
        let id = approval_id(id);
        Box::pin(async move { Ok(self.store()?.remove_approval(id?).await?) })
    }

    fn delete_conversation(&self, id: Uuid) -> Fetch<'_, ()> {
        Box::pin(async move { Ok(self.store()?.delete_conversation(id).await?) })
    }

    fn prune(&self) -> Fetch<'_, RetentionPlan> {
        Box::pin(async { Ok(self.plan_of(&self.store()?.prune(&self.limits).await?)) })
    }
}

impl fmt::Debug for StoreRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreRecords").field("limits", &self.limits).finish_non_exhaustive()
    }
}

fn approval_id(id: &str) -> Result<Uuid, RecordsError> {
    id.parse().map_err(|_| RecordsError::Invalid("the id of an approval is not a UUID"))
}

fn stats(tool: rollup::ToolStats) -> ToolStats {
    let rollup::ToolStats { server, tool, total, unsuccessful } = tool;
    ToolStats {
        server,
        tool,
        calls: total.calls,
        unsuccessful,
        mean: total.duration.checked_div(total.calls),
        p50: total.quantile(0.5),
        p95: total.quantile(0.95),
    }
}
