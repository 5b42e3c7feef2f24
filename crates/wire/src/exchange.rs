//! One request on behalf of one caller, and everything that happens until it has exactly one end.
//!
//! ```text
//!             ┌──────────────────────────── Exchange ───────────────────────────┐
//!  request ──►│  Progress* · Log* · ServerRequest ─► Answer · ServerRequest ─► Answer · … · Outcome  │──► one end
//!             └─────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Nothing here knows a revision, a transport or a wire: those are the accents' ([`crate::up`], [`crate::down`]).
//! An [`Exchange`] is the caller's end, a [`Feed`] the answering end. Whoever reaches a server gets an exchange and
//! whoever serves gives one, so that a relay is a function from request to exchange. What lives outside an
//! exchange is in [`crate::notice`]; a task outlives the exchange that made it and is named by its outcome.

mod timer_pool;
mod server_request;
mod cancel_handle;
mod timeouts;
mod core;
mod pending_io;
mod request;

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

pub use server_request::{Answer, ServerRequest, ServerRequestId, Cause, ServerRequestDetails};
pub use cancel_handle::CancelHandle;
pub use timeouts::ExchangeTimeouts;
pub use pending_io::PendingIo;
pub use request::{Handover, LogLevel, Progress, Request};

use self::core::Core;
pub(crate) use self::{
    timer_pool::{PooledTimer, TimerPool},
    pending_io::ReadyFlag,
};
use crate::{
    error::{TimeoutKind, WireError},
    json::Raw,
    message::{ClientCapabilities, RpcError},
    task::Task,
};

/// The caller's end. Dropping it before the end cancels the request, in the way its server asks for.
#[derive(Debug)]
pub struct Exchange {
    source: Source,
    ended: bool,
}

/// Where what happens comes from.
#[derive(Debug)]
enum Source {
    /// The [`Feed`] at the other end.
    Feed { core: Arc<Core>, timer: PooledTimer, pending_io: PendingIo },
    /// Somebody who stands in interceptor.
    Intercepted(Box<dyn ExchangeInterceptor>),
}

/// Somebody interceptor a caller and whoever answers: what happens passes through as it is looked at, so that standing in
/// interceptor takes no task and no queue. Dropped before the end, it cancels.
pub trait ExchangeInterceptor: fmt::Debug + Send {
    /// The next thing that happens; `None` after the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>>;

    /// The outcome is no longer wanted; the end is then [`Outcome::Cancelled`].
    fn cancel(&mut self, reason: &str);

    /// How many progress and log happenings were dropped because nobody took them.
    fn missed(&self) -> u64;
}

/// The answering end: tells, asks, and ends it once.
#[derive(Debug)]
pub struct Feed {
    core: Arc<Core>,
}

/// What happens in an exchange.
#[derive(Debug)]
pub enum ExchangeEvent {
    /// `progress`, `total`, `message` as they came, without a token.
    Progress(Raw),
    /// `level`, `logger`, `data` as they came.
    Log(Raw),
    /// The server wants something of the caller's side.
    ServerRequest(ServerRequest),
    /// It no longer does.
    Withdrawn(ServerRequestId),
    /// The one end.
    Ended(Outcome),
}

/// The one way an exchange ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A result, as it came.
    Answered(Raw),
    /// A JSON-RPC error, as it came.
    Refused(RpcError),
    /// It did not get that far.
    Failed(WireError),
    /// The caller did not want it any more.
    Cancelled,
    /// A clock ran out; the server was told.
    TimedOut {
        /// Which clock.
        kind: TimeoutKind,
        /// What it was set to.
        limit: std::time::Duration,
    },
    /// A task goes on in its place.
    HandedOff(Box<Task>),
}

/// Answers questions on behalf of a caller: a person, a model, a configuration.
pub trait ServerRequestHandler: Send + Sync {
    /// What may be asked. What is not declared here is never put to [`ServerRequestHandler::answer`].
    fn capabilities(&self) -> ClientCapabilities;

    /// Answers one question.
    fn answer(&self, question: ServerRequestDetails) -> BoxFuture<'_, Answer>;

    /// A question came that could be about any of several requests, so nobody was shown it.
    fn ambiguous(&self, _question: &ServerRequestDetails) {}
}

impl Outcome {
    /// Of an exchange whose end somebody else has taken.
    fn over() -> Self {
        Self::Failed(WireError::Ended("the exchange was over".to_owned()))
    }
}

/// Two ends of a new exchange.
pub fn pair(terms: ExchangeTimeouts, unread: usize) -> (Exchange, Feed) {
    pair_with(terms, unread, None)
}

/// As [`pair`], with the timers of a connection.
pub(crate) fn pair_with(terms: ExchangeTimeouts, unread: usize, timers: Option<TimerPool>) -> (Exchange, Feed) {
    let core = Arc::new(Core::new(terms, unread));
    let source = Source::Feed { core: Arc::clone(&core), timer: PooledTimer::new(timers), pending_io: PendingIo::none() };
    (Exchange { source, ended: false }, Feed { core })
}

// === impl Exchange ===

impl Exchange {
    /// An exchange that has ended already.
    pub fn ended(outcome: Outcome) -> Self {
        let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 1);
        feed.end(outcome);
        exchange
    }

    /// An exchange with somebody in interceptor.
    pub fn through(interceptor: impl ExchangeInterceptor + 'static) -> Self {
        Self { source: Source::Intercepted(Box::new(interceptor)), ended: false }
    }

    /// The same; whoever waits for it does this meanwhile.
    pub(crate) fn with_pending_io(mut self, work: PendingIo) -> Self {
        if let Source::Feed { pending_io, .. } = &mut self.source {
            *pending_io = work;
        }
        self
    }

    /// The next thing that happens; `None` after the end.
    pub async fn next(&mut self) -> Option<ExchangeEvent> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`Exchange::next`], by hand.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let happening = match &mut self.source {
            Source::Feed { core, timer, pending_io } => poll_feed(core, timer, pending_io, context),
            Source::Intercepted(interceptor) => interceptor.poll_next(context),
        };
        if let Poll::Ready(happening) = &happening {
            self.ended = matches!(happening, Some(ExchangeEvent::Ended(_)) | None);
        }
        happening
    }

    /// Says that the outcome is no longer wanted; the end is then [`Outcome::Cancelled`].
    pub fn cancel(&mut self, reason: &str) {
        match &mut self.source {
            _ if self.ended => {}
            Source::Feed { core, pending_io, .. } => {
                core.cancel(reason);
                *pending_io = PendingIo::none();
            }
            Source::Intercepted(interceptor) => interceptor.cancel(reason),
        }
    }

    /// The way to end it from elsewhere; nothing comes of that where somebody stands in interceptor.
    pub fn cancel_handle(&self) -> CancelHandle {
        let core = match &self.source {
            Source::Feed { core, .. } => Arc::downgrade(core),
            Source::Intercepted(_) => std::sync::Weak::new(),
        };
        CancelHandle { core }
    }

    /// How many progress and log happenings were dropped because nobody took them.
    pub fn missed(&self) -> u64 {
        match &self.source {
            Source::Feed { core, .. } => core.missed(),
            Source::Intercepted(interceptor) => interceptor.missed(),
        }
    }

    /// Goes through to the end; nobody answers questions and nobody looks at progress.
    pub async fn outcome(mut self) -> Outcome {
        loop {
            match self.next().await {
                Some(ExchangeEvent::Ended(outcome)) => return outcome,
                Some(ExchangeEvent::ServerRequest(ask)) => ask.answer(Answer::Unavailable),
                Some(_) => {}
                None => return Outcome::over(),
            }
        }
    }

    /// Goes through to the end: questions go to `handler`, everything else is shown to `see`.
    pub async fn outcome_with(mut self, handler: Option<&dyn ServerRequestHandler>, mut see: impl FnMut(&ExchangeEvent)) -> Outcome {
        let mut answering = FuturesUnordered::new();
        let mut open: Vec<(ServerRequestId, AbortHandle)> = Vec::new();
        loop {
            let happening = tokio::select! {
                happening = self.next() => happening,
                Some(_) = answering.next(), if !answering.is_empty() => continue,
            };
            match happening {
                Some(ExchangeEvent::Ended(outcome)) => return outcome,
                Some(ExchangeEvent::ServerRequest(ask)) => match handler {
                    Some(handler) => {
                        let (handle, registration) = AbortHandle::new_pair();
                        open.push((ask.details.id, handle));
                        answering.push(Abortable::new(
                            async move {
                                let answer = handler.answer(ask.details.clone()).await;
                                ask.answer(answer);
                            },
                            registration,
                        ));
                    }
                    None => ask.answer(Answer::Unavailable),
                },
                Some(ExchangeEvent::Withdrawn(ask)) => {
                    // Whoever was answering need not go on.
                    open.iter().filter(|(open, _)| *open == ask).for_each(|(_, handle)| handle.abort());
                    see(&ExchangeEvent::Withdrawn(ask));
                }
                Some(other) => see(&other),
                None => return Outcome::over(),
            }
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        match &self.source {
            Source::Feed { core, .. } if !self.ended => core.leave("the caller went away"),
            Source::Feed { .. } | Source::Intercepted(_) => {}
        }
    }
}

/// The next thing that the feed tells, or that a clock has run out.
fn poll_feed(core: &Core, timer: &mut PooledTimer, pending_io: &mut PendingIo, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
    if pending_io.is_open() {
        // What comes of it is seen right below.
        core.clear_caller_waker();
        pending_io.poll(context);
    }
    let (at, clock, limit) = match core.poll(context) {
        Ok(end @ ExchangeEvent::Ended(_)) => return Poll::Ready(Some(end)),
        // Whoever never falls silent must not keep the caller from noticing that time is up.
        Ok(happening) => match core.overdue() {
            Some(limit) => (None, TimeoutKind::Total, limit),
            None => return Poll::Ready(Some(happening)),
        },
        Err(None) => return Poll::Pending,
        Err(Some((at, clock, limit))) => (Some(at), clock, limit),
    };
    if at.is_some_and(|at| timer.poll(at, context).is_pending()) {
        return Poll::Pending;
    }
    *pending_io = PendingIo::none();
    Poll::Ready(Some(time_out(core, clock, limit)))
}

fn time_out(core: &Core, clock: TimeoutKind, limit: std::time::Duration) -> ExchangeEvent {
    core.leave("timed out");
    ExchangeEvent::Ended(Outcome::TimedOut { kind: clock, limit })
}

// === impl Feed ===

impl Feed {
    /// Reports progress: `params` without a token.
    pub fn progress(&self, params: Raw) {
        self.core.push_event(ExchangeEvent::Progress(params));
    }

    /// Reports a log line.
    pub fn log(&self, params: Raw) {
        self.core.push_event(ExchangeEvent::Log(params));
    }

    /// Puts a question to the caller's side; resolves when it is answered or can no longer be.
    pub fn ask(&self, question: ServerRequestDetails) -> impl Future<Output = Answer> + Send + 'static {
        let answer = self.core.ask(question);
        async move { answer.await.unwrap_or_else(|_| Answer::Unavailable) }
    }

    /// Takes a question back.
    pub fn withdraw(&self, ask: ServerRequestId) {
        self.core.close_server_request(ask);
        self.core.push_event(ExchangeEvent::Withdrawn(ask));
    }

    /// Ends the exchange; false when it had ended already.
    pub fn end(&self, outcome: Outcome) -> bool {
        self.core.end(outcome)
    }

    /// Called once when the caller leaves before the end, with the reason.
    pub fn when_cancelled(&self, act: impl FnOnce(&str) + Send + 'static) {
        self.core.when_cancelled(Box::new(act));
    }

    /// Resolves when the caller has left.
    pub async fn cancelled(&self) {
        poll_fn(|context| self.core.poll_left(context)).await;
    }

    /// Whether the caller has left.
    pub fn is_cancelled(&self) -> bool {
        self.core.has_left()
    }

    /// Whether nobody looks any more: the caller's end is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.core.is_gone()
    }

    /// Whether this question waits for an answer.
    pub fn is_open(&self, ask: ServerRequestId) -> bool {
        self.core.is_open(ask)
    }

    /// Questions that wait for an answer.
    pub fn open_server_requests(&self) -> usize {
        self.core.open_server_requests()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if !self.core.is_over() {
            self.core.end(Outcome::Failed(WireError::Ended("the answering side went away".to_owned())));
        }
    }
}

#[cfg(test)]
mod tests;
