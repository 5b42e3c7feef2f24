//! Ensures that each call is recorded exactly once, also if its caller drops it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::SystemTime,
};

use tokio::time::Instant;
use toolway_config::ServerName;

use super::{
    CallLog, CallRecord,
    redact::{self, Redactor},
};
use crate::{
    call::{CallId, CallKind, CallOutcome, Caller},
    event::{CallStage, EventSender, HostEvent},
    policy::{Permit, Subject},
};

/// Properties of a call that are known at its start.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) id: CallId,
    pub(crate) caller: Caller,
    pub(crate) kind: CallKind,
    pub(crate) name: String,
    pub(crate) argument_bytes: usize,
}

/// The recording of one call. If it is dropped before the end, the call is recorded as cancelled.
pub(crate) struct Recording {
    /// `None` after the end.
    record: Option<CallRecord>,
    began: Instant,
    redactor: Redactor,
    log: Arc<dyn CallLog>,
    events: EventSender,
}

impl Recording {
    pub(crate) fn begin(draft: Draft, log: Arc<dyn CallLog>, events: EventSender) -> Self {
        let Draft { id, caller, kind, name, argument_bytes } = draft;
        let record = CallRecord {
            id,
            caller,
            kind,
            name: shown(kind, name),
            server: None,
            raw_name: None,
            started_at: SystemTime::now(),
            waited: std::time::Duration::ZERO,
            took: std::time::Duration::ZERO,
            ending: super::Ending::Cancelled,
            tool_error: false,
            message: None,
            rule: None,
            argument_bytes,
            result_bytes: 0,
            asks: 0,
            progress: 0,
        };
        let recording =
            Self { record: Some(record), began: Instant::now(), redactor: Redactor::default(), log, events };
        recording.send_stage(|record| CallStage::Started { caller: record.caller.clone(), name: record.name.clone() });
        recording
    }

    /// Stores the item that was found.
    pub(crate) fn set_subject(&mut self, subject: &Subject) {
        if let Some(record) = &mut self.record {
            record.server = Some(subject.server.clone());
            record.raw_name = Some(shown(subject.kind, subject.raw_name.clone()));
        }
    }

    /// Reports that the call waits for an approval.
    pub(crate) fn mark_approval_requested(&self) {
        self.send_stage(|_| CallStage::Approval);
    }

    /// Reports that the call is sent. From here on the secrets of the server are redacted.
    pub(crate) fn mark_sent(&mut self, server: &ServerName, permit: &Permit, redactor: Redactor) {
        let waited = self.began.elapsed();
        if let Some(record) = &mut self.record {
            (record.waited, record.rule) = (waited, Some(permit.rule()));
        }
        self.redactor = redactor;
        self.send_stage(|_| CallStage::Sent { server: server.clone() });
    }

    /// Counts and reports a server request.
    pub(crate) fn count_server_request(&mut self, method: &str) {
        if let Some(record) = &mut self.record {
            record.asks = record.asks.saturating_add(1);
        }
        self.send_stage(|_| CallStage::Asked { method: method.to_owned() });
    }

    /// Counts a progress notification.
    pub(crate) fn count_progress(&mut self) {
        if let Some(record) = &mut self.record {
            record.progress = record.progress.saturating_add(1);
        }
    }

    /// Writes the record. Further calls have no effect.
    pub(crate) fn end(&mut self, outcome: &CallOutcome) {
        let Some(mut record) = self.record.take() else { return };
        record.took = self.began.elapsed();
        if record.rule.is_none() {
            record.waited = record.took;
        }
        record.ending = outcome.ending();
        record.tool_error = outcome.is_tool_error();
        record.message = outcome.message().map(|message| self.redactor.text(&message));
        record.result_bytes = outcome.result().map_or(0, |result| result.as_bytes().len());
        let record = Arc::new(record);
        // A panic of the log must not lose the result of the call.
        if catch_unwind(AssertUnwindSafe(|| self.log.append(Arc::clone(&record)))).is_err() {
            tracing::error!(call = %record.id, "the call log panicked; this call is not recorded");
        }
        self.events.send(|| HostEvent::Call { id: record.id, stage: CallStage::Ended(Arc::clone(&record)) });
    }

    fn send_stage(&self, stage: impl FnOnce(&CallRecord) -> CallStage) {
        if let Some(record) = &self.record {
            self.events.send(|| HostEvent::Call { id: record.id, stage: stage(record) });
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end(&CallOutcome::Cancelled);
    }
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("record", &self.record).finish_non_exhaustive()
    }
}

/// Redacts URIs, which can contain credentials.
fn shown(kind: CallKind, name: String) -> String {
    match kind {
        CallKind::Resource => redact::uri(&name),
        CallKind::Tool | CallKind::Prompt | CallKind::Method => name,
    }
}
