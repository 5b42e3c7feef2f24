//! The caller's handle of a call: its events until its outcome, and its cancellation.
//!
//! Independent of protocol eras. [`Relay::outcome`] waits for the outcome while the ports of the host answer server
//! requests. [`Relay::next`] yields all events, for surfaces that show progress or answer server requests themselves.
//! Dropping the relay before the end cancels the call, which is recorded. Answers of ours to its server are in
//! `own_answers`, what becomes of a call that continues as a task is in `continued`.

mod continued;
mod own_answers;
mod required_urls;

use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{
    StreamExt,
    future::{AbortHandle, Abortable, BoxFuture},
    stream::FuturesUnordered,
};
use toolway_config::ServerName;
use toolway_wire::{
    error::WireError,
    exchange::{Answer, ExchangeEvent, Outcome, ServerRequestId},
    json::Raw,
    message::RpcError,
};

use self::{
    continued::HostedRow,
    own_answers::{OwnAnswer, answer},
    required_urls::OpeningUrls,
};
use super::{
    CallError, CallId, CallKind, CallOutcome, CallRequest, TaskHandling,
    client_approval::OpenCall,
    deadline::{CallClock, Deadline},
    open_calls::CancelSwitch,
    pipeline::{self, Preparing},
    resource_cache::ResourceCache,
};
use crate::{
    connection::InFlightCall,
    host::Inner,
    inbox::opened_urls::OpenedUrls,
    policy::{LimitReached, Surface},
    record::{Delivery, EndRecord, PersonWait, Recording, redact::Redactor},
    task::{TaskStatus, TrackedTask},
    validation::{Noted, ToolCheck},
};

/// Time to tell a server that its call is cancelled.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(500);

/// Whether the server requires a sign-in or more scopes.
fn is_sign_in_required(outcome: &Outcome) -> bool {
    let Outcome::Failed(WireError::Unauthorized { status, challenges, .. }) = outcome else { return false };
    status.as_u16() == 401 || challenges.iter().any(|challenge| challenge.contains("insufficient_scope"))
}

/// A call in progress.
#[must_use]
pub struct Relay {
    id: CallId,
    stage: RelayStage,
    host: Arc<Inner>,
    request: Arc<OpenCall>,
    /// The call was sent once and did not reach the server.
    retried: bool,
    /// A byte of that attempt may have been written.
    was_written: bool,
    /// Server to which it was sent last.
    server: Option<ServerName>,
    person_wait: PersonWait,
    /// Set at the end.
    delivery: Option<Delivery>,
    /// Set by an operator who cancels the call.
    cancel_switch: Arc<CancelSwitch>,
    /// The task that the call waits for.
    task: Option<TrackedTask>,
    /// Resolves when the row of the task that the call is for its caller is written.
    task_written: Option<BoxFuture<'static, ()>>,
    /// Answers of ours to requests that the client of the call does not get.
    own_answers: Vec<OwnAnswer>,
    /// URLs that were accepted in this call.
    urls: Arc<OpenedUrls>,
    /// How often it was sent again after its URLs were opened.
    url_rounds: usize,
    clock: CallClock,
    /// Of the call in flight; `None` if it has none.
    deadline: Option<Deadline>,
}

/// Event of a call: the events of its exchange, with the outcome of the call.
pub type CallEvent = ExchangeEvent<CallOutcome>;

enum RelayStage {
    /// Running the stages up to sending.
    Preparing(Preparing),
    /// Sent to the server.
    InFlight(Box<InFlightCall>, Box<Recording>),
    /// Refused until the user has opened URLs.
    OpeningUrls(Box<OpeningUrls>),
    /// Ended; the outcome is returned when its record is durable.
    Recording(BoxFuture<'static, EndRecord>, Option<CallOutcome>),
    /// Cancelled before it was sent; the outcome was not returned yet.
    Cancelled,
    Ended,
}

impl Relay {
    pub(super) fn new(host: Arc<Inner>, request: CallRequest, id: CallId, recording: Box<Recording>) -> Self {
        let request = Arc::new(OpenCall::new(request));
        let person_wait = recording.person_wait().clone();
        let clock = CallClock::of(&recording);
        let hosted = HostedRow::begin(&host, &request, &recording);
        let stage = RelayStage::Preparing(pipeline::prepare(Arc::clone(&host), Arc::clone(&request), None, recording));
        let cancel_switch = host.open_calls.add(id);
        Self {
            id,
            stage,
            host,
            request,
            retried: false,
            was_written: false,
            server: None,
            person_wait,
            delivery: None,
            cancel_switch,
            task: hosted.tracked,
            task_written: hosted.written,
            own_answers: Vec::new(),
            urls: Arc::default(),
            url_rounds: 0,
            clock,
            deadline: None,
        }
    }

    /// Id of the call in events and records.
    pub fn id(&self) -> CallId {
        self.id
    }

    /// Resolves when the row of a call that is a task for its caller ([`TaskHandling::Hosted`]) is written.
    pub fn task_written(&mut self) -> BoxFuture<'static, ()> {
        self.task_written.take().unwrap_or_else(|| Box::pin(std::future::ready(())))
    }

    /// How long the call has waited for a person; stays readable after the end.
    pub fn person_wait(&self) -> &PersonWait {
        &self.person_wait
    }

    /// Whether the call was sent and answered; `None` before the end.
    pub fn delivery(&self) -> Option<Delivery> {
        self.delivery
    }

    /// Server to which the call was sent; `None` before that.
    pub fn server(&self) -> Option<&ServerName> {
        self.server.as_ref()
    }

    /// Waits for the next event; `None` after the end.
    pub async fn next(&mut self) -> Option<CallEvent> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Polls for the next event, like [`Relay::next`].
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<CallEvent>> {
        if let Some(reason) = self.cancel_switch.take(context) {
            if let RelayStage::InFlight(_, recording) = &mut self.stage {
                recording.set_cancellation(&reason);
            }
            self.cancel(&reason);
        }
        self.own_answers.retain_mut(|answer| answer.making.as_mut().poll(context).is_pending());
        loop {
            match &mut self.stage {
                RelayStage::Preparing(work) => match work.as_mut().poll(context) {
                    Poll::Pending => match self.request.take_event() {
                        Some(event) => return Poll::Ready(Some(event)),
                        None => return Poll::Pending,
                    },
                    Poll::Ready((recording, Ok(sent))) => {
                        self.server = Some(sent.connection.name().clone());
                        if let (Some(task), Some(record)) = (&mut self.task, recording.record()) {
                            task.sent(sent.connection.name(), record, sent.redactor.clone());
                        }
                        self.deadline = self.clock.deadline(&self.request);
                        self.stage = RelayStage::InFlight(sent, recording);
                        if let Some(question) = self.request.withdraw_question() {
                            return Poll::Ready(Some(ExchangeEvent::Withdrawn(question)));
                        }
                    }
                    Poll::Ready((recording, Err(outcome))) => {
                        // A result of the cache is withheld like any other.
                        let outcome = self.bounded(outcome);
                        self.end(recording, outcome);
                    }
                },
                RelayStage::InFlight(sent, recording) => {
                    if let Some(Poll::Ready(timed_out)) = self.deadline.as_mut().map(|one| one.poll(context)) {
                        self.time_out(timed_out);
                        continue;
                    }
                    let Poll::Ready(event) = sent.exchange.poll_next(context) else { return Poll::Pending };
                    match event.unwrap_or_else(already_ended) {
                        ExchangeEvent::Ended(outcome) => {
                            self.finish(outcome);
                        }
                        ExchangeEvent::ServerRequest(request) => {
                            let answered = self.host.roots_answered(&self.request, sent.connection.name(), request);
                            let Some(request) = answered else {
                                recording.count_server_request("roots/list");
                                continue;
                            };
                            match sent.park(&self.host.slots, &self.request.caller) {
                                Ok(()) => {
                                    recording.count_server_request(&request.details.method);
                                    let request = recording.observe_answer(request);
                                    self.task.iter_mut().for_each(|task| task.set_status(TaskStatus::InputRequired));
                                    if !self.is_answered_here(&request) {
                                        return Poll::Ready(Some(ExchangeEvent::ServerRequest(request)));
                                    }
                                    self.answer_here(request, context);
                                }
                                Err(full) => {
                                    let error = RpcError::new(RpcError::INTERNAL, &full.to_string());
                                    request.answer(Answer::Refused(error));
                                }
                            }
                        }
                        ExchangeEvent::Withdrawn(id) if self.own_answers.iter().any(|own| own.request == id) => {
                            self.own_answers.retain(|own| own.request != id);
                        }
                        event => {
                            if let ExchangeEvent::Progress(params) = &event {
                                recording.count_progress();
                                self.task.iter_mut().for_each(|task| task.progress(params));
                            }
                            self.task.iter_mut().for_each(|task| task.set_status(TaskStatus::Working));
                            return Poll::Ready(Some(event.map_outcome(CallOutcome::from)));
                        }
                    }
                }
                RelayStage::OpeningUrls(opening) => {
                    let Poll::Ready(end) = opening.work.as_mut().poll(context) else { return Poll::Pending };
                    self.continue_after_urls(end);
                }
                RelayStage::Recording(written, outcome) => {
                    let Poll::Ready(record) = written.as_mut().poll(context) else { return Poll::Pending };
                    let mut outcome = outcome.take();
                    self.stage = RelayStage::Ended;
                    if record == EndRecord::Missing {
                        outcome = Some(CallOutcome::Failed(CallError::Unrecorded));
                        self.delivery = Some(Delivery::Unknown);
                    }
                    return Poll::Ready(outcome.map(CallEvent::Ended));
                }
                RelayStage::Cancelled => {
                    self.stage = RelayStage::Ended;
                    return Poll::Ready(Some(CallEvent::Ended(CallOutcome::Cancelled)));
                }
                RelayStage::Ended => return Poll::Ready(None),
            }
        }
    }

    /// Number of progress and log events that were dropped because the relay was not polled.
    pub fn missed(&self) -> u64 {
        match &self.stage {
            RelayStage::InFlight(sent, _) => sent.exchange.missed(),
            RelayStage::Preparing(_)
            | RelayStage::OpeningUrls(_)
            | RelayStage::Recording(..)
            | RelayStage::Cancelled
            | RelayStage::Ended => 0,
        }
    }

    /// Cancels the call. Its outcome is then [`CallOutcome::Cancelled`].
    pub fn cancel(&mut self, reason: &str) {
        match &mut self.stage {
            // Nothing was sent. Dropping the recording records the cancellation.
            RelayStage::Preparing(_) => {
                self.stage = RelayStage::Cancelled;
                // What is sent again may have been written before.
                self.delivery = Some(if self.was_written { Delivery::Unknown } else { Delivery::NotSent });
            }
            RelayStage::InFlight(sent, _) => sent.exchange.cancel(reason),
            RelayStage::OpeningUrls(_) => {
                if let RelayStage::OpeningUrls(opening) = std::mem::replace(&mut self.stage, RelayStage::Ended) {
                    self.end(opening.recording, CallOutcome::Cancelled);
                }
            }
            RelayStage::Recording(..) | RelayStage::Cancelled | RelayStage::Ended => {}
        }
    }

    /// Waits for the outcome. The ports of the host answer server requests.
    pub async fn outcome(mut self) -> CallOutcome {
        self.end_with(|_| {}).await
    }

    /// Waits for the outcome like [`Relay::outcome`], and passes all other events to `see`. Then the relay knows whether the
    /// call was sent.
    pub async fn end_with(&mut self, mut see: impl FnMut(&CallEvent)) -> CallOutcome {
        self.drive(&mut see).await
    }

    /// Waits for the outcome like [`Relay::end_with`], unless `stop` resolves first: then the call is cancelled for
    /// its reason, and the rest of what `stop` resolved to is returned.
    pub async fn outcome_until<S>(
        &mut self,
        mut see: impl FnMut(&CallEvent),
        stop: impl Future<Output = (&'static str, S)>,
    ) -> Result<CallOutcome, S> {
        let (reason, stopped) = tokio::select! {
            outcome = self.drive(&mut see) => return Ok(outcome),
            stopped = stop => stopped,
        };
        self.cancel(reason);
        let _late = tokio::time::timeout(CANCEL_TIMEOUT, self.drive(&mut |_| {})).await;
        Err(stopped)
    }

    async fn drive(&mut self, see: &mut impl FnMut(&CallEvent)) -> CallOutcome {
        let mut answering = FuturesUnordered::new();
        let mut open: Vec<(ServerRequestId, AbortHandle)> = Vec::new();
        loop {
            let event = tokio::select! {
                event = self.next() => event,
                Some(_) = answering.next(), if !answering.is_empty() => continue,
            };
            match event {
                Some(CallEvent::Ended(outcome)) => return outcome,
                Some(CallEvent::ServerRequest(request)) => {
                    let (handle, registration) = AbortHandle::new_pair();
                    open.push((request.details.id, handle));
                    answering.push(Abortable::new(answer(self.client_features(), request), registration));
                }
                Some(CallEvent::Withdrawn(id)) => {
                    // The answer is no longer needed.
                    open.iter().filter(|(open, _)| *open == id).for_each(|(_, handle)| handle.abort());
                    see(&CallEvent::Withdrawn(id));
                }
                Some(other) => see(&other),
                None => return CallOutcome::Cancelled,
            }
        }
    }

    /// Ends the call at its deadline. Dropping the exchange cancels it at the server.
    fn time_out(&mut self, timed_out: CallOutcome) {
        self.deadline = None;
        if let RelayStage::InFlight(sent, recording) = std::mem::replace(&mut self.stage, RelayStage::Ended) {
            if sent.may_write {
                self.host.resource_cache.forget_server(sent.connection.name());
            }
            drop(sent);
            self.end(recording, timed_out);
        }
    }

    /// The outcome of a call whose result may be withheld.
    fn bounded(&self, outcome: CallOutcome) -> CallOutcome {
        let reached = outcome.result().and_then(|result| self.exceeded(result));
        reached.map_or(outcome, |reached| CallOutcome::Failed(CallError::Limit(Box::new(reached))))
    }

    /// The limit that withholds a result.
    fn exceeded(&self, result: &Raw) -> Option<LimitReached> {
        self.request.bounds()?.exceeded_by(result)
    }

    /// Ends the call, or sends it once more if it did not reach the server.
    fn finish(&mut self, outcome: Outcome) {
        let RelayStage::InFlight(mut sent, mut recording) = std::mem::replace(&mut self.stage, RelayStage::Ended)
        else {
            return;
        };
        if let Outcome::Failed(error) = &outcome
            && is_suspicious(error)
        {
            sent.suspect(error);
        }
        // The call did not reach the server, which may be restarting.
        let is_lost = |error| sent.was_not_received(error, || recording.may_be_written());
        if matches!(&outcome, Outcome::Failed(error) if is_lost(error)) && !self.retried {
            (self.retried, self.was_written) = (true, recording.may_be_written());
            let previous = sent.into_permit().into_grant();
            let (host, request) = (Arc::clone(&self.host), Arc::clone(&self.request));
            self.stage = RelayStage::Preparing(pipeline::prepare(host, request, Some(previous), recording));
            return;
        }
        if let (Outcome::Cancelled, Some(preempted)) = (&outcome, preempted(&sent)) {
            self.end(recording, preempted);
            return;
        }
        sent.learn_asking_by_result(&outcome);
        sent.check_session();
        if let Outcome::Refused(refusal) = &outcome
            && let Some(urls) = sent.required_urls(refusal)
        {
            if self.opens_urls() {
                return self.open_urls(urls, *sent, recording, refusal.clone());
            }
            recording.mark_key_unused();
        }
        if let Outcome::HandedOff(task) = &outcome {
            sent.keep_task(task, &self.request.caller);
            if matches!(self.request.task, TaskHandling::Background | TaskHandling::HandOver) {
                return self.hand_over(&sent, recording, task);
            }
            if self.request.target.kind() == CallKind::Tool {
                match &mut self.task {
                    Some(hosted) => hosted.continue_as(task, sent.keeps_tasks()),
                    None => self.task = self.track(&sent, &recording, task).map(|(tracked, _written)| tracked),
                }
                sent.exchange = self.follow(&sent, task);
                // What fails from here on failed in the task; the call itself was received.
                self.retried = true;
                self.stage = RelayStage::InFlight(sent, recording);
                return;
            }
        }
        let is_withheld = matches!(&outcome, Outcome::Answered(result) if self.exceeded(result).is_some());
        if !is_withheld {
            ResourceCache::keep(&self.host, &self.request, &sent, &outcome);
        }
        if sent.may_write {
            self.host.resource_cache.forget_server(sent.connection.name());
        }
        let needed = is_sign_in_required(&outcome).then(|| sent.sign_in_required(&self.request.caller)).flatten();
        let outcome = self.bounded(needed.map_or_else(|| outcome.into(), CallOutcome::Failed));
        let check = sent.check.take();
        let redactor = sent.redactor.clone();
        drop(sent);
        self.end(recording, outcome);
        if let Some(check) = check {
            self.validate(check, redactor);
        }
    }

    /// Checks what was not checked before the call was sent. A person at the surface waits for it, to be shown the report;
    /// clients of a gateway do not.
    fn validate(&mut self, check: ToolCheck, redactor: Redactor) {
        let RelayStage::Recording(written, Some(outcome)) = &mut self.stage else { return };
        let result = outcome.result().filter(|_| check.output.is_some() && !outcome.is_tool_error());
        let structured = result.and_then(|result| result.get("structuredContent"));
        let recorder = self.host.context.ports.recorder.clone();
        let noted = Noted { call: self.id, caller: self.request.caller.label(), recorder, redactor };
        let validation = Arc::clone(&self.host.validation);
        if matches!(self.request.surface, Surface::Gateway | Surface::Library) {
            return validation.later(check, structured, noted);
        }
        let before = std::mem::replace(written, Box::pin(std::future::ready(EndRecord::Kept)));
        *written = Box::pin(async move {
            let record = before.await;
            validation.after(check, structured, noted).await;
            record
        });
    }

    fn end(&mut self, mut recording: Box<Recording>, outcome: CallOutcome) {
        let kept = || Box::pin(std::future::ready(EndRecord::Kept)) as BoxFuture<'static, EndRecord>;
        let mut written = recording.end(&outcome).unwrap_or_else(kept);
        self.delivery = recording.delivery();
        if let Some(mut task) = self.task.take() {
            let ended = task.end(&outcome);
            task.announce_end(&outcome);
            let before = std::mem::replace(&mut written, kept());
            written = Box::pin(async move {
                let record = before.await;
                ended.await;
                record
            });
        }
        self.stage = RelayStage::Recording(written, Some(outcome));
    }
}

/// The end of an exchange whose outcome was already read.
fn already_ended() -> ExchangeEvent {
    ExchangeEvent::Ended(Outcome::Failed(WireError::Ended("the exchange had already ended".to_owned())))
}

/// Returns the outcome of a call that was preempted by another one.
fn preempted(sent: &InFlightCall) -> Option<CallOutcome> {
    let (server, waited) = (sent.connection.name().clone(), sent.preempted_after()?);
    Some(CallOutcome::Failed(CallError::Preempted { server, waited }))
}

impl Drop for Relay {
    /// Records a preempted call as such, also if its relay is dropped before it was polled again. A task that the call
    /// waited for is cancelled with it.
    fn drop(&mut self) {
        self.host.open_calls.remove(self.id);
        if let Some(mut task) = self.task.take() {
            drop(task.end(&CallOutcome::Cancelled));
            task.announce_end(&CallOutcome::Cancelled);
        }
        if let RelayStage::InFlight(sent, recording) = &mut self.stage
            && let Some(preempted) = preempted(sent)
        {
            drop(recording.end(&preempted));
        }
    }
}

/// Whether an error suggests that the peer is gone or has changed, so that it should be dialled again. A 403 response
/// concerns one request and says nothing about the connection.
fn is_suspicious(error: &WireError) -> bool {
    match error {
        WireError::Unreachable { .. } | WireError::NoCommonRevision { .. } => true,
        WireError::Unauthorized { status, .. } => status.as_u16() == 401,
        WireError::Status { status, .. } => matches!(status.as_u16(), 404 | 405 | 410),
        _ => false,
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("id", &self.id).finish_non_exhaustive()
    }
}
