//! The store as the host's recorder and as its saved approvals.

use std::time::Duration;

use futures_util::future::BoxFuture;
use toolway_host::{
    conversation::{ConversationHead, ConversationLog, ConversationMessage},
    inbox::InboxRecord,
    policy::{ApprovalKey, ArgumentPattern, SavedApprovals, SavedDecision, SavedEffect as HostEffect},
    record::{AuditNote, CallBody as HostBody, CallRecord, CallRecorder, Ending, OpenState, Requirement},
};
use uuid::Uuid;

use crate::{
    Reader, Store, StoreError,
    approvals::{SavedApproval, SavedEffect},
    audit::AuditEvent,
    calls::{CallBody, CallRow, CallState},
    conversations::{Conversation, StoredMessage},
    inbox::InboxRow,
    store::Freshness,
    time,
};

/// Writes the host's records to a store.
#[derive(Clone, Debug)]
pub struct StoreRecorder {
    store: Store,
    requirement: Requirement,
    /// The surface on which approvals of this process are saved.
    surface: &'static str,
}

impl StoreRecorder {
    /// A recorder for one host.
    pub fn new(store: Store, requirement: Requirement, surface: &'static str) -> Self {
        Self { store, requirement, surface }
    }

    /// The store that it writes to.
    pub fn store(&self) -> &Store {
        &self.store
    }
}

impl CallRecorder for StoreRecorder {
    fn requirement(&self) -> Requirement {
        self.requirement
    }

    fn write(&self, call: &CallRecord, state: OpenState, body: HostBody) -> BoxFuture<'static, Result<(), String>> {
        let state = match state {
            OpenState::Pending => CallState::Pending,
            OpenState::Running => CallState::Running,
        };
        described(self.store.write_call(row(call, state, None), self::body(body)))
    }

    fn end(&self, call: &CallRecord, body: HostBody) -> BoxFuture<'static, Result<(), String>> {
        let row = row(call, end_state(call), Some(call.took));
        described(self.store.end_call(row, self::body(body)))
    }

    fn note(&self, note: AuditNote) {
        let event = AuditEvent {
            at: time::now(),
            kind: note.kind,
            caller: note.caller,
            server: note.server.map(|server| server.to_string()),
            subject: note.subject,
            call: note.call.map(|call| call.uuid()),
            details: note.details.to_string(),
        };
        // The writer counts and logs what it cannot write.
        drop(self.store.append_audit(event));
    }

    fn inbox(&self, item: InboxRecord) {
        let Ok(id) = item.id.parse() else { return };
        let (answer, answered_by) = item.outcome.unzip();
        let row = InboxRow {
            id,
            created_at: time::micros(item.created_at),
            expires_at: time::micros(item.expires_at),
            kind: item.kind.to_owned(),
            server: Some(item.server.to_string()),
            caller: item.caller.unwrap_or_default(),
            call: item.call.map(|call| call.uuid()),
            text: item.text,
            ended_at: answer.map(|_| time::now()),
            answer: answer.map(str::to_owned),
            answered_by: answered_by.filter(|by| !by.is_empty()),
        };
        drop(self.store.write_inbox(row));
    }
}

impl SavedApprovals for StoreRecorder {
    fn find<'a>(&'a self, key: &'a ApprovalKey) -> BoxFuture<'a, Option<SavedDecision>> {
        let (server, tool) = (key.server.to_string(), key.tool.clone());
        Box::pin(async move {
            let approvals = move |reader: &Reader| reader.approvals_of(&server, &tool);
            let found = self.store.query(Freshness::Committed, approvals).await;
            let found = found.inspect_err(|error| tracing::error!(%error, "saved approvals cannot be read")).ok()?;
            let saved = SavedApproval::deciding(&found, key)?;
            Some(SavedDecision { id: saved.id.to_string(), effect: saved.effect.into() })
        })
    }

    fn save<'a>(&'a self, key: &'a ApprovalKey, effect: HostEffect) -> BoxFuture<'a, Result<SavedDecision, String>> {
        let approval = SavedApproval {
            id: Uuid::now_v7(),
            created_at: time::now(),
            caller: key.caller.clone(),
            server: key.server.to_string(),
            tool: key.tool.clone(),
            arguments: key.arguments.as_ref().map(ArgumentPattern::to_json),
            digest: key.digest.clone(),
            effect: match effect {
                HostEffect::Allow => SavedEffect::Allow,
                HostEffect::Deny => SavedEffect::Deny,
            },
            created_by: self.surface.to_owned(),
        };
        let decision = SavedDecision { id: approval.id.to_string(), effect };
        let saved = self.store.save_approval(approval);
        Box::pin(async move { saved.await.map(|()| decision).map_err(|error| error.to_string()) })
    }
}

/// The result of a write with its error as text.
fn described(
    written: impl Future<Output = Result<(), StoreError>> + Send + 'static,
) -> BoxFuture<'static, Result<(), String>> {
    Box::pin(async move { written.await.map_err(|error| error.to_string()) })
}

fn row(call: &CallRecord, state: CallState, took: Option<Duration>) -> CallRow {
    let size = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    CallRow {
        id: call.id.uuid(),
        started_at: time::micros(call.started_at),
        duration: took.map(time::duration),
        caller: call.caller.label(),
        surface: call.surface.as_str().to_owned(),
        kind: call.kind.as_str().to_owned(),
        name: call.name.clone(),
        server: call.server.as_ref().map(|server| server.as_str().to_owned()),
        tool: call.tool.clone(),
        state,
        rule: call.rule.as_ref().map(ToString::to_string),
        approved_by: call.approved_by.as_deref().map(str::to_owned),
        error: call.message.clone(),
        conversation: call.conversation.as_deref().map(str::to_owned),
        argument_bytes: size(call.argument_bytes),
        result_bytes: size(call.result_bytes),
        server_requests: i64::from(call.asks),
    }
}

fn end_state(call: &CallRecord) -> CallState {
    match call.ending {
        Ending::Answered if call.tool_error => CallState::ToolError,
        Ending::Answered | Ending::HandedOff => CallState::Succeeded,
        Ending::Refused => CallState::Refused,
        Ending::Failed => CallState::Failed,
        Ending::Cancelled => CallState::Cancelled,
        Ending::TimedOut => CallState::TimedOut,
    }
}

fn body(body: HostBody) -> CallBody {
    CallBody { arguments: body.arguments, result: body.result }
}

impl ConversationLog for StoreRecorder {
    fn put(&self, head: &ConversationHead) -> BoxFuture<'static, Result<(), String>> {
        let Ok(id) = head.id.parse::<Uuid>() else { return Box::pin(async { Err("the id is not a UUID".to_owned()) }) };
        let now = time::now();
        let conversation = Conversation {
            id,
            started_at: now,
            updated_at: now,
            title: head.title.clone(),
            model: head.model.clone(),
            surface: head.surface.to_owned(),
        };
        described(self.store.write_conversation(conversation))
    }

    fn append(&self, conversation: &str, message: ConversationMessage) -> BoxFuture<'static, Result<(), String>> {
        let Ok(id) = conversation.parse::<Uuid>() else {
            return Box::pin(async { Err("the id is not a UUID".to_owned()) });
        };
        let message = StoredMessage {
            seq: i64::try_from(message.seq).unwrap_or(i64::MAX),
            at: time::now(),
            role: message.role.to_owned(),
            text: message.text,
            body: message.body,
        };
        described(self.store.write_message(id, message))
    }
}
