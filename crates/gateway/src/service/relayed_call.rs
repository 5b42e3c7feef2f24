//! A call of the host as an exchange of the wire: passes events through and converts the outcome.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use serde_json::json;
use toolway_config::ServerName;
use toolway_host::{
    audience::ClientText,
    call::{CallError, CallId, CallKind, CallOutcome, Relay},
    policy::{LimitReached, Refusal},
    record::{Delivery, OUTCOME_META, Repeated},
};
use toolway_wire::{
    down::Caller,
    exchange::{Exchange, ExchangeEvent, ExchangeInterceptor, Outcome},
    json::Raw,
    message::RpcError,
    task::Task,
};

use super::{tasks::GatewayTasks, uris::PublicUris};

/// A call that was opened at the host.
pub(super) struct OpenedCall {
    pub(super) id: CallId,
    pub(super) exchange: Exchange,
    /// Resolves when the row of a hosted task is written.
    pub(super) task_written: BoxFuture<'static, ()>,
}

/// A call in flight for a caller of the gateway.
pub(super) struct RelayedCall {
    relay: Relay,
    kind: CallKind,
    uris: Option<PublicUris>,
    /// The client cancelled it, and waits for nothing.
    is_cancelled: bool,
}

impl RelayedCall {
    /// `uris`: converts the URIs of the server to public URIs; `None` if the server is served under its own names.
    pub(super) fn new(relay: Relay, kind: CallKind, uris: Option<PublicUris>) -> Self {
        Self { relay, kind, uris, is_cancelled: false }
    }

    fn with_public_uris(&self, outcome: Outcome) -> Outcome {
        // A call that reached no server contains none of its URIs.
        let Some((uris, server)) = self.uris.as_ref().zip(self.relay.server()) else { return outcome };
        match outcome {
            Outcome::Answered(result) => Outcome::Answered(uris.to_public(result, server)),
            Outcome::Refused(error) => Outcome::Refused(uris.to_public_error(error, server)),
            other => other,
        }
    }
}

impl ExchangeInterceptor for RelayedCall {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        self.relay.poll_next(context).map(|event| {
            let converted = |outcome| match outcome {
                CallOutcome::Cancelled if self.is_cancelled => Outcome::Cancelled,
                outcome => self.with_public_uris(self.wire_outcome(outcome)),
            };
            Some(event?.map_outcome(converted))
        })
    }

    fn cancel(&mut self, reason: &str) {
        self.is_cancelled = true;
        self.relay.cancel(reason);
    }

    fn missed(&self) -> u64 {
        self.relay.missed()
    }
}

/// A call that may become a task of its server; replaces the task id by a sealed one.
#[derive(Debug)]
pub(super) struct TaskRenamer {
    exchange: Exchange,
    tasks: Arc<GatewayTasks>,
    server: ServerName,
    principal: Arc<str>,
}

impl TaskRenamer {
    pub(super) fn new(exchange: Exchange, tasks: &Arc<GatewayTasks>, server: ServerName, caller: &Caller) -> Self {
        Self { exchange, tasks: Arc::clone(tasks), server, principal: Arc::clone(&caller.principal) }
    }

    fn rename_task(&self, task: Task) -> Outcome {
        match self.tasks.with_sealed_id(task, &self.server, &self.principal) {
            Ok(task) => Outcome::HandedOff(Box::new(task)),
            Err(error) => Outcome::Refused(error),
        }
    }
}

impl ExchangeInterceptor for TaskRenamer {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        self.exchange.poll_next(context).map(|happening| match happening {
            Some(ExchangeEvent::Ended(Outcome::HandedOff(task))) => Some(ExchangeEvent::Ended(self.rename_task(*task))),
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

/// A call without an answer of its server, as the client is told of it.
struct Unanswered {
    /// What failed, with the id under which the operator log has the rest, and whether the call was sent.
    message: String,
    delivery: Delivery,
    kind: CallKind,
}

impl RelayedCall {
    /// Converts the outcome of a call. Details that the client may not see are in the operator log, under the id of the
    /// call.
    fn wire_outcome(&self, outcome: CallOutcome) -> Outcome {
        let shown = outcome.for_client();
        match (outcome, shown) {
            (CallOutcome::Answered(result), _) => Outcome::Answered(result),
            (CallOutcome::HandedOff(task), _) => Outcome::HandedOff(task),
            // The server's own words.
            (CallOutcome::Failed(CallError::Server(error)), _) => Outcome::Refused(error),
            (_, None) => Outcome::Cancelled,
            (CallOutcome::Refused(refusal), Some(text)) => {
                let unanswered = match &refusal {
                    // The outcome of the call that was sent; the text says that this one was not.
                    Refusal::Repeated(repeated) => {
                        Unanswered { message: text.to_string(), delivery: repeated.delivery(), kind: self.kind }
                    }
                    _ => self.unanswered(&text),
                };
                unanswered.refused(&refusal)
            }
            (CallOutcome::Failed(CallError::Limit(reached)), Some(text)) => self.unanswered(&text).limited(&reached),
            (CallOutcome::Cancelled, Some(_)) => {
                let text = self.unanswered_with("the request was cancelled");
                text.error(RpcError::INTERNAL)
            }
            (CallOutcome::Failed(_) | CallOutcome::TimedOut { .. }, Some(text)) => self.unanswered(&text).failed(),
        }
    }

    fn unanswered(&self, text: &ClientText) -> Unanswered {
        self.unanswered_with(&text.with_id(self.relay.id()))
    }

    fn unanswered_with(&self, message: &str) -> Unanswered {
        // A relay that has ended knows it.
        let delivery = self.relay.delivery().unwrap_or(Delivery::Unknown);
        Unanswered { message: delivery.said_after(message), delivery, kind: self.kind }
    }
}

impl Unanswered {
    /// A call that was not sent. An invalid request is a JSON-RPC error; any other reason becomes a tool result that a model
    /// can read.
    fn refused(&self, refusal: &Refusal) -> Outcome {
        match refusal {
            Refusal::Unknown { kind: CallKind::Resource, .. } => self.error(RpcError::RESOURCE_NOT_FOUND),
            Refusal::FilteredOut { .. } if self.kind == CallKind::Resource => self.error(RpcError::RESOURCE_NOT_FOUND),
            Refusal::Unknown { .. }
            | Refusal::UnknownServer(_)
            | Refusal::Malformed(_)
            | Refusal::Repeated(Repeated::OtherArguments)
            | Refusal::Hidden { .. }
            | Refusal::FilteredOut { .. } => self.error(RpcError::INVALID_PARAMS),
            Refusal::Limit(reached) => self.limited(reached),
            Refusal::Disabled(_)
            | Refusal::Denied { .. }
            | Refusal::InvalidArguments { .. }
            | Refusal::Declined { .. }
            | Refusal::KeepsChanging(_)
            | Refusal::ApproverUnavailable { .. }
            | Refusal::NotRecorded(_)
            | Refusal::LimitUnknown(_)
            | Refusal::Repeated(_)
            | Refusal::Busy { .. }
            | Refusal::TooMany { .. }
            | Refusal::Changed(_)
            | Refusal::ShuttingDown => self.failed(),
        }
    }

    /// A limit: an error for tools too, with the limit and when to try again. Over HTTP the time is in `Retry-After` as well.
    fn limited(&self, reached: &LimitReached) -> Outcome {
        let mut data = reached.data();
        data["outcome"] = json!(self.delivery.as_str());
        Outcome::Refused(RpcError::with_data(RpcError::INTERNAL, &self.message, data))
    }

    /// A failed call: for a tool, a result with `isError`, so that a model can react.
    fn failed(&self) -> Outcome {
        match self.kind {
            CallKind::Tool => Outcome::Answered(Raw::of(&json!({
                "content": [{ "type": "text", "text": self.message }],
                "isError": true,
                "_meta": { OUTCOME_META: self.delivery.as_str() },
            }))),
            CallKind::Prompt | CallKind::Resource | CallKind::Method => self.error(RpcError::INTERNAL),
        }
    }

    fn error(&self, code: i64) -> Outcome {
        let data = json!({ "outcome": self.delivery.as_str() });
        Outcome::Refused(RpcError::with_data(code, &self.message, data))
    }
}

impl fmt::Debug for RelayedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayedCall").field("relay", &self.relay).finish_non_exhaustive()
    }
}
