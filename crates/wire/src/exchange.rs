//! One request of one caller and its events, up to exactly one outcome.
//!
//! ```text
//!             ┌────────────────────── Exchange ──────────────────────┐
//!  request ──►│  Progress* · Log* · ServerRequest ─► Answer · …       │──► Outcome
//!             └──────────────────────────────────────────────────────┘
//! ```
//!
//! This module is independent of revision and transport, which the accents handle ([`crate::up`], [`crate::down`]).
//! An [`Exchange`] is the caller's end, a [`Feed`] the answering end. A request to a server returns an exchange and a
//! service returns one too, so that a relay is a function from request to exchange. Notifications outside an exchange
//! are in [`crate::notice`]; a task outlives the exchange that created it and is named by its outcome.

mod cancel_handle;
mod core;
mod pending_io;
mod request;
mod server_request;
mod timeouts;
mod timer_pool;
mod write_mark;

use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{
    StreamExt,
    future::{AbortHandle, Abortable, BoxFuture},
    stream::FuturesUnordered,
};

pub use cancel_handle::CancelHandle;
pub use pending_io::PendingIo;
pub use request::{Handover, LogLevel, Progress, Request};
pub use server_request::{Answer, Cause, RequiredUrl, ServerRequest, ServerRequestDetails, ServerRequestId};
pub use timeouts::ExchangeTimeouts;
pub use write_mark::{WriteMark, WriteStart};

use self::core::Core;
pub(crate) use self::{
    pending_io::ReadyFlag,
    timer_pool::{PooledTimer, TimerPool},
};
use crate::{
    budget::MemoryBudget,
    error::{TimeoutKind, WireError},
    json::Raw,
    message::{ClientCapabilities, RpcError},
    task::Task,
};

/// The caller's end. Dropping it before the outcome cancels the request, as the server's revision and transport require.
#[derive(Debug)]
pub struct Exchange {
    source: EventSource,
    ended: bool,
}

/// Source of the events.
#[derive(Debug)]
enum EventSource {
    /// The [`Feed`] at the other end.
    Feed { core: Arc<Core>, timer: PooledTimer, pending_io: PendingIo },
    /// An interceptor that forwards the events of another exchange.
    Intercepted(Box<dyn ExchangeInterceptor>),
}

/// Forwards, and may change, the events between caller and answering side. Events pass through when the caller polls,
/// so an interceptor needs no task and no queue. Dropping it before the outcome cancels.
pub trait ExchangeInterceptor: fmt::Debug + Send {
    /// Polls for the next event; `None` after the outcome.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>>;

    /// Cancels the request; the outcome is then [`Outcome::Cancelled`].
    fn cancel(&mut self, reason: &str);

    /// Number of progress and log events dropped because the caller did not read them in time.
    fn missed(&self) -> u64;
}

/// The answering end: reports events, sends server requests, and ends the exchange once. Dropping it before the
/// outcome ends the exchange with a failure.
#[derive(Debug)]
pub struct Feed {
    core: Arc<Core>,
}

/// Event of an exchange. `O` is the type of its outcome: [`Outcome`], or that of a layer above the wire.
#[derive(Debug)]
pub enum ExchangeEvent<O = Outcome> {
    /// `progress`, `total`, `message` as received, without the progress token.
    Progress(Raw),
    /// `level`, `logger`, `data` as received.
    Log(Raw),
    /// The server requests something of the client: elicitation, sampling or roots.
    ServerRequest(ServerRequest),
    /// The server cancelled this request.
    Withdrawn(ServerRequestId),
    /// The outcome; no event follows.
    Ended(O),
}

/// How an exchange ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A result, as received.
    Answered(Raw),
    /// A JSON-RPC error, as received.
    Refused(RpcError),
    /// No response was received.
    Failed(WireError),
    /// The caller cancelled it.
    Cancelled,
    /// A timeout expired; the request was cancelled at the server.
    TimedOut {
        /// The timeout that expired.
        kind: TimeoutKind,
        /// Its configured duration.
        limit: std::time::Duration,
    },
    /// The server answered with a task that continues the work.
    HandedOff(Box<Task>),
}

/// Answers server requests on behalf of a caller: by a user, a model or configuration.
pub trait ServerRequestHandler: Send + Sync {
    /// Supported capabilities. Requests outside them are never passed to [`ServerRequestHandler::answer`].
    fn capabilities(&self) -> ClientCapabilities;

    /// Answers one server request.
    fn answer(&self, request: ServerRequestDetails) -> BoxFuture<'_, Answer>;

    /// Called for a server request that could belong to any of several client requests and was therefore refused.
    fn ambiguous(&self, _request: &ServerRequestDetails) {}
}

impl<O> ExchangeEvent<O> {
    /// Converts the outcome; leaves all other events unchanged.
    pub fn map_outcome<P>(self, convert: impl FnOnce(O) -> P) -> ExchangeEvent<P> {
        match self {
            Self::Progress(params) => ExchangeEvent::Progress(params),
            Self::Log(params) => ExchangeEvent::Log(params),
            Self::ServerRequest(request) => ExchangeEvent::ServerRequest(request),
            Self::Withdrawn(id) => ExchangeEvent::Withdrawn(id),
            Self::Ended(outcome) => ExchangeEvent::Ended(convert(outcome)),
        }
    }
}

impl ExchangeEvent {
    /// Bytes of its content.
    fn size(&self) -> usize {
        match self {
            Self::Progress(params) | Self::Log(params) => params.as_bytes().len(),
            Self::ServerRequest(_) | Self::Withdrawn(_) => 0,
            Self::Ended(outcome) => outcome.size(),
        }
    }

    /// Whether it may be dropped while it is unread.
    fn is_droppable(&self) -> bool {
        matches!(self, Self::Progress(_) | Self::Log(_))
    }
}

impl Outcome {
    /// Bytes of its content.
    fn size(&self) -> usize {
        match self {
            Self::Answered(result) => result.as_bytes().len(),
            Self::Refused(error) => error.raw().as_bytes().len(),
            Self::Failed(_) | Self::Cancelled | Self::TimedOut { .. } | Self::HandedOff(_) => 0,
        }
    }

    /// Outcome of an exchange whose end was already read.
    fn already_ended() -> Self {
        Self::Failed(WireError::Ended("the exchange had already ended".to_owned()))
    }
}

/// Creates the two ends of a new exchange; `unread` bounds the queue of unread events.
pub fn pair(timeouts: ExchangeTimeouts, unread: usize) -> (Exchange, Feed) {
    pair_with(timeouts, unread, None, MemoryBudget::default())
}

/// As [`pair`], with timers from the pool of a connection. Unread events and the outcome are charged to `memory`.
pub(crate) fn pair_with(
    timeouts: ExchangeTimeouts,
    unread: usize,
    timers: Option<TimerPool>,
    memory: MemoryBudget,
) -> (Exchange, Feed) {
    let core = Arc::new(Core::new(timeouts, unread, memory));
    let source =
        EventSource::Feed { core: Arc::clone(&core), timer: PooledTimer::new(timers), pending_io: PendingIo::none() };
    (Exchange { source, ended: false }, Feed { core })
}

// === impl Exchange ===

impl Exchange {
    /// Creates an exchange that has already ended.
    pub fn ended(outcome: Outcome) -> Self {
        let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 1);
        feed.end(outcome);
        exchange
    }

    /// Creates an exchange whose events come from an interceptor.
    pub fn through(interceptor: impl ExchangeInterceptor + 'static) -> Self {
        Self { source: EventSource::Intercepted(Box::new(interceptor)), ended: false }
    }

    /// Attaches I/O that is polled together with this exchange.
    pub(crate) fn with_pending_io(mut self, work: PendingIo) -> Self {
        if let EventSource::Feed { pending_io, .. } = &mut self.source {
            *pending_io = work;
        }
        self
    }

    /// Returns the next event; `None` after the outcome.
    pub async fn next(&mut self) -> Option<ExchangeEvent> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Poll version of [`Exchange::next`].
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let event = match &mut self.source {
            EventSource::Feed { core, timer, pending_io } => poll_feed(core, timer, pending_io, context),
            EventSource::Intercepted(interceptor) => interceptor.poll_next(context),
        };
        if let Poll::Ready(event) = &event {
            self.ended = matches!(event, Some(ExchangeEvent::Ended(_)) | None);
        }
        event
    }

    /// Cancels the request; the outcome is then [`Outcome::Cancelled`].
    pub fn cancel(&mut self, reason: &str) {
        match &mut self.source {
            _ if self.ended => {}
            EventSource::Feed { core, pending_io, .. } => {
                core.cancel(reason);
                *pending_io = PendingIo::none();
            }
            EventSource::Intercepted(interceptor) => interceptor.cancel(reason),
        }
    }

    /// Returns a handle that can cancel this exchange from elsewhere. For an intercepted exchange the handle does nothing.
    pub fn cancel_handle(&self) -> CancelHandle {
        let core = match &self.source {
            EventSource::Feed { core, .. } => Arc::downgrade(core),
            EventSource::Intercepted(_) => std::sync::Weak::new(),
        };
        CancelHandle { core }
    }

    /// Whether its request was written; `None` if that is not known, as for an intercepted exchange.
    pub fn write_mark(&self) -> Option<WriteMark> {
        match &self.source {
            EventSource::Feed { core, .. } => Some(WriteMark { core: Arc::clone(core) }),
            EventSource::Intercepted(_) => None,
        }
    }

    /// Number of progress and log events dropped because the caller did not read them in time.
    pub fn missed(&self) -> u64 {
        match &self.source {
            EventSource::Feed { core, .. } => core.missed(),
            EventSource::Intercepted(interceptor) => interceptor.missed(),
        }
    }

    /// Waits for the outcome; ignores progress and answers server requests with [`Answer::Unavailable`].
    pub async fn outcome(mut self) -> Outcome {
        loop {
            match self.next().await {
                Some(ExchangeEvent::Ended(outcome)) => return outcome,
                Some(ExchangeEvent::ServerRequest(request)) => request.answer(Answer::Unavailable),
                Some(_) => {}
                None => return Outcome::already_ended(),
            }
        }
    }

    /// Waits for the outcome; passes server requests to `handler` and all other events to `see`.
    pub async fn outcome_with(
        mut self,
        handler: Option<&dyn ServerRequestHandler>,
        mut see: impl FnMut(&ExchangeEvent),
    ) -> Outcome {
        let mut answering = FuturesUnordered::new();
        let mut open: Vec<(ServerRequestId, AbortHandle)> = Vec::new();
        loop {
            let event = tokio::select! {
                event = self.next() => event,
                Some(_) = answering.next(), if !answering.is_empty() => continue,
            };
            match event {
                Some(ExchangeEvent::Ended(outcome)) => return outcome,
                Some(ExchangeEvent::ServerRequest(request)) => match handler {
                    Some(handler) => {
                        let (handle, registration) = AbortHandle::new_pair();
                        open.push((request.details.id, handle));
                        answering.push(Abortable::new(
                            async move {
                                let answer = handler.answer(request.details.clone()).await;
                                request.answer(answer);
                            },
                            registration,
                        ));
                    }
                    None => request.answer(Answer::Unavailable),
                },
                Some(ExchangeEvent::Withdrawn(id)) => {
                    open.iter().filter(|(open, _)| *open == id).for_each(|(_, handle)| handle.abort());
                    see(&ExchangeEvent::Withdrawn(id));
                }
                Some(other) => see(&other),
                None => return Outcome::already_ended(),
            }
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        match &self.source {
            EventSource::Feed { core, .. } if !self.ended => core.leave("the caller disconnected"),
            EventSource::Feed { .. } | EventSource::Intercepted(_) => {}
        }
    }
}

/// Polls for the next event of the feed, or a timeout.
fn poll_feed(
    core: &Core,
    timer: &mut PooledTimer,
    pending_io: &mut PendingIo,
    context: &mut Context<'_>,
) -> Poll<Option<ExchangeEvent>> {
    if pending_io.is_pending() {
        // Events caused by this I/O are read right below, so the caller need not be woken for them.
        core.clear_caller_waker();
        pending_io.poll(context);
    }
    let (at, kind, limit) = match core.poll(context) {
        Ok(end @ ExchangeEvent::Ended(_)) => return Poll::Ready(Some(end)),
        // A server that sends events without pause must not keep the total timeout from being noticed.
        Ok(event) => match core.overdue() {
            Some(limit) => (None, TimeoutKind::Total, limit),
            None => return Poll::Ready(Some(event)),
        },
        Err(None) => return Poll::Pending,
        Err(Some((at, kind, limit))) => (Some(at), kind, limit),
    };
    if at.is_some_and(|at| timer.poll(at, context).is_pending()) {
        return Poll::Pending;
    }
    *pending_io = PendingIo::none();
    Poll::Ready(Some(time_out(core, kind, limit)))
}

fn time_out(core: &Core, kind: TimeoutKind, limit: std::time::Duration) -> ExchangeEvent {
    core.leave("timed out");
    ExchangeEvent::Ended(Outcome::TimedOut { kind, limit })
}

// === impl Feed ===

impl Feed {
    /// Reports progress; `params` without the progress token.
    pub fn progress(&self, params: Raw) {
        self.core.push_event(ExchangeEvent::Progress(params));
    }

    /// Reports a log message.
    pub fn log(&self, params: Raw) {
        self.core.push_event(ExchangeEvent::Log(params));
    }

    /// Sends a server request to the caller; resolves when it is answered or can no longer be answered.
    pub fn ask(&self, request: ServerRequestDetails) -> impl Future<Output = Answer> + Send + 'static {
        let answer = self.core.ask(request);
        async move { answer.await.unwrap_or_else(|_| Answer::Unavailable) }
    }

    /// Cancels a server request.
    pub fn withdraw(&self, id: ServerRequestId) {
        self.core.close_server_request(id);
        self.core.push_event(ExchangeEvent::Withdrawn(id));
    }

    /// Ends the exchange; returns false if it had already ended.
    pub fn end(&self, outcome: Outcome) -> bool {
        self.core.end(outcome)
    }

    /// The mark that the transport of its request sets.
    pub fn write_mark(&self) -> WriteMark {
        WriteMark { core: Arc::clone(&self.core) }
    }

    /// Registers `act`, called once with the reason if the caller cancels before the outcome.
    pub fn when_cancelled(&self, act: impl FnOnce(&str) + Send + 'static) {
        self.core.when_cancelled(Box::new(act));
    }

    /// Resolves when the caller has cancelled.
    pub async fn cancelled(&self) {
        poll_fn(|context| self.core.poll_left(context)).await;
    }

    /// Whether the caller has cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.core.has_left()
    }

    /// Whether the exchange has ended or was cancelled.
    pub(crate) fn is_over(&self) -> bool {
        self.core.is_over()
    }

    /// Whether the caller's end was dropped.
    pub(crate) fn is_gone(&self) -> bool {
        self.core.is_gone()
    }

    /// Whether this server request waits for an answer.
    pub fn is_open(&self, id: ServerRequestId) -> bool {
        self.core.is_open(id)
    }

    /// Number of server requests that wait for an answer.
    pub fn open_server_requests(&self) -> usize {
        self.core.open_server_requests()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if !self.core.is_over() {
            self.core.end(Outcome::Failed(WireError::Ended("the handler ended without a result".to_owned())));
        }
    }
}

#[cfg(test)]
mod tests;
