//! The upstream accent of the stateful revisions: server requests arrive while a request of ours is open.

use std::borrow::Cow;

use bytes::Bytes;

use super::{
    accent::{
        Accent, CancelTarget, CapabilityScope, ChangeDelivery, InputRound, InterpretedResponse, ServerRequestKind,
        TaskModel,
    },
    transport::Outbound,
};
use crate::{
    exchange::{Cause, LogLevel, Progress, Request, RequiredUrl, ServerRequestDetails, ServerRequestId},
    json::{JsonKind, Raw},
    limit::SERVER_REQUESTS_PER_ROUND,
    message::{
        ClientCapabilities, Id, RpcError, compose, meta,
        result::ResultType,
        splice::{self, Edit},
    },
    notice::Notice,
    revision::Revision,
    task::Task,
};

/// The notification of a server that what a user was sent to a URL for is completed.
const URL_COMPLETED: &str = "notifications/elicitation/complete";

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

    fn task_notification(&self) -> &'static str {
        "notifications/tasks/status"
    }

    fn keeps_progress_of_tasks(&self) -> bool {
        true
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

    fn notice(&self, method: &str, params: Option<Raw>) -> Notice {
        let id = params.as_ref().and_then(|params| params.get("elicitationId"));
        let id = id.as_ref().and_then(Raw::as_str).map(Cow::into_owned);
        match (method, id, params) {
            (URL_COMPLETED, Some(id), Some(params)) => Notice::UrlCompleted { id, params },
            (method, _, params) => Notice::read(method, params),
        }
    }

    fn required_urls(&self, error: &RpcError) -> Option<Vec<RequiredUrl>> {
        if error.code() != RpcError::URL_ELICITATION_REQUIRED {
            return None;
        }
        let listed = error.data()?.get("elicitations")?.elements_within(SERVER_REQUESTS_PER_ROUND + 1);
        let urls: Option<Vec<RequiredUrl>> = listed.iter().map(required_url).collect();
        urls.filter(|urls| (1..=SERVER_REQUESTS_PER_ROUND).contains(&urls.len()))
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

/// One URL of a refusal: the params of `elicitation/create`, of which the mode may be missing.
fn required_url(entry: &Raw) -> Option<RequiredUrl> {
    let id = entry.get("elicitationId")?.as_str().map(Cow::into_owned)?;
    entry.get("url")?.as_str()?;
    let params = splice::edited(entry, &[Edit::Set("mode", Raw::of("url"))]);
    let request = ServerRequestDetails {
        id: ServerRequestId(0),
        key: None,
        method: "elicitation/create".to_owned(),
        params: Some(params),
        cause: Cause::Request,
    };
    Some(RequiredUrl { id, request })
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
