//! The closed list of writes, and what both engines make of the end of a call.

use std::collections::HashMap;

use toolway_host::{
    policy::{Attendance, Baseline, DayUse},
    record::{KeyClaim, Settlement},
    roots::ClientRootList,
    sampling::SamplingEnd,
};
use uuid::Uuid;

use crate::{
    approvals::StoredApproval,
    audit::{AuditEvent, kind},
    calls::{CallBody, CallRow, Delivery},
    chain::Contents,
    client_roots,
    conversations::{ConversationNote, StoredConversation, StoredMessage},
    inbox::InboxRow,
    recent::Dropped,
    retention::Step,
    runs::DeadRun,
    sampling::Reserve,
    sessions::SessionChange,
    tasks::{TaskEnd, TaskRow},
    time,
};

/// One change of the database.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    /// A call began or was sent.
    Call(Box<CallRow>, CallBody),
    /// A call ended: its row, its body, its rollup and its audit event.
    CallEnd(Box<CallRow>, CallBody),
    Audit(Box<AuditEvent>),
    SaveApproval(Box<StoredApproval>),
    Baselines(Box<[Baseline]>),
    ApprovalHolds(Uuid, Attendance),
    RemoveApproval(Uuid),
    Inbox(Box<InboxRow>),
    Session(Box<SessionChange>),
    ClientRoots(Box<ClientRootList>),
    Task(Box<TaskRow>),
    /// Takes a task that no process follows.
    ClaimTask(Uuid),
    ReleaseTask(Uuid),
    /// The end of a task, and of its call, which another process has recorded.
    TaskEnd(Box<TaskEnd>),
    Conversation(Box<StoredConversation>),
    Message(Uuid, Box<StoredMessage>),
    Note(Uuid, Box<ConversationNote>),
    DeleteConversation(Uuid),
    ClaimKey(Box<KeyClaim>),
    ReleaseKey(Uuid),
    Settle(Box<Settlement>),
    /// Reserves tokens of a model, if every quota has room.
    ReserveSampling(Box<Reserve>),
    SettleSampling(Uuid, SamplingEnd),
    /// Takes a call from the counts of its day, if each has room.
    TakeOfDay(Box<DayUse>),
    GiveBackOfDay(Uuid),
    Prune(Box<Step>),
    /// Calls that a store in memory no longer keeps.
    Dropped(Box<Dropped>),
    /// Completes the calls of a process that has ended.
    Recover(Box<DeadRun>),
}

impl Write {
    /// About the bytes that it adds to the database.
    pub(crate) fn bytes(&self) -> u64 {
        const ROW: usize = 1_000;
        let texts = match self {
            Self::Call(_, body) | Self::CallEnd(_, body) => body.bytes(),
            Self::TaskEnd(end) => end.call.body.bytes(),
            Self::Message(_, message) => message.text.len() + message.body.len(),
            Self::Note(_, note) => note.body.len(),
            Self::Session(change) => change.bytes(),
            Self::ClientRoots(list) => client_roots::bytes(list),
            Self::Baselines(seen) => seen.iter().map(|seen| seen.text.len()).sum(),
            _ => 0,
        };
        (texts + ROW) as u64
    }

    /// Drops the body of a call, and says why.
    pub(crate) fn omit_body(&mut self, why: &str) {
        if let Self::Call(_, body) | Self::CallEnd(_, body) = self {
            body.omit(why);
        }
    }
}

/// Writes of one call in a batch.
#[derive(Default)]
pub(crate) struct OfCall<'a> {
    /// Position of the end, else of the last one; it has everything that the earlier ones have except the arguments.
    pub(crate) last: usize,
    pub(crate) has_end: bool,
    pub(crate) arguments: Option<&'a str>,
}

/// The writes of each call of a batch.
pub(crate) fn of_calls<'a>(batch: &[&'a Write]) -> HashMap<Uuid, OfCall<'a>> {
    let mut of_calls: HashMap<Uuid, OfCall<'a>> = HashMap::with_capacity(batch.len());
    for (index, write) in batch.iter().enumerate() {
        if let Write::Call(call, body) | Write::CallEnd(call, body) = write {
            let of_call = of_calls.entry(call.id).or_default();
            if of_call.has_end {
                continue;
            }
            of_call.last = index;
            of_call.has_end = matches!(write, Write::CallEnd(..));
            of_call.arguments = body.arguments.as_deref().or(of_call.arguments);
        }
    }
    of_calls
}

/// Details of the audit event of a call's end.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct EndDetails<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    approved_by: Option<&'a str>,
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    state: &'a str,
    surface: &'a str,
}

/// The audit event of a call that was found open.
pub(crate) fn recovery_event(call: &CallRow) -> AuditEvent {
    let mut details = Vec::new();
    write_details(call, &mut details);
    AuditEvent {
        at: time::now(),
        kind: kind::RECOVERY,
        caller: Some(call.caller.clone()),
        server: call.server.clone(),
        subject: Some(call.tool.as_ref().unwrap_or(&call.name).clone()),
        call: Some(call.id),
        details: String::from_utf8(details).unwrap_or_default(),
    }
}

/// Writes the details of the audit entry of a call's end.
pub(crate) fn write_details(call: &CallRow, out: &mut Vec<u8>) {
    let details = EndDetails {
        approved_by: call.approved_by.as_deref(),
        kind: &call.kind,
        outcome: call.outcome.map(Delivery::as_str),
        rule: call.rule.as_deref(),
        state: call.state.as_str(),
        surface: &call.surface,
    };
    out.clear();
    // Texts and absent members alone, into memory: this cannot fail.
    let _written = serde_json::to_writer(out, &details);
}

/// The audit entry of a call's end, without a copy of its texts.
pub(crate) fn end_contents<'a>(call: &'a CallRow, details: &'a [u8]) -> Contents<'a> {
    Contents {
        at: call.ended_at().unwrap_or(call.started_at),
        kind: kind::CALL,
        caller: Some(&call.caller),
        server: call.server.as_deref(),
        subject: Some(call.tool.as_deref().unwrap_or(&call.name)),
        call: Some(call.id.as_bytes()),
        // JSON is UTF-8.
        details: std::str::from_utf8(details).unwrap_or_default(),
    }
}
