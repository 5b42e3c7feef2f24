//! The upstream accent of the stateful revisions: server requests arrive while a request of ours is open.

use bytes::Bytes;

use super::{
    accent::{
        Accent, CancelTarget, CapabilityScope, ChangeDelivery, InputRound, InterpretedResponse, ServerRequestKind,
        TaskModel,
    },
    transport::Outbound,
};
use crate::{
    exchange::{LogLevel, Progress, Request},
    json::{JsonKind, Raw},
    message::{
        ClientCapabilities, Id, RpcError, compose, meta,
        result::ResultType,
        splice::{self, Edit},
    },
    revision::Revision,
    task::Task,
};

/// Where FastMCP 2.14 has the task of a call: in `_meta` of a result without content.
const EARLY_TASK: &str = "modelcontextprotocol.io/task";

/// A session with a server of 2024-11-05 to 2025-11-25.
#[derive(Debug)]
pub(crate) struct Legacy {
    pub(crate) revision: Revision,
    /// Capabilities declared in the handshake.
    pub(crate) capabilities: ClientCapabilities,
}

impl Accent for Legacy {
    fn revision(&self) -> Revision {
        self.revision
    }

    fn request(&self, id: u64, request: &Request, _round: Option<&InputRound>) -> Outbound {
        let mut edits: Vec<Edit<'_>> = request.edit_task().into_iter().collect();
        if request.progress == Progress::Wanted {
            let token = Edit::Set(meta::PROGRESS_TOKEN, Raw::of(&id));
            let meta = request.meta().filter(|meta| meta.kind() == JsonKind::Object).unwrap_or_else(Raw::empty_object);
            edits.push(request.edit_meta(splice::edited(&meta, &[token])));
        }
        let message = compose::request(&Id::number(id), request.method(), request.params(), &edits);
        Outbound::plain(message, Some(id))
    }

    fn result(&self, request: &Request, result: Raw, _result_type: ResultType) -> InterpretedResponse {
        // Only a request for a task may be answered with one.
        if request.asks_for_task() {
            let early = || result.get("_meta").and_then(|meta| meta.get(EARLY_TASK));
            let task = if result.get("task").is_some() { Some(result.clone()) } else { early() };
            match task.map(|task| Task::view(&task)) {
                Some(Some(task)) => return InterpretedResponse::Task(task),
                Some(None) => return InterpretedResponse::Invalid("the task has no `taskId` or `status`".to_owned()),
                None => {}
            }
        }
        InterpretedResponse::Complete(result)
    }

    fn error(&self, _request: &Request, error: RpcError) -> InterpretedResponse {
        InterpretedResponse::Refused(error)
    }

    fn classify_request(&self, method: &str, params: Option<&Raw>) -> ServerRequestKind {
        match method {
            "ping" => ServerRequestKind::Ping,
            "elicitation/create" | "sampling/createMessage" | "roots/list" => {
                match self.capabilities.lacks(method, params) {
                    None => ServerRequestKind::Input,
                    Some(_) => ServerRequestKind::Undeclared(self.undeclared(method)),
                }
            }
            other => ServerRequestKind::Unknown(RpcError::new(
                RpcError::METHOD_NOT_FOUND,
                &format!("unknown method `{other}`"),
            )),
        }
    }

    fn cancel_target(&self) -> CancelTarget {
        CancelTarget::ServerRequests
    }

    fn cancellation(&self, id: u64, reason: &str) -> Option<Bytes> {
        Some(cancelled_notification(id, reason))
    }

    fn task_model(&self) -> TaskModel {
        TaskModel::SessionStream
    }

    fn capability_scope(&self) -> CapabilityScope {
        CapabilityScope::PerConnection
    }

    fn change_delivery(&self) -> ChangeDelivery {
        ChangeDelivery::Unsolicited
    }

    fn ping_method(&self) -> &'static str {
        "ping"
    }

    fn completes_in_context(&self) -> bool {
        Revision::V2025_06_18 <= self.revision
    }

    fn roots_changed_notification(&self) -> Option<Bytes> {
        let declared = self.capabilities.0.get("roots").is_some();
        declared.then(|| compose::notification("notifications/roots/list_changed", None, &[]))
    }

    fn log_level_request(&self, level: LogLevel) -> Option<Request> {
        let level = Raw::of(&serde_json::json!({ "level": level.as_str() }));
        Some(Request::trusted("logging/setLevel", Some(level)))
    }
}

impl Legacy {
    /// The error response: either the capability or only its mode was not declared.
    fn undeclared(&self, method: &str) -> RpcError {
        let capability = method.split('/').next().unwrap_or_default();
        if self.capabilities.0.get(capability).is_some() {
            RpcError::new(RpcError::INVALID_PARAMS, &format!("this client did not declare that mode of `{capability}`"))
        } else {
            RpcError::new(RpcError::METHOD_NOT_FOUND, &format!("this client did not declare `{capability}`"))
        }
    }
}

/// Encodes `notifications/cancelled` for a request of ours; the same in both eras.
pub(super) fn cancelled_notification(id: u64, reason: &str) -> Bytes {
    let params = Raw::of(&serde_json::json!({ "requestId": id, "reason": reason }));
    compose::notification("notifications/cancelled", Some(&params), &[])
}
