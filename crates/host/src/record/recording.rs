//! Sees to it that each call is recorded once, however it ends: also when its caller simply leaves.

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
    event::{CallStage, Events, HostEvent},
    policy::{Permit, Subject},
};

/// What is known of a call so far.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) id: CallId,
    pub(crate) caller: Caller,
    pub(crate) kind: CallKind,
    pub(crate) name: String,
    pub(crate) argument_bytes: usize,
}

/// A call that is being recorded. Dropped before its end, it was cancelled.
pub(crate) struct Recording {
    /// Taken at the end.
    record: Option<CallRecord>,
    began: Instant,
    redactor: Redactor,
    log: Arc<dyn CallLog>,
    events: Events,
}

impl Recording {
    pub(crate) fn begin(draft: Draft, log: Arc<dyn CallLog>, events: Events) -> Self {
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
        recording.tell(|record| CallStage::Started { caller: record.caller.clone(), name: record.name.clone() });
        recording
    }

    /// It was found.
    pub(crate) fn found(&mut self, subject: &Subject) {
        if let Some(record) = &mut self.record {
            record.server = Some(subject.server.clone());
            record.raw_name = Some(shown(subject.kind, subject.raw_name.clone()));
        }
    }

    /// A person is being asked about it.
    pub(crate) fn put_to_a_person(&self) {
        self.tell(|_| CallStage::Approval);
    }

    /// It goes out, to a server whose secrets are known from here on.
    pub(crate) fn sent(&mut self, server: &ServerName, permit: &Permit, redactor: Redactor) {
        let waited = self.began.elapsed();
        if let Some(record) = &mut self.record {
            (record.waited, record.rule) = (waited, Some(permit.rule()));
        }
        self.redactor = redactor;
        self.tell(|_| CallStage::Sent { server: server.clone() });
    }

    /// The server asked something.
    pub(crate) fn asked(&mut self, method: &str) {
        if let Some(record) = &mut self.record {
            record.asks = record.asks.saturating_add(1);
        }
        self.tell(|_| CallStage::Asked { method: method.to_owned() });
    }

    /// The server gave a sign of progress.
    pub(crate) fn progressed(&mut self) {
        if let Some(record) = &mut self.record {
            record.progress = record.progress.saturating_add(1);
        }
    }

    /// Writes it down, the first time.
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
        // A log that panics must not take the caller's answer with it.
        if catch_unwind(AssertUnwindSafe(|| self.log.append(Arc::clone(&record)))).is_err() {
            tracing::error!(call = %record.id, "the call log panicked; this call is not in it");
        }
        self.events.tell(|| HostEvent::Call { id: record.id, stage: CallStage::Ended(Arc::clone(&record)) });
    }

    fn tell(&self, stage: impl FnOnce(&CallRecord) -> CallStage) {
        if let Some(record) = &self.record {
            self.events.tell(|| HostEvent::Call { id: record.id, stage: stage(record) });
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

/// Names are names; people put keys into addresses.
fn shown(kind: CallKind, name: String) -> String {
    match kind {
        CallKind::Resource => redact::uri(&name),
        CallKind::Tool | CallKind::Prompt | CallKind::Method => name,
    }
}
