//! The read port: what surfaces ask about stored calls, tasks, audit entries, approvals, inbox items and conversations.
//!
//! Nothing here depends on how records are stored. What writes them: [`CallRecorder`](super::CallRecorder),
//! [`ConversationLog`](crate::conversation::ConversationLog), [`SavedApprovals`](crate::policy::SavedApprovals).

use std::{collections::BTreeMap, time::SystemTime};

use futures_util::future::BoxFuture;
use toolway_config::ServerName;
use toolway_wire::time::Micros;
use uuid::Uuid;

use super::{
    AuditEntry, AuditFilter, CallFilter, CallRow, LogOrigin, RecordsError, SamplingRow, Settlement, StatsFilter,
    StoredCall, ToolStats, Verified,
};
use crate::{
    conversation::{ConversationNote, FoundMessage, StoredConversation, StoredMessage},
    policy::{Attendance, Baseline, StoredApproval},
    task::{TaskFilter, TaskRow},
};

/// An answer of the store that is waited for.
pub type Fetch<'a, T> = BoxFuture<'a, Result<T, RecordsError>>;

/// Queries. Each sees everything that was written before it was asked. Lists are newest first where nothing else is said.
pub trait Records: Send + Sync {
    /// Calls that match.
    fn calls(&self, filter: CallFilter) -> Fetch<'_, Vec<CallRow>>;

    /// One call with its arguments and result.
    fn call(&self, id: Uuid) -> Fetch<'_, Option<StoredCall>>;

    /// Calls with their arguments and without their results, newest first: as many as the filter says, and no further one after
    /// their arguments have this many bytes together. An empty list is the end.
    fn calls_with_arguments(&self, filter: CallFilter, max_bytes: usize) -> Fetch<'_, Vec<StoredCall>>;

    /// Definitions of tools and servers as they were first seen.
    fn baselines(&self) -> Fetch<'_, Vec<Baseline>>;

    /// Ids of calls that end with these hexadecimal digits, or else begin with them; newest first, at most ten.
    fn find_calls(&self, digits: &str) -> Fetch<'_, Vec<Uuid>>;

    /// Tasks that match.
    fn tasks(&self, filter: TaskFilter) -> Fetch<'_, Vec<TaskRow>>;

    /// One task. Its result is that of its call.
    fn task(&self, id: Uuid) -> Fetch<'_, Option<TaskRow>>;

    /// Statistics by tool, busiest first.
    fn stats(&self, filter: StatsFilter) -> Fetch<'_, Vec<ToolStats>>;

    /// What a person found out about a call whose outcome is unknown.
    fn settlement(&self, call: Uuid) -> Fetch<'_, Option<Settlement>>;

    /// Tool calls with an unknown outcome that are neither idempotent nor settled, nor cancelled by the person who made them,
    /// newest first.
    fn unsettled(&self, limit: usize) -> Fetch<'_, Vec<CallRow>>;

    /// Audit entries that match; with `after`, oldest first.
    fn audit(&self, filter: AuditFilter) -> Fetch<'_, Vec<AuditEntry>>;

    /// Follows the chain of hashes from its beginning, or from the checkpoint that retention left.
    fn verify_audit(&self) -> Fetch<'_, Verified>;

    /// What the audit log says about its own beginning.
    fn log_origin(&self) -> Fetch<'_, LogOrigin>;

    /// All saved approvals.
    fn approvals(&self) -> Fetch<'_, Vec<StoredApproval>>;

    /// Saved approvals of one tool, and those of its server that are about every tool.
    fn approvals_of(&self, server: &ServerName, tool: &str) -> Fetch<'_, Vec<StoredApproval>>;

    /// What models answered in a call, oldest first.
    fn sampling_of(&self, call: Uuid) -> Fetch<'_, Vec<SamplingRow>>;

    /// Calls of the day at this time, by the count of a limit (`LimitScope::count_key`).
    fn calls_of_day(&self, at: SystemTime) -> Fetch<'_, BTreeMap<String, u64>>;

    /// The last inbox items.
    fn inbox(&self, limit: usize) -> Fetch<'_, Vec<InboxRow>>;

    /// The last conversations.
    fn conversations(&self, limit: usize) -> Fetch<'_, Vec<StoredConversation>>;

    /// One conversation.
    fn conversation(&self, id: Uuid) -> Fetch<'_, Option<StoredConversation>>;

    /// The messages of a conversation, in order.
    fn messages(&self, conversation: Uuid) -> Fetch<'_, Vec<StoredMessage>>;

    /// The notes of a conversation, by name, without those for a replay.
    fn conversation_notes(&self, conversation: Uuid) -> Fetch<'_, Vec<ConversationNote>>;

    /// The notes of a conversation for a replay, by name.
    fn replay_notes(&self, conversation: Uuid) -> Fetch<'_, Vec<ConversationNote>>;

    /// Conversations in which a message contains the text, each with the first such message.
    fn search_conversations(&self, text: &str, limit: usize) -> Fetch<'_, Vec<FoundMessage>>;

    /// How full the store is.
    fn usage(&self) -> Fetch<'_, StoreUsage>;

    /// Estimates what the configured limits would remove now.
    fn plan_retention(&self) -> Fetch<'_, RetentionPlan>;
}

/// Changes of records that a user asks for. A write is submitted when a method is called; the future waits for it.
pub trait RecordChanges: Send + Sync {
    /// Sets where a saved approval holds.
    fn set_approval_holds(&self, id: &str, holds: Attendance) -> Fetch<'_, ()>;

    /// Keeps what a person found out about a call whose outcome is unknown.
    fn settle(&self, settlement: Settlement) -> Fetch<'_, ()>;

    /// Removes a saved approval.
    fn remove_approval(&self, id: &str) -> Fetch<'_, ()>;

    /// Deletes a conversation and its messages.
    fn delete_conversation(&self, id: Uuid) -> Fetch<'_, ()>;

    /// Removes what the configured limits do not keep.
    fn prune(&self) -> Fetch<'_, RetentionPlan>;
}

/// One item that waited for a user. A row records; it never answers anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRow {
    /// UUIDv7, so that ids sort by time.
    pub id: Uuid,
    /// When it was asked.
    pub created_at: Micros,
    /// When it expires.
    pub expires_at: Micros,
    /// `approval`, `form`, `url`.
    pub kind: String,
    /// Server name.
    pub server: Option<String>,
    /// `kind[:name]` of the caller.
    pub caller: String,
    /// The call it belongs to.
    pub call: Option<Uuid>,
    /// Text of the request, redacted.
    pub text: String,
    /// When it was answered, declined or expired; `None` while it waits.
    pub ended_at: Option<Micros>,
    /// The kind of answer.
    pub answer: Option<String>,
    /// The surface that answered.
    pub answered_by: Option<String>,
}

/// How full a store is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Bytes of all records.
    pub bytes: u64,
    /// Bytes that they may have; `None`: no limit.
    pub max_bytes: Option<u64>,
    /// Bytes of corrupt records that are kept apart and are part of `bytes`.
    pub corrupt_bytes: u64,
}

/// What retention removes, or has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionPlan {
    /// Corrupt stores that are kept apart.
    pub corrupt: u64,
    /// Bodies of calls that are kept.
    pub bodies: u64,
    /// Calls, with their bodies. Open ones are kept.
    pub calls: u64,
    /// Audit entries. They leave a checkpoint.
    pub audit: u64,
    /// Conversations, with their messages.
    pub conversations: u64,
    /// How full the store was before.
    pub usage: StoreUsage,
}

/// The records of a store in which nothing was recorded yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRecords;

/// An answer that is there already.
fn nothing<'a, T: Default + Send + 'a>() -> Fetch<'a, T> {
    Box::pin(async { Ok(T::default()) })
}

impl Records for NoRecords {
    fn calls(&self, _: CallFilter) -> Fetch<'_, Vec<CallRow>> {
        nothing()
    }

    fn call(&self, _: Uuid) -> Fetch<'_, Option<StoredCall>> {
        nothing()
    }

    fn calls_with_arguments(&self, _: CallFilter, _: usize) -> Fetch<'_, Vec<StoredCall>> {
        nothing()
    }

    fn baselines(&self) -> Fetch<'_, Vec<Baseline>> {
        nothing()
    }

    fn find_calls(&self, _: &str) -> Fetch<'_, Vec<Uuid>> {
        nothing()
    }

    fn tasks(&self, _: TaskFilter) -> Fetch<'_, Vec<TaskRow>> {
        nothing()
    }

    fn task(&self, _: Uuid) -> Fetch<'_, Option<TaskRow>> {
        nothing()
    }

    fn stats(&self, _: StatsFilter) -> Fetch<'_, Vec<ToolStats>> {
        nothing()
    }

    fn settlement(&self, _: Uuid) -> Fetch<'_, Option<Settlement>> {
        nothing()
    }

    fn unsettled(&self, _: usize) -> Fetch<'_, Vec<CallRow>> {
        nothing()
    }

    fn audit(&self, _: AuditFilter) -> Fetch<'_, Vec<AuditEntry>> {
        nothing()
    }

    fn verify_audit(&self) -> Fetch<'_, Verified> {
        Box::pin(async { Ok(Verified::Intact { entries: 0, checkpoint: 0 }) })
    }

    fn log_origin(&self) -> Fetch<'_, LogOrigin> {
        nothing()
    }

    fn approvals(&self) -> Fetch<'_, Vec<StoredApproval>> {
        nothing()
    }

    fn approvals_of(&self, _: &ServerName, _: &str) -> Fetch<'_, Vec<StoredApproval>> {
        nothing()
    }

    fn sampling_of(&self, _: Uuid) -> Fetch<'_, Vec<SamplingRow>> {
        nothing()
    }

    fn calls_of_day(&self, _: SystemTime) -> Fetch<'_, BTreeMap<String, u64>> {
        nothing()
    }

    fn inbox(&self, _: usize) -> Fetch<'_, Vec<InboxRow>> {
        nothing()
    }

    fn conversations(&self, _: usize) -> Fetch<'_, Vec<StoredConversation>> {
        nothing()
    }

    fn conversation(&self, _: Uuid) -> Fetch<'_, Option<StoredConversation>> {
        nothing()
    }

    fn messages(&self, _: Uuid) -> Fetch<'_, Vec<StoredMessage>> {
        nothing()
    }

    fn conversation_notes(&self, _: Uuid) -> Fetch<'_, Vec<ConversationNote>> {
        nothing()
    }

    fn replay_notes(&self, _: Uuid) -> Fetch<'_, Vec<ConversationNote>> {
        nothing()
    }

    fn search_conversations(&self, _: &str, _: usize) -> Fetch<'_, Vec<FoundMessage>> {
        nothing()
    }

    fn usage(&self) -> Fetch<'_, StoreUsage> {
        nothing()
    }

    fn plan_retention(&self) -> Fetch<'_, RetentionPlan> {
        nothing()
    }
}
