//! One request on behalf of one caller, and everything that happens until it has exactly one end.
//!
//! ```text
//!             ┌──────────────────────────── Exchange ───────────────────────────┐
//!  request ──►│  Progress* · Log* · Ask ─► Answer · Ask ─► Answer · … · Outcome  │──► one end
//!             └─────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Nothing here knows a revision, a transport or a wire: those are the accents' ([`crate::up`], [`crate::down`]).
//! An [`Exchange`] is the caller's end, a [`Feed`] the answering end. Whoever reaches a server gets an exchange and
//! whoever serves gives one, so that a relay is a function from request to exchange. What lives outside an
//! exchange is in [`crate::notice`]; a task outlives the exchange that made it and is named by its outcome.

mod alarm;
mod ask;
mod call_off;
mod clock;
mod core;
mod errand;
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

pub use ask::{Answer, Ask, AskId, Cause, Question};
pub use call_off::CallOff;
pub use clock::Terms;
pub use errand::Errand;
pub use request::{Handover, LogLevel, Progress, Request};

use self::core::Core;
pub(crate) use self::{
    alarm::{Alarm, Alarms},
    errand::Bell,
};
use crate::{
    error::{Clock, WireError},
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
    Feed { core: Arc<Core>, alarm: Alarm, errand: Errand },
    /// Somebody who stands in between.
    Between(Box<dyn Between>),
}

/// Somebody between a caller and whoever answers: what happens passes through as it is looked at, so that standing in
/// between takes no task and no queue. Dropped before the end, it cancels.
pub trait Between: fmt::Debug + Send {
    /// The next thing that happens; `None` after the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Happening>>;

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
pub enum Happening {
    /// `progress`, `total`, `message` as they came, without a token.
    Progress(Raw),
    /// `level`, `logger`, `data` as they came.
    Log(Raw),
    /// The server wants something of the caller's side.
    Ask(Ask),
    /// It no longer does.
    Withdrawn(AskId),
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
        clock: Clock,
        /// What it was set to.
        limit: std::time::Duration,
    },
    /// A task goes on in its place.
    HandedOff(Box<Task>),
}

/// Answers questions on behalf of a caller: a person, a model, a configuration.
pub trait AskHandler: Send + Sync {
    /// What may be asked. What is not declared here is never put to [`AskHandler::answer`].
    fn capabilities(&self) -> ClientCapabilities;

    /// Answers one question.
    fn answer(&self, question: Question) -> BoxFuture<'_, Answer>;

    /// A question came that could be about any of several requests, so nobody was shown it.
    fn ambiguous(&self, _question: &Question) {}
}

impl Outcome {
    /// Of an exchange whose end somebody else has taken.
    fn over() -> Self {
        Self::Failed(WireError::Ended("the exchange was over".to_owned()))
    }
}

/// Two ends of a new exchange.
pub fn pair(terms: Terms, unread: usize) -> (Exchange, Feed) {
    pair_with(terms, unread, None)
}

/// As [`pair`], with the alarms of a connection.
pub(crate) fn pair_with(terms: Terms, unread: usize, alarms: Option<Alarms>) -> (Exchange, Feed) {
    let core = Arc::new(Core::new(terms, unread));
    let source = Source::Feed { core: Arc::clone(&core), alarm: Alarm::new(alarms), errand: Errand::none() };
    (Exchange { source, ended: false }, Feed { core })
}

// === impl Exchange ===

impl Exchange {
    /// An exchange that has ended already.
    pub fn ended(outcome: Outcome) -> Self {
        let (exchange, feed) = pair(Terms::unbounded(), 1);
        feed.end(outcome);
        exchange
    }

    /// An exchange with somebody in between.
    pub fn through(between: impl Between + 'static) -> Self {
        Self { source: Source::Between(Box::new(between)), ended: false }
    }

    /// The same; whoever waits for it does this meanwhile.
    pub(crate) fn with_errand(mut self, work: Errand) -> Self {
        if let Source::Feed { errand, .. } = &mut self.source {
            *errand = work;
        }
        self
    }

    /// The next thing that happens; `None` after the end.
    pub async fn next(&mut self) -> Option<Happening> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`Exchange::next`], by hand.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Happening>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let happening = match &mut self.source {
            Source::Feed { core, alarm, errand } => fed(core, alarm, errand, context),
            Source::Between(between) => between.poll_next(context),
        };
        if let Poll::Ready(happening) = &happening {
            self.ended = matches!(happening, Some(Happening::Ended(_)) | None);
        }
        happening
    }

    /// Says that the outcome is no longer wanted; the end is then [`Outcome::Cancelled`].
    pub fn cancel(&mut self, reason: &str) {
        match &mut self.source {
            _ if self.ended => {}
            Source::Feed { core, errand, .. } => {
                core.cancel(reason);
                *errand = Errand::none();
            }
            Source::Between(between) => between.cancel(reason),
        }
    }

    /// The way to end it from elsewhere; nothing comes of that where somebody stands in between.
    pub fn call_off(&self) -> CallOff {
        let core = match &self.source {
            Source::Feed { core, .. } => Arc::downgrade(core),
            Source::Between(_) => std::sync::Weak::new(),
        };
        CallOff { core }
    }

    /// How many progress and log happenings were dropped because nobody took them.
    pub fn missed(&self) -> u64 {
        match &self.source {
            Source::Feed { core, .. } => core.missed(),
            Source::Between(between) => between.missed(),
        }
    }

    /// Goes through to the end; nobody answers questions and nobody looks at progress.
    pub async fn outcome(mut self) -> Outcome {
        loop {
            match self.next().await {
                Some(Happening::Ended(outcome)) => return outcome,
                Some(Happening::Ask(ask)) => ask.answer(Answer::Nobody),
                Some(_) => {}
                None => return Outcome::over(),
            }
        }
    }

    /// Goes through to the end: questions go to `handler`, everything else is shown to `see`.
    pub async fn outcome_with(mut self, handler: Option<&dyn AskHandler>, mut see: impl FnMut(&Happening)) -> Outcome {
        let mut answering = FuturesUnordered::new();
        let mut open: Vec<(AskId, AbortHandle)> = Vec::new();
        loop {
            let happening = tokio::select! {
                happening = self.next() => happening,
                Some(_) = answering.next(), if !answering.is_empty() => continue,
            };
            match happening {
                Some(Happening::Ended(outcome)) => return outcome,
                Some(Happening::Ask(ask)) => match handler {
                    Some(handler) => {
                        let (handle, registration) = AbortHandle::new_pair();
                        open.push((ask.question.id, handle));
                        answering.push(Abortable::new(
                            async move {
                                let answer = handler.answer(ask.question.clone()).await;
                                ask.answer(answer);
                            },
                            registration,
                        ));
                    }
                    None => ask.answer(Answer::Nobody),
                },
                Some(Happening::Withdrawn(ask)) => {
                    // Whoever was answering need not go on.
                    open.iter().filter(|(open, _)| *open == ask).for_each(|(_, handle)| handle.abort());
                    see(&Happening::Withdrawn(ask));
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
            Source::Feed { .. } | Source::Between(_) => {}
        }
    }
}

/// The next thing that the feed tells, or that a clock has run out.
fn fed(core: &Core, alarm: &mut Alarm, errand: &mut Errand, context: &mut Context<'_>) -> Poll<Option<Happening>> {
    if errand.is_open() {
        // What comes of it is seen right below.
        core.is_looking();
        errand.go_on(context);
    }
    let (at, clock, limit) = match core.poll(context) {
        Ok(end @ Happening::Ended(_)) => return Poll::Ready(Some(end)),
        // Whoever never falls silent must not keep the caller from noticing that time is up.
        Ok(happening) => match core.overdue() {
            Some(limit) => (None, Clock::Total, limit),
            None => return Poll::Ready(Some(happening)),
        },
        Err(None) => return Poll::Pending,
        Err(Some((at, clock, limit))) => (Some(at), clock, limit),
    };
    if at.is_some_and(|at| alarm.poll(at, context).is_pending()) {
        return Poll::Pending;
    }
    *errand = Errand::none();
    Poll::Ready(Some(time_out(core, clock, limit)))
}

fn time_out(core: &Core, clock: Clock, limit: std::time::Duration) -> Happening {
    core.leave("timed out");
    Happening::Ended(Outcome::TimedOut { clock, limit })
}

// === impl Feed ===

impl Feed {
    /// Reports progress: `params` without a token.
    pub fn progress(&self, params: Raw) {
        self.core.tell(Happening::Progress(params));
    }

    /// Reports a log line.
    pub fn log(&self, params: Raw) {
        self.core.tell(Happening::Log(params));
    }

    /// Puts a question to the caller's side; resolves when it is answered or can no longer be.
    pub fn ask(&self, question: Question) -> impl Future<Output = Answer> + Send + 'static {
        let answer = self.core.ask(question);
        async move { answer.await.unwrap_or_else(|_| Answer::Nobody) }
    }

    /// Takes a question back.
    pub fn withdraw(&self, ask: AskId) {
        self.core.ask_closed(ask);
        self.core.tell(Happening::Withdrawn(ask));
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
    pub fn is_open(&self, ask: AskId) -> bool {
        self.core.is_open(ask)
    }

    /// Questions that wait for an answer.
    pub fn open_asks(&self) -> usize {
        self.core.open_asks()
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
