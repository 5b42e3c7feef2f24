//! A call of the host as an exchange of the wire: what happens passes through, and its end is said in the wire's words.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use serde_json::json;
use toolway_config::ServerName;
use toolway_host::{
    call::{CallError, CallHappening, CallKind, CallOutcome, Relay},
    policy::Refusal,
};
use toolway_wire::{
    down::Caller,
    exchange::{Between, Exchange, Happening, Outcome},
    json::Raw,
    message::RpcError,
    task::Task,
};

use super::{tasks::GatewayTasks, uris::Here};

/// A call under way for a caller of ours.
pub(super) struct Relaying {
    relay: Relay,
    kind: CallKind,
    here: Option<Here>,
}

impl Relaying {
    /// `here`: where what it says is put under the names that things have here.
    pub(super) fn new(relay: Relay, kind: CallKind, here: Option<Here>) -> Self {
        Self { relay, kind, here }
    }

    fn named_here(&self, outcome: Outcome) -> Outcome {
        // What went to nobody says nothing of anybody's.
        let Some((here, server)) = self.here.as_ref().zip(self.relay.server()) else { return outcome };
        match outcome {
            Outcome::Answered(result) => Outcome::Answered(here.put_back(result, server)),
            Outcome::Refused(error) => Outcome::Refused(here.put_back_in(error, server)),
            other => other,
        }
    }
}

impl Between for Relaying {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Happening>> {
        self.relay.poll_next(context).map(|happening| {
            Some(match happening? {
                CallHappening::Progress(params) => Happening::Progress(params),
                CallHappening::Log(params) => Happening::Log(params),
                CallHappening::Ask(ask) => Happening::Ask(ask),
                CallHappening::Withdrawn(ask) => Happening::Withdrawn(ask),
                CallHappening::Ended(outcome) => Happening::Ended(self.named_here(said(outcome, self.kind))),
            })
        })
    }

    fn cancel(&mut self, reason: &str) {
        self.relay.cancel(reason);
    }

    fn missed(&self) -> u64 {
        self.relay.missed()
    }
}

/// A call that may be handed over to a task, whose name is then one of ours.
#[derive(Debug)]
pub(super) struct Renamed {
    exchange: Exchange,
    tasks: Arc<GatewayTasks>,
    server: ServerName,
    principal: Arc<str>,
}

impl Renamed {
    pub(super) fn new(exchange: Exchange, tasks: &Arc<GatewayTasks>, server: ServerName, caller: &Caller) -> Self {
        Self { exchange, tasks: Arc::clone(tasks), server, principal: Arc::clone(&caller.principal) }
    }

    fn handed(&self, task: Task) -> Outcome {
        match self.tasks.named(task, &self.server, &self.principal) {
            Ok(task) => Outcome::HandedOff(Box::new(task)),
            Err(error) => Outcome::Refused(error),
        }
    }
}

impl Between for Renamed {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Happening>> {
        self.exchange.poll_next(context).map(|happening| match happening {
            Some(Happening::Ended(Outcome::HandedOff(task))) => Some(Happening::Ended(self.handed(*task))),
            other => other,
        })
    }

    fn cancel(&mut self, reason: &str) {
        self.exchange.cancel(reason);
    }

    fn missed(&self) -> u64 {
        self.exchange.missed()
    }
}

/// The end of a call, as the wire says it.
fn said(outcome: CallOutcome, kind: CallKind) -> Outcome {
    match outcome {
        CallOutcome::Answered(result) => Outcome::Answered(result),
        CallOutcome::HandedOff(task) => Outcome::HandedOff(task),
        CallOutcome::Cancelled => Outcome::Cancelled,
        CallOutcome::Refused(refusal) => refused(&refusal, kind),
        CallOutcome::Failed(CallError::Server(error)) => Outcome::Refused(error),
        CallOutcome::Failed(error) => failed(&error.to_string(), kind),
        CallOutcome::TimedOut { clock, limit } => failed(&format!("no answer within {limit:?} ({clock})"), kind),
    }
}

/// What was not sent. What is wrong with the request is the caller's to mend; the rest a model can read and react to.
fn refused(refusal: &Refusal, kind: CallKind) -> Outcome {
    let error = |code| Outcome::Refused(RpcError::new(code, &refusal.to_string()));
    match refusal {
        Refusal::Unknown { kind: CallKind::Resource, .. } => error(RpcError::RESOURCE_NOT_FOUND),
        Refusal::Unknown { .. } | Refusal::UnknownServer(_) | Refusal::Malformed(_) | Refusal::FilteredOut { .. } => {
            error(RpcError::INVALID_PARAMS)
        }
        Refusal::Disabled(_)
        | Refusal::Denied { .. }
        | Refusal::Declined { .. }
        | Refusal::NobodyToAsk(_)
        | Refusal::Busy { .. }
        | Refusal::TooMany { .. }
        | Refusal::Changed(_)
        | Refusal::ShuttingDown => failed(&refusal.to_string(), kind),
    }
}

/// A failure on the way: of a tool it is a result that says so, so that a model can react.
fn failed(message: &str, kind: CallKind) -> Outcome {
    match kind {
        CallKind::Tool => Outcome::Answered(Raw::of(&json!({
            "content": [{ "type": "text", "text": message }],
            "isError": true,
        }))),
        CallKind::Prompt | CallKind::Resource | CallKind::Method => {
            Outcome::Refused(RpcError::new(RpcError::INTERNAL, message))
        }
    }
}

impl fmt::Debug for Relaying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relaying").field("relay", &self.relay).finish_non_exhaustive()
    }
}
