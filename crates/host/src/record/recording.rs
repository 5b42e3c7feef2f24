//! Ensures that each call is recorded exactly once, also if its caller drops it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::SystemTime,
};

use futures_util::{future::BoxFuture, poll};
use serde_json::json;
use tokio::time::Instant;
use toolway_config::{Bodies, ServerName};
use toolway_wire::{
    exchange::{Answer, ServerRequest, WriteMark},
    json::Raw,
    seal,
};

use super::{
    AuditNote, CallBody, CallLog, CallRecord, CallRecorder, CallState, Delivery, Observation, OpenState, PersonWait,
    RecordsError, Requirement, kind,
    pending_write::PendingWrites,
    person_wait::Waiting,
    redact::{self, Redactor},
};
use crate::{
    call::{CallId, CallKind, CallOutcome, Caller},
    catalog::PublicName,
    event::{CallStage, CallStageEvent, EventSender},
    policy::{Grant, Permit, Refusal, RuleId, Subject, Surface, limit::taken::CountedUse},
};

/// Bytes of a name in a record; the digest tells longer ones apart.
const MAX_NAME: usize = 2_048;

/// Properties of a call that are known at its start.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) id: CallId,
    pub(crate) caller: Caller,
    pub(crate) surface: Surface,
    pub(crate) conversation: Option<Arc<str>>,
    pub(crate) kind: CallKind,
    pub(crate) name: String,
    pub(crate) arguments: RecordedArguments,
    pub(crate) argument_bytes: usize,
}

/// The arguments of a call until they are written.
#[derive(Debug, Default)]
pub(crate) enum RecordedArguments {
    #[default]
    Nothing,
    /// The value itself.
    Whole(Raw),
    /// A member of these params, looked for when it is needed: most calls are composed before, which finds it.
    In(Raw),
}

/// Where records go.
#[derive(Clone)]
pub(crate) struct RecordPorts {
    pub(crate) log: Arc<dyn CallLog>,
    pub(crate) recorder: Option<Arc<dyn CallRecorder>>,
    pub(crate) observation: Option<Observation>,
    pub(crate) bodies: Bodies,
    pub(crate) events: EventSender,
    /// Calls that have no complete durable record.
    pub(crate) unrecorded: Arc<AtomicU64>,
}

/// The recording of one call. If it is dropped before the end, the call is recorded as cancelled.
pub(crate) struct Recording {
    /// `None` after the end.
    record: Option<CallRecord>,
    began: Instant,
    person_wait: PersonWait,
    redactor: Redactor,
    /// Kept until they are written.
    arguments: RecordedArguments,
    ports: RecordPorts,
    pending_writes: PendingWrites,
    /// Whether it counts as unrecorded already.
    counted: bool,
    /// What was handed to a transport.
    written: Written,
    /// Whether it holds its idempotency key.
    is_key_claimed: bool,
    /// Whether it leaves the key to its repetition.
    is_key_unused: bool,
    /// Why an operator has cancelled the call.
    cancellation: Option<String>,
    /// What it has taken of limits. Given back if it ends without having been sent.
    limit_use: Option<CountedUse>,
    /// Set at the end.
    delivery: Option<Delivery>,
}

/// Whether the answer of a call may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndRecord {
    /// It is recorded, or need not be.
    Kept,
    /// The record says that the outcome is unknown, or will say so.
    Missing,
}

/// Whether a byte of the request may have been written.
enum Written {
    Nothing,
    /// The mark of the attempt that is in flight says it.
    Marked(WriteMark),
    /// It may, by an earlier attempt or by a request that has no mark.
    Perhaps,
}

/// Logs the details of a failure that a client is not shown, under the id that it is shown.
fn log_withheld(record: &CallRecord, outcome: &CallOutcome) {
    let Caller::Client(client) = &record.caller else { return };
    if outcome.for_client().is_some_and(|shown| shown.class().is_some()) {
        let (server, error) = (record.server.as_ref().map(ServerName::as_str), record.message.as_deref());
        tracing::warn!(call_id = %record.id, caller = %client, server, error, "a call of a client failed");
    }
}

impl Recording {
    pub(crate) fn begin(draft: Draft, ports: RecordPorts) -> Self {
        let Draft { id, caller, surface, conversation, kind, name, arguments, argument_bytes } = draft;
        let record = CallRecord {
            id,
            caller,
            surface,
            conversation,
            kind,
            name: shown(kind, name),
            server: None,
            raw_name: None,
            tool: None,
            started_at: SystemTime::now(),
            sent_after: std::time::Duration::ZERO,
            prepared: None,
            waited: std::time::Duration::ZERO,
            took: std::time::Duration::ZERO,
            state: CallState::Pending,
            outcome: None,
            idempotent: false,
            from_cache: false,
            message: None,
            code: None,
            rule: None,
            approved_by: None,
            argument_bytes,
            result_bytes: 0,
            server_requests: 0,
            progress: 0,
        };
        let recording = Self {
            record: Some(record),
            began: Instant::now(),
            person_wait: PersonWait::default(),
            redactor: Redactor::default(),
            arguments,
            ports,
            pending_writes: PendingWrites::default(),
            counted: false,
            written: Written::Nothing,
            is_key_claimed: false,
            is_key_unused: false,
            cancellation: None,
            limit_use: None,
            delivery: None,
        };
        if let (Some(observation), Some(record)) = (&recording.ports.observation, &recording.record) {
            observation.begin(record, recording.arguments.value().as_ref());
        }
        recording.send_stage(|record| CallStage::Started { caller: record.caller.clone(), name: record.name.clone() });
        recording
    }

    /// Stores the item that was found.
    pub(crate) fn set_subject(&mut self, subject: &Subject, tool: Option<&PublicName>) {
        if let Some(record) = &mut self.record {
            record.tool = tool.map(ToString::to_string);
            record.server = Some(subject.server.clone());
            record.raw_name = Some(shown(subject.kind, subject.raw_name.clone()));
        }
    }

    /// Stores whether a second call of the item would do no harm.
    pub(crate) fn set_idempotent(&mut self, idempotent: bool) {
        if let Some(record) = &mut self.record {
            record.idempotent = idempotent;
        }
    }

    /// Stores the arguments that were found, unless they are written already.
    pub(crate) fn set_arguments(&mut self, found: Option<&Raw>) {
        if matches!(self.arguments, RecordedArguments::In(_)) {
            self.arguments = found.cloned().map_or(RecordedArguments::Nothing, RecordedArguments::Whole);
        }
    }

    /// The call as far as it is known; `None` after the end.
    pub(crate) fn record(&self) -> Option<&CallRecord> {
        self.record.as_ref()
    }

    /// Leaves the record open: another process will end it.
    pub(crate) fn leave_open(&mut self) {
        self.keep_limit_use();
        self.record = None;
    }

    /// A result as it is kept.
    pub(crate) fn kept(bodies: Bodies, redactor: &Redactor, result: &Raw) -> Option<String> {
        body(bodies, redactor, result)
    }

    /// Id of the call; `None` after the end.
    pub(crate) fn id(&self) -> Option<CallId> {
        self.record.as_ref().map(|record| record.id)
    }

    /// Whether the call was sent and answered; `None` before the end.
    pub(crate) fn delivery(&self) -> Option<Delivery> {
        self.delivery
    }

    /// How long the call has waited for a person, also after its end.
    pub(crate) fn person_wait(&self) -> &PersonWait {
        &self.person_wait
    }

    /// Waits for a stage before the call is sent. A call that really waits is written as pending, so that it is listed
    /// meanwhile; most do not, and are first written when they are sent or have ended.
    pub(crate) async fn while_pending<T>(&self, stage: impl Future<Output = T>) -> T {
        let mut stage = pin!(stage);
        match poll!(stage.as_mut()) {
            Poll::Ready(done) => done,
            Poll::Pending => {
                self.ensure_pending_written();
                stage.await
            }
        }
    }

    /// Writes that the call has begun, unless that is written.
    pub(crate) fn ensure_pending_written(&self) {
        if !self.pending_writes.is_begun() {
            self.write_pending();
        }
    }

    /// The call holds its idempotency key.
    pub(crate) fn mark_key_claimed(&mut self) {
        self.is_key_claimed = true;
    }

    /// Whether the call holds its idempotency key.
    pub(crate) fn is_key_claimed(&self) -> bool {
        self.is_key_claimed
    }

    /// The server asks for the call to be repeated: its end frees the idempotency key.
    pub(crate) fn mark_key_unused(&mut self) {
        self.is_key_unused = true;
    }

    /// Keeps what the call has taken of limits until it is known whether it was sent.
    pub(crate) fn count(&mut self, used: CountedUse) {
        self.limit_use = Some(used);
    }

    /// Whether the call has taken of limits.
    pub(crate) fn is_counted(&self) -> bool {
        self.limit_use.is_some()
    }

    fn keep_limit_use(&mut self) {
        if let Some(used) = self.limit_use.take() {
            used.keep();
        }
    }

    /// When the call began.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Not awaited: the write before sending, or the one at the end, waits for both.
    fn write_pending(&self) {
        if let (Some(recorder), Some(record)) = (&self.ports.recorder, &self.record) {
            self.pending_writes.note(recorder.write(record, OpenState::Pending, CallBody::default()));
        }
    }

    /// Records and reports that the call waits for an approval, until the result is dropped.
    pub(crate) fn mark_approval_requested(&self) -> Waiting {
        // Again, if the first write came before the server was known.
        self.write_pending();
        self.send_stage(|_| CallStage::Approval);
        self.person_wait.begin()
    }

    /// Writes an audit note about this call.
    pub(crate) fn note(&self, kind: &'static str, details: serde_json::Value) {
        if let (Some(recorder), Some(record)) = (&self.ports.recorder, &self.record) {
            recorder.note(note_of(record, kind, details));
        }
    }

    /// A server request whose answer is noted in the audit log, also if it is given outside the host. A person is waited
    /// for until then.
    pub(crate) fn observe_answer(&self, request: ServerRequest) -> ServerRequest {
        let method = request.details.method.clone();
        let waiting = (method == "elicitation/create").then(|| self.person_wait.begin());
        let noted = self.ports.recorder.clone().zip(self.record.as_ref()).map(|(recorder, record)| {
            let note = note_of(record, kind::SERVER_REQUEST, serde_json::Value::Null);
            move |answer: &Answer| {
                let details = json!({ "method": method, "answer": answer_word(answer) });
                recorder.note(AuditNote { details, ..note });
            }
        });
        if waiting.is_none() && noted.is_none() {
            return request;
        }
        request.observed(Box::new(move |answer| {
            drop(waiting);
            if let Some(note) = noted {
                note(answer);
            }
        }))
    }

    /// Records that the call is about to be sent, and waits until that is written. A call that must be recorded and
    /// cannot be is refused.
    pub(crate) async fn mark_running(&mut self, permit: &Permit, redactor: Redactor) -> Result<(), Refusal> {
        let (Some(recorder), Some(record)) = (&self.ports.recorder, &mut self.record) else { return Ok(()) };
        (record.rule, record.approved_by) = (Some(permit.rule().clone()), permit.approved_by().cloned());
        let arguments = self.arguments.take().and_then(|arguments| body(self.ports.bodies, &redactor, &arguments));
        let written = recorder.write(record, OpenState::Running, CallBody { arguments, result: None }).await;
        // Its record says that it is not sent, or will say so when another process closes it: then it may be repeated.
        let says_not_sent = match &written {
            Err(RecordsError::NotOwned(_)) => true,
            Err(_) => self.pending_writes.is_committed().await,
            Ok(()) => false,
        };
        match (written, recorder.requirement()) {
            (Err(error), _) if says_not_sent => Err(Refusal::NotRecorded(error.to_string())),
            (Err(error), Requirement::Required) => Err(Refusal::NotRecorded(error.to_string())),
            (Err(error), Requirement::BestEffort) => {
                tracing::warn!(call_id = %record.id, %error, "the call is sent without a record");
                self.count_unrecorded();
                Ok(())
            }
            (Ok(()), _) => Ok(()),
        }
    }

    /// Reports that the call is sent. `mark` says whether it really is; `None`: it counts as sent. From here on the secrets
    /// of the server are redacted.
    pub(crate) fn mark_sent(
        &mut self,
        server: &ServerName,
        permit: &Permit,
        redactor: Redactor,
        mark: Option<WriteMark>,
    ) {
        // An earlier attempt may have been written.
        let was_written = self.may_be_written();
        self.written = mark.filter(|_| !was_written).map_or(Written::Perhaps, Written::Marked);
        let sent_after = self.began.elapsed();
        if let Some(record) = &mut self.record {
            record.sent_after = sent_after;
            record.prepared = Some(sent_after.saturating_sub(self.person_wait.total()));
            (record.rule, record.approved_by) = (Some(permit.rule().clone()), permit.approved_by().cloned());
        }
        self.redactor = redactor;
        self.send_stage(|_| CallStage::Sent { server: server.clone() });
    }

    /// Records that an earlier result answers the call. It is redacted as its server's results are.
    pub(crate) fn mark_from_cache(&mut self, grant: &Grant, redactor: Redactor) {
        if let Some(record) = &mut self.record {
            record.from_cache = true;
            (record.rule, record.approved_by) = (Some(grant.rule().clone()), grant.approved_by().cloned());
        }
        self.redactor = redactor;
    }

    /// The request counts as written from here on.
    pub(crate) fn assume_written(&mut self) {
        self.written = Written::Perhaps;
    }

    /// Whether a byte of the request may have been written. If not, none will be by the attempt that is in flight.
    pub(crate) fn may_be_written(&self) -> bool {
        match &self.written {
            Written::Nothing => false,
            Written::Marked(mark) => !mark.seal(),
            Written::Perhaps => true,
        }
    }

    /// Counts this call, once, as one without a complete record.
    fn count_unrecorded(&mut self) {
        if !std::mem::replace(&mut self.counted, true) {
            self.ports.unrecorded.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts and reports a server request.
    pub(crate) fn count_server_request(&mut self, method: &str) {
        if let Some(record) = &mut self.record {
            record.server_requests = record.server_requests.saturating_add(1);
        }
        self.send_stage(|_| CallStage::Asked { method: method.to_owned() });
    }

    /// An operator, who did not make the call, cancels it: the record says so. Calls of the console are made by the user who
    /// cancels them there.
    pub(crate) fn set_cancellation(&mut self, reason: &str) {
        let is_own = self.record.as_ref().is_some_and(|record| record.surface == Surface::Console);
        if !is_own {
            self.cancellation = Some(reason.to_owned());
        }
    }

    /// Counts a progress notification.
    pub(crate) fn count_progress(&mut self) {
        if let Some(record) = &mut self.record {
            record.progress = record.progress.saturating_add(1);
        }
    }

    /// Writes the record. Further calls have no effect. The future resolves when the record is durable; dropping it does
    /// not lose the record.
    pub(crate) fn end(&mut self, outcome: &CallOutcome) -> Option<BoxFuture<'static, EndRecord>> {
        let mut record = self.record.take()?;
        record.took = self.began.elapsed();
        record.waited = self.person_wait.total().min(record.took);
        if let CallOutcome::Refused(Refusal::Denied { rule, .. } | Refusal::ApproverUnavailable { rule, .. }) = outcome
        {
            record.rule = Some(rule.clone());
        }
        if matches!(outcome, CallOutcome::Refused(Refusal::Hidden { .. })) {
            record.rule = Some(RuleId::Drift);
        }
        if let CallOutcome::Refused(Refusal::Declined { by, .. }) = outcome {
            record.approved_by = Some(Arc::clone(by));
        }
        if record.sent_after.is_zero() {
            record.sent_after = record.took;
        }
        record.state = outcome.state();
        if let CallOutcome::Refused(refusal) = outcome {
            record.code = Some(refusal.code());
        }
        let delivery = Delivery::of(outcome, || self.may_be_written());
        (record.outcome, self.delivery) = (Some(delivery), Some(delivery));
        if delivery == Delivery::NotSent || record.from_cache {
            self.limit_use = None;
        } else {
            self.keep_limit_use();
        }
        record.message = outcome.message().map(|message| self.redactor.text(message.as_str()));
        if matches!(outcome, CallOutcome::Cancelled) {
            record.message = self.cancellation.take();
        }
        log_withheld(&record, outcome);
        record.result_bytes = outcome.result().map_or(0, |result| result.as_bytes().len());
        let record = Arc::new(record);
        // A panic of the log must not lose the result of the call.
        if catch_unwind(AssertUnwindSafe(|| self.ports.log.append(Arc::clone(&record)))).is_err() {
            tracing::error!(call_id = %record.id, caller = %record.caller, "the call log panicked; this call is not recorded");
        }
        if let Some(observation) = &self.ports.observation {
            observation.end(&record, outcome.result(), &self.redactor);
        }
        if self.is_key_claimed
            && (self.is_key_unused || outcome.is_refused_credential())
            && let Some(recorder) = &self.ports.recorder
        {
            recorder.release_key(record.id);
        }
        let written = self.ports.recorder.as_ref().map(|recorder| {
            let kept = |raw: &Raw| body(self.ports.bodies, &self.redactor, raw);
            let arguments = self.arguments.take().and_then(|arguments| kept(&arguments));
            let body = CallBody { arguments, result: outcome.result().and_then(kept) };
            let written = recorder.end(&record, body);
            let id = record.id;
            let is_required = recorder.requirement() == Requirement::Required;
            let unrecorded = (!self.counted).then(|| Arc::clone(&self.ports.unrecorded));
            let logged = async move {
                let Err(error) = written.await else { return EndRecord::Kept };
                if let Some(unrecorded) = unrecorded {
                    unrecorded.fetch_add(1, Ordering::Relaxed);
                }
                tracing::error!(call_id = %id, %error, "the end of the call is not recorded");
                let is_missing = is_required || matches!(error, RecordsError::NotOwned(_));
                if is_missing && delivery == Delivery::Answered { EndRecord::Missing } else { EndRecord::Kept }
            };
            Box::pin(logged) as BoxFuture<'static, EndRecord>
        });
        self.ports.events.send_call(|| CallStageEvent::Stage { id: record.id, stage: CallStage::Ended, record });
        written
    }

    fn send_stage(&self, stage: impl FnOnce(&CallRecord) -> CallStage) {
        if let Some(record) = &self.record {
            self.ports.events.send_call(|| CallStageEvent::Stage {
                id: record.id,
                stage: stage(record),
                record: Arc::new(record.clone()),
            });
        }
    }
}

impl RecordedArguments {
    fn take(&mut self) -> Option<Raw> {
        let arguments = self.value();
        *self = Self::Nothing;
        arguments
    }

    fn value(&self) -> Option<Raw> {
        match self {
            Self::Nothing => None,
            Self::Whole(arguments) => Some(arguments.clone()),
            Self::In(params) => params.get("arguments"),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // The record is submitted; its commit is not awaited.
        drop(self.end(&CallOutcome::Cancelled));
    }
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("record", &self.record).finish_non_exhaustive()
    }
}

fn note_of(record: &CallRecord, kind: &'static str, details: serde_json::Value) -> AuditNote {
    let (caller, server) = (Some(record.caller.label()), record.server.clone());
    let subject = Some(record.tool.clone().unwrap_or_else(|| record.name.clone()));
    AuditNote { kind, caller, server, subject, call: Some(record.id), details }
}

/// How a server request was answered, in a word.
fn answer_word(answer: &Answer) -> &'static str {
    match answer {
        Answer::Given(given) => match given.get("action").as_ref().and_then(Raw::as_str).as_deref() {
            Some("accept") => "accepted",
            Some("decline") => "declined",
            Some("cancel") => "cancelled",
            _ => "answered",
        },
        Answer::Refused(_) => "refused",
        Answer::Unavailable => "unavailable",
    }
}

/// A body as it is kept.
fn body(bodies: Bodies, redactor: &Redactor, raw: &Raw) -> Option<String> {
    match bodies {
        Bodies::Full => Some(raw.text().into_owned()),
        Bodies::Redacted => Some(redactor.body(&raw.text())),
        Bodies::None => None,
    }
}

/// A name as it is recorded. URIs are redacted: they can contain credentials. A client chooses the name of what it calls, also of
/// what does not exist, and a record is kept.
fn shown(kind: CallKind, name: String) -> String {
    let name = match kind {
        CallKind::Resource => redact::uri(&name),
        CallKind::Tool | CallKind::Prompt | CallKind::Method => name,
    };
    if name.len() <= MAX_NAME {
        return name;
    }
    let beginning = &name[..name.floor_char_boundary(MAX_NAME)];
    format!("{beginning}… ({} bytes, SHA-256 {})", name.len(), seal::fingerprint([name.as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::{CallKind, MAX_NAME, shown};

    #[test]
    fn a_name_of_any_length_takes_a_bounded_part_of_a_record_and_stays_another_one() {
        let kinds = [CallKind::Tool, CallKind::Prompt, CallKind::Resource, CallKind::Method];
        let long = |end: &str| format!("x://host/{}{end}", "ä".repeat(2 * 1024 * 1024));
        for kind in kinds {
            let names = [shown(kind, long("a")), shown(kind, long("b")), shown(kind, "no uri ".repeat(1_000_000))];
            assert!(names.iter().all(|name| name.len() < MAX_NAME + 128), "{kind:?}");
            assert!(names[0] != names[1] && names[0].starts_with("x://host/"), "{kind:?}");
        }
        assert_eq!(shown(CallKind::Tool, "x".repeat(MAX_NAME)), "x".repeat(MAX_NAME));
        assert_eq!(shown(CallKind::Tool, "files__read".to_owned()), "files__read");
    }
}
