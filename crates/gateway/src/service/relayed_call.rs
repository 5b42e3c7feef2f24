//! A call of the host as an exchange of the wire: passes events through and converts the outcome.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use serde_json::json;
use toolway_config::ServerName;
use toolway_host::{
    audience::ClientText,
    call::{CallError, CallId, CallKind, CallOutcome, Relay},
    policy::Refusal,
};
use toolway_wire::{
    down::Caller,
    exchange::{Exchange, ExchangeEvent, ExchangeInterceptor, Outcome},
    json::Raw,
    message::RpcError,
    task::Task,
};

use super::{tasks::GatewayTasks, uris::PublicUris};

/// A call in flight for a caller of the gateway.
pub(super) struct RelayedCall {
    relay: Relay,
    kind: CallKind,
    uris: Option<PublicUris>,
}

impl RelayedCall {
    /// `uris`: converts the URIs of the server to public URIs; `None` if the server is served under its own names.
    pub(super) fn new(relay: Relay, kind: CallKind, uris: Option<PublicUris>) -> Self {
        Self { relay, kind, uris }
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
            let converted = |outcome| self.with_public_uris(wire_outcome(outcome, self.kind, self.relay.id()));
            Some(event?.map_outcome(converted))
        })
    }

    fn cancel(&mut self, reason: &str) {
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

/// Converts the outcome of a call. Details that the client may not see are in the operator log, under the id of the call.
fn wire_outcome(outcome: CallOutcome, kind: CallKind, id: CallId) -> Outcome {
    let shown = outcome.for_client();
    match (outcome, shown) {
        (CallOutcome::Answered(result), _) => Outcome::Answered(result),
        (CallOutcome::HandedOff(task), _) => Outcome::HandedOff(task),
        (CallOutcome::Failed(CallError::Server(error)), _) => Outcome::Refused(error),
        (CallOutcome::Cancelled, _) | (_, None) => Outcome::Cancelled,
        (CallOutcome::Refused(refusal), Some(text)) => refused(&refusal, &text, kind, id),
        (CallOutcome::Failed(_) | CallOutcome::TimedOut { .. }, Some(text)) => failed(&text, kind, id),
    }
}

/// A call that was not sent. An invalid request is a JSON-RPC error; any other reason becomes a tool
/// result that a model can read.
fn refused(refusal: &Refusal, text: &ClientText, kind: CallKind, id: CallId) -> Outcome {
    let error = |code| Outcome::Refused(RpcError::new(code, &text.with_id(id)));
    match refusal {
        Refusal::Unknown { kind: CallKind::Resource, .. } => error(RpcError::RESOURCE_NOT_FOUND),
        Refusal::FilteredOut { .. } if kind == CallKind::Resource => error(RpcError::RESOURCE_NOT_FOUND),
        Refusal::Unknown { .. } | Refusal::UnknownServer(_) | Refusal::Malformed(_) | Refusal::FilteredOut { .. } => {
            error(RpcError::INVALID_PARAMS)
        }
        Refusal::Disabled(_)
        | Refusal::Denied { .. }
        | Refusal::InvalidArguments { .. }
        | Refusal::Declined { .. }
        | Refusal::KeepsChanging(_)
        | Refusal::ApproverUnavailable { .. }
        | Refusal::NotRecorded(_)
        | Refusal::Busy { .. }
        | Refusal::TooMany { .. }
        | Refusal::Changed(_)
        | Refusal::ShuttingDown => failed(text, kind, id),
    }
}

/// A failed call: for a tool, a result with `isError`, so that a model can react.
fn failed(text: &ClientText, kind: CallKind, id: CallId) -> Outcome {
    let message = text.with_id(id);
    match kind {
        CallKind::Tool => Outcome::Answered(Raw::of(&json!({
            "content": [{ "type": "text", "text": message }],
            "isError": true,
        }))),
        CallKind::Prompt | CallKind::Resource | CallKind::Method => {
            Outcome::Refused(RpcError::new(RpcError::INTERNAL, &message))
        }
    }
}

impl fmt::Debug for RelayedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayedCall").field("relay", &self.relay).finish_non_exhaustive()
    }
}
