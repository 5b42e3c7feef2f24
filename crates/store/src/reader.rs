//! A connection for queries, of either engine. It sees what was committed and cannot write.

use std::{collections::BTreeMap, path::Path, time::SystemTime};

use toolway_config::Secret;
use toolway_host::{
    connection::ClaimedSession,
    policy::{Baseline, DayTaken, DayUse, SeenDigest, SeenItem},
    record::{IdempotencyKey, KeyClaim, KeyHolder, Settlement},
    roots::ClientRootList,
    sampling::quota::Reservation,
};
use uuid::Uuid;

use crate::{
    PostgresReader, SqliteReader, StoreError,
    approvals::{Refusals, StoredApproval},
    audit::{AuditEntry, AuditFilter, LogOrigin, Verified},
    calls::{CallFilter, CallRow, StoredCall},
    conversations::{ConversationNote, FoundMessage, StoredConversation, StoredMessage},
    inbox::InboxRow,
    retention::{RetentionLimits, RetentionPlan, StoreSize},
    rollup::{RollupFilter, ToolStats},
    sampling::{Reserve, SamplingRow},
    tasks::{TaskFilter, TaskRow},
    time::Micros,
};

/// Answers queries. Every method blocks.
#[derive(Debug)]
pub struct Reader(Engine);

#[derive(Debug)]
enum Engine {
    Sqlite(Box<SqliteReader>),
    Postgres(PostgresReader),
}

impl From<SqliteReader> for Reader {
    fn from(reader: SqliteReader) -> Self {
        Self(Engine::Sqlite(Box::new(reader)))
    }
}

impl From<PostgresReader> for Reader {
    fn from(reader: PostgresReader) -> Self {
        Self(Engine::Postgres(reader))
    }
}

impl Reader {
    /// Opens a file for queries. Returns `None` if there is no file yet. What any process acknowledged before is seen,
    /// also that of a process that was killed before it was committed.
    pub fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        Ok(SqliteReader::open(path)?.map(Self::from))
    }

    /// Connects to a Postgres database for queries.
    pub fn connect(url: &Secret) -> Result<Self, StoreError> {
        Ok(PostgresReader::connect(url)?.into())
    }

    /// The connection to a file.
    pub(crate) fn of_file(&self) -> Result<&SqliteReader, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => Ok(reader),
            Engine::Postgres(_) => Err(StoreError::Invalid("the store is not a file")),
        }
    }

    /// Frees what the last query has read.
    pub(crate) fn release_memory(&self) {
        match &self.0 {
            Engine::Sqlite(reader) => reader.release_memory(),
            Engine::Postgres(_) => {}
        }
    }

    /// Calls that match, newest first.
    pub fn calls(&self, filter: &CallFilter) -> Result<Vec<CallRow>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.calls(filter),
            Engine::Postgres(reader) => reader.wait(reader.calls(filter)),
        }
    }

    /// One call with its body.
    pub fn call(&self, id: Uuid) -> Result<Option<StoredCall>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.call(id),
            Engine::Postgres(reader) => reader.wait(reader.call(id)),
        }
    }

    /// Calls with their arguments and without their results, newest first; no further one after their arguments have this many
    /// bytes together.
    pub fn calls_with_arguments(&self, filter: &CallFilter, max_bytes: usize) -> Result<Vec<StoredCall>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.calls_with_arguments(filter, max_bytes),
            Engine::Postgres(reader) => reader.wait(reader.calls_with_arguments(filter, max_bytes)),
        }
    }

    /// The calls whose id, written as text, ends with these digits, or else begins with them; newest first, at most ten.
    pub fn find_calls(&self, digits: &str) -> Result<Vec<Uuid>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.find_calls(digits),
            Engine::Postgres(reader) => reader.wait(reader.find_calls(digits)),
        }
    }

    /// Tool calls with an unknown outcome that are not idempotent and not settled, newest first.
    pub(crate) fn unsettled(&self, limit: usize) -> Result<Vec<CallRow>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.unsettled(limit),
            Engine::Postgres(reader) => reader.wait(reader.unsettled(limit)),
        }
    }

    /// The settlement of a call.
    pub(crate) fn settlement(&self, call: Uuid) -> Result<Option<Settlement>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.settlement(call),
            Engine::Postgres(reader) => reader.wait(reader.settlement(call)),
        }
    }

    /// The call that holds a key.
    pub(crate) fn call_under(&self, key: &IdempotencyKey) -> Result<Option<StoredCall>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.call_under(key),
            Engine::Postgres(reader) => reader.wait(reader.call_under(key)),
        }
    }

    /// Who holds the key of a claim.
    pub(crate) fn key_holder(&self, claim: &KeyClaim) -> Result<KeyHolder, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.key_holder(claim),
            Engine::Postgres(reader) => reader.wait(reader.key_holder(claim)),
        }
    }

    /// Tasks that match, newest first.
    pub fn tasks(&self, filter: &TaskFilter) -> Result<Vec<TaskRow>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.tasks(filter),
            Engine::Postgres(reader) => reader.wait(reader.tasks(filter)),
        }
    }

    /// The newest tasks that were hosted for a client before a time.
    pub fn tasks_hosted_for(&self, identity: &str, before: Micros, limit: usize) -> Result<Vec<TaskRow>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.tasks_hosted_for(identity, before, limit),
            Engine::Postgres(reader) => reader.wait(reader.tasks_hosted_for(identity, before, limit)),
        }
    }

    /// One task.
    pub fn task(&self, id: Uuid) -> Result<Option<TaskRow>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.task(id),
            Engine::Postgres(reader) => reader.wait(reader.task(id)),
        }
    }

    /// Statistics by tool, busiest first.
    pub fn stats(&self, filter: &RollupFilter) -> Result<Vec<ToolStats>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.stats(filter),
            Engine::Postgres(reader) => reader.wait(reader.stats(filter)),
        }
    }

    /// Entries of the audit log that match, newest first; with `after`, oldest first.
    pub fn audit(&self, filter: &AuditFilter) -> Result<Vec<AuditEntry>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.audit(filter),
            Engine::Postgres(reader) => reader.wait(reader.audit(filter)),
        }
    }

    /// Follows the chain of the audit log from its beginning, or from the checkpoint that retention left.
    pub fn verify_audit(&self) -> Result<Verified, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.verify_audit(),
            Engine::Postgres(reader) => reader.wait(reader.verify_audit()),
        }
    }

    /// What the audit log says about its own beginning.
    pub fn log_origin(&self) -> Result<LogOrigin, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.log_origin(),
            Engine::Postgres(reader) => reader.wait(reader.log_origin()),
        }
    }

    /// All saved approvals, newest first.
    pub fn approvals(&self) -> Result<Vec<StoredApproval>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.approvals(),
            Engine::Postgres(reader) => reader.wait(reader.approvals()),
        }
    }

    /// Saved approvals of one tool, and those of its server that are about every tool.
    pub fn approvals_of(&self, server: &str, tool: &str) -> Result<Vec<StoredApproval>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.approvals_of(server, tool),
            Engine::Postgres(reader) => reader.wait(reader.approvals_of(server, tool)),
        }
    }

    /// Items for which a refusal is saved.
    pub(crate) fn refusals(&self) -> Result<Refusals, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.refusals(),
            Engine::Postgres(reader) => reader.wait(reader.refusals()),
        }
    }

    /// All definitions.
    pub(crate) fn baselines(&self) -> Result<Vec<Baseline>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.baselines(),
            Engine::Postgres(reader) => reader.wait(reader.baselines()),
        }
    }

    /// The digests of a server of this name.
    pub(crate) fn seen_digests(&self, server: &str) -> Result<Vec<SeenDigest>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.seen_digests(server),
            Engine::Postgres(reader) => reader.wait(reader.seen_digests(server)),
        }
    }

    /// One definition.
    pub(crate) fn baseline(&self, server: &str, item: &SeenItem) -> Result<Option<Baseline>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.baseline(server, item),
            Engine::Postgres(reader) => reader.wait(reader.baseline(server, item)),
        }
    }

    /// What became of a reservation: what is left after it, or which quota had no room.
    pub(crate) fn reservation(&self, reserve: &Reserve) -> Result<Reservation, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.reservation(reserve),
            Engine::Postgres(reader) => reader.wait(reader.reservation(reserve)),
        }
    }

    /// What models answered in a call, oldest first.
    pub fn sampling_of(&self, call: Uuid) -> Result<Vec<SamplingRow>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.sampling_of(call),
            Engine::Postgres(reader) => reader.wait(reader.sampling_of(call)),
        }
    }

    /// What became of a call that was to be taken.
    pub(crate) fn day_taken(&self, wanted: &DayUse) -> Result<DayTaken, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.day_taken(wanted),
            Engine::Postgres(reader) => reader.wait(reader.day_taken(wanted)),
        }
    }

    /// Calls of the day at `at`, by count.
    pub fn calls_of_day(&self, at: SystemTime) -> Result<BTreeMap<String, u64>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.calls_of_day(at),
            Engine::Postgres(reader) => reader.wait(reader.calls_of_day(at)),
        }
    }

    /// The last inbox items, newest first.
    pub fn inbox(&self, limit: usize) -> Result<Vec<InboxRow>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.inbox(limit),
            Engine::Postgres(reader) => reader.wait(reader.inbox(limit)),
        }
    }

    /// The last conversations, newest first.
    pub fn conversations(&self, limit: usize) -> Result<Vec<StoredConversation>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.conversations(limit),
            Engine::Postgres(reader) => reader.wait(reader.conversations(limit)),
        }
    }

    /// One conversation.
    pub fn conversation(&self, id: Uuid) -> Result<Option<StoredConversation>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.conversation(id),
            Engine::Postgres(reader) => reader.wait(reader.conversation(id)),
        }
    }

    /// The messages of a conversation, in order.
    pub fn messages(&self, conversation: Uuid) -> Result<Vec<StoredMessage>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.messages(conversation),
            Engine::Postgres(reader) => reader.wait(reader.messages(conversation)),
        }
    }

    /// The notes of a conversation, by name, without those for a replay.
    pub fn conversation_notes(&self, conversation: Uuid) -> Result<Vec<ConversationNote>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.conversation_notes(conversation),
            Engine::Postgres(reader) => reader.wait(reader.conversation_notes(conversation)),
        }
    }

    /// The notes of a conversation for a replay, by name.
    pub fn replay_notes(&self, conversation: Uuid) -> Result<Vec<ConversationNote>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.replay_notes(conversation),
            Engine::Postgres(reader) => reader.wait(reader.replay_notes(conversation)),
        }
    }

    /// Conversations in which a message contains the text, newest first, each with the first such message.
    pub fn search_conversations(&self, text: &str, limit: usize) -> Result<Vec<FoundMessage>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.search_conversations(text, limit),
            Engine::Postgres(reader) => reader.wait(reader.search_conversations(text, limit)),
        }
    }

    /// The session that was marked with `claim`.
    pub(crate) fn claimed_session(&self, claim: Uuid) -> Result<Option<ClaimedSession>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.claimed_session(claim),
            Engine::Postgres(reader) => reader.wait(reader.claimed_session(claim)),
        }
    }

    /// The roots of all clients.
    pub(crate) fn client_roots(&self) -> Result<Vec<ClientRootList>, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.client_roots(),
            Engine::Postgres(reader) => reader.wait(reader.client_roots()),
        }
    }

    /// Estimates what retention would remove at `now`.
    pub fn plan_retention(&self, limits: &RetentionLimits, now: Micros) -> Result<RetentionPlan, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.plan_retention(limits, now),
            Engine::Postgres(reader) => reader.wait(reader.plan_retention(limits, now)),
        }
    }

    /// Bytes of the store.
    pub fn size(&self) -> Result<StoreSize, StoreError> {
        match &self.0 {
            Engine::Sqlite(reader) => reader.size(),
            Engine::Postgres(reader) => reader.wait(reader.size()),
        }
    }
}
