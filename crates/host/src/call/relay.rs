//! A call as its caller holds it: everything that happens until its one end, and the way to call it off.
//!
//! Nothing here knows an era. Whoever only wants the end takes [`Relay::outcome`]: questions of the server then go to
//! the host's ports. Whoever shows progress or answers questions itself takes [`Relay::next`]. Dropped before the end,
//! it is cancelled, and recorded as such.

use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{
    StreamExt,
    future::{AbortHandle, Abortable},
    stream::FuturesUnordered,
};
use toolway_config::ServerName;
use toolway_wire::{
    error::WireError,
    exchange::{Answer, Ask, AskHandler, AskId, Happening, Outcome},
    json::Raw,
    message::RpcError,
};

use super::{
    CallError, CallId, CallOutcome, CallRequest,
    way::{self, Earlier, Preparing},
};
use crate::{
    connection::{Sent, client_face::ClientFace},
    host::Inner,
    record::Recording,
};

/// Whether the server would do it for somebody who has signed in, or has agreed to more.
fn wants_sign_in(outcome: &Outcome) -> bool {
    let Outcome::Failed(WireError::Unauthorized { status, challenges }) = outcome else { return false };
    status.as_u16() == 401 || challenges.iter().any(|challenge| challenge.contains("insufficient_scope"))
}

/// A call under way.
#[must_use]
pub struct Relay {
    id: CallId,
    stage: Stage,
    host: Arc<Inner>,
    request: Arc<CallRequest>,
    /// It was sent once to somebody who was not there.
    retried: bool,
    /// Whom it was sent to last.
    server: Option<ServerName>,
}

/// What happens in a call.
#[derive(Debug)]
pub enum CallHappening {
    /// `progress`, `total`, `message` as they came.
    Progress(Raw),
    /// `level`, `logger`, `data` as they came.
    Log(Raw),
    /// The server wants something of the caller's side. Dropped unanswered, nobody answers it.
    Ask(Ask),
    /// It no longer does.
    Withdrawn(AskId),
    /// The one end.
    Ended(CallOutcome),
}

enum Stage {
    /// Being found, decided, admitted, sent.
    Preparing(Preparing),
    /// The server has it.
    Under(Box<Sent>, Box<Recording>),
    /// Called off before it was sent; its end was not taken yet.
    CalledOff,
    Ended,
}

impl Relay {
    pub(super) fn new(host: Arc<Inner>, request: CallRequest, id: CallId, recording: Box<Recording>) -> Self {
        let request = Arc::new(request);
        let stage = Stage::Preparing(way::prepare(Arc::clone(&host), Arc::clone(&request), None, recording));
        Self { id, stage, host, request, retried: false, server: None }
    }

    /// Its number, as events and records have it.
    pub fn id(&self) -> CallId {
        self.id
    }

    /// The server it was sent to, once it was.
    pub fn server(&self) -> Option<&ServerName> {
        self.server.as_ref()
    }

    /// The next thing that happens; `None` after the end.
    pub async fn next(&mut self) -> Option<CallHappening> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`Relay::next`], by hand.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<CallHappening>> {
        loop {
            match &mut self.stage {
                Stage::Preparing(work) => match work.as_mut().poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready((recording, Ok(sent))) => {
                        self.server = Some(sent.connection.name().clone());
                        self.stage = Stage::Under(sent, recording);
                    }
                    Poll::Ready((recording, Err(outcome))) => return self.end(recording, outcome),
                },
                Stage::Under(sent, recording) => {
                    let happening = match sent.exchange.poll_next(context) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(happening) => happening,
                    };
                    let over =
                        || Happening::Ended(Outcome::Failed(WireError::Ended("the exchange was over".to_owned())));
                    match happening.unwrap_or_else(over) {
                        Happening::Progress(params) => {
                            recording.progressed();
                            return Poll::Ready(Some(CallHappening::Progress(params)));
                        }
                        Happening::Log(params) => return Poll::Ready(Some(CallHappening::Log(params))),
                        Happening::Ask(ask) => match sent.park(&self.host.slots, &self.request.caller) {
                            Ok(()) => {
                                recording.asked(&ask.question.method);
                                return Poll::Ready(Some(CallHappening::Ask(ask)));
                            }
                            Err(full) => {
                                ask.answer(Answer::Refused(RpcError::new(RpcError::INTERNAL, &full.to_string())))
                            }
                        },
                        Happening::Withdrawn(ask) => return Poll::Ready(Some(CallHappening::Withdrawn(ask))),
                        Happening::Ended(outcome) => {
                            if let Some(ended) = self.answered(outcome) {
                                return ended;
                            }
                        }
                    }
                }
                Stage::CalledOff => {
                    self.stage = Stage::Ended;
                    return Poll::Ready(Some(CallHappening::Ended(CallOutcome::Cancelled)));
                }
                Stage::Ended => return Poll::Ready(None),
            }
        }
    }

    /// How many progress and log happenings were dropped because nobody took them.
    pub fn missed(&self) -> u64 {
        match &self.stage {
            Stage::Under(sent, _) => sent.exchange.missed(),
            Stage::Preparing(_) | Stage::CalledOff | Stage::Ended => 0,
        }
    }

    /// Says that the outcome is no longer wanted; the end is then [`CallOutcome::Cancelled`].
    pub fn cancel(&mut self, reason: &str) {
        match &mut self.stage {
            // Nothing was sent; letting go of it records it.
            Stage::Preparing(_) => self.stage = Stage::CalledOff,
            Stage::Under(sent, _) => sent.exchange.cancel(reason),
            Stage::CalledOff | Stage::Ended => {}
        }
    }

    /// Goes through to the end; questions go to the host's ports.
    pub async fn outcome(self) -> CallOutcome {
        self.outcome_with(|_| {}).await
    }

    /// The same; what happens on the way is shown to `see`.
    pub async fn outcome_with(mut self, mut see: impl FnMut(&CallHappening)) -> CallOutcome {
        let mut answering = FuturesUnordered::new();
        let mut open: Vec<(AskId, AbortHandle)> = Vec::new();
        loop {
            let happening = tokio::select! {
                happening = self.next() => happening,
                Some(_) = answering.next(), if !answering.is_empty() => continue,
            };
            match happening {
                Some(CallHappening::Ended(outcome)) => return outcome,
                Some(CallHappening::Ask(ask)) => {
                    let (handle, registration) = AbortHandle::new_pair();
                    open.push((ask.question.id, handle));
                    answering.push(Abortable::new(answer(self.face(), ask), registration));
                }
                Some(CallHappening::Withdrawn(ask)) => {
                    // Whoever was answering need not go on.
                    open.iter().filter(|(open, _)| *open == ask).for_each(|(_, handle)| handle.abort());
                    see(&CallHappening::Withdrawn(ask));
                }
                Some(other) => see(&other),
                None => return CallOutcome::Cancelled,
            }
        }
    }

    /// Whoever answers for the host, towards the server that has the call.
    fn face(&self) -> Option<ClientFace> {
        match &self.stage {
            Stage::Under(sent, _) => Some(self.host.room.face(sent.connection.name())),
            Stage::Preparing(_) | Stage::CalledOff | Stage::Ended => None,
        }
    }

    /// The server is done with it; none where it never had it and is given it once more.
    fn answered(&mut self, outcome: Outcome) -> Option<Poll<Option<CallHappening>>> {
        let Stage::Under(sent, recording) = std::mem::replace(&mut self.stage, Stage::Ended) else { return None };
        if let Outcome::Failed(error) = &outcome
            && makes_suspect(error)
        {
            sent.suspect(error);
        }
        // Nobody was there to take it: the server may be back in a moment.
        if matches!(&outcome, Outcome::Failed(error) if sent.reached_nobody(error)) && !self.retried {
            self.retried = true;
            let earlier = Earlier { fingerprint: sent.fingerprint, grant: sent.into_permit().into_grant() };
            let (host, request) = (Arc::clone(&self.host), Arc::clone(&self.request));
            self.stage = Stage::Preparing(way::prepare(host, request, Some(earlier), recording));
            return None;
        }
        if let (Outcome::Cancelled, Some(gave_way)) = (&outcome, gave_way(&sent)) {
            return Some(self.end(recording, gave_way));
        }
        sent.look_at_session();
        if let Outcome::HandedOff(task) = &outcome {
            sent.handed_off(task, &self.request.caller);
        }
        let needed = wants_sign_in(&outcome).then(|| sent.sign_in_needed(&self.request.caller)).flatten();
        let outcome = needed.map_or_else(|| outcome.into(), CallOutcome::Failed);
        Some(self.end(recording, outcome))
    }

    fn end(&mut self, mut recording: Box<Recording>, outcome: CallOutcome) -> Poll<Option<CallHappening>> {
        self.stage = Stage::Ended;
        recording.end(&outcome);
        Poll::Ready(Some(CallHappening::Ended(outcome)))
    }
}

/// The end of a call that gave way to another; none where it did not.
fn gave_way(sent: &Sent) -> Option<CallOutcome> {
    let (server, waited) = (sent.connection.name().clone(), sent.gave_way()?);
    Some(CallOutcome::Failed(CallError::GaveWay { server, waited }))
}

impl Drop for Relay {
    /// What gave way is recorded as that, also where nobody comes back to hear of it.
    fn drop(&mut self) {
        if let Stage::Under(sent, recording) = &mut self.stage
            && let Some(gave_way) = gave_way(sent)
        {
            recording.end(&gave_way);
        }
    }
}

/// Errors after which a peer is better dialled anew: it is not there, or no longer what it was. Whoever may not do one
/// thing (403) may still do others, so that says nothing of the connection.
fn makes_suspect(error: &WireError) -> bool {
    match error {
        WireError::Unreachable { .. } | WireError::NoCommonRevision { .. } => true,
        WireError::Unauthorized { status, .. } => status.as_u16() == 401,
        WireError::Status { status, .. } => matches!(status.as_u16(), 404 | 405 | 410),
        _ => false,
    }
}

async fn answer(face: Option<ClientFace>, ask: Ask) {
    let answer = match face {
        Some(face) => face.answer(ask.question.clone()).await,
        None => Answer::Nobody,
    };
    ask.answer(answer);
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("id", &self.id).finish_non_exhaustive()
    }
}
