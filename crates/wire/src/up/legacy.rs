//! The stateful revisions, spoken to a server: asks come as requests while ours is open.

use bytes::Bytes;

use super::{
    accent::{Accent, Asked, Declares, KeepsTasks, Reply, Round, Tells, Withdraws},
    transport::Outbound,
};
use crate::{
    exchange::{LogLevel, Progress, Request},
    json::{Kind, Raw},
    message::{
        ClientCapabilities, Id, RpcError, compose, meta,
        result::ResultType,
        splice::{self, Edit},
    },
    revision::Revision,
    task::Task,
};

/// A session with a server of 2024-11-05 to 2025-11-25.
#[derive(Debug)]
pub(crate) struct Legacy {
    pub(crate) revision: Revision,
    /// What was declared in the handshake.
    pub(crate) capabilities: ClientCapabilities,
}

impl Accent for Legacy {
    fn revision(&self) -> Revision {
        self.revision
    }

    fn request(&self, id: u64, request: &Request, _round: Option<&Round>) -> Outbound {
        let mut edits: Vec<Edit<'_>> = request.edit_task().into_iter().collect();
        if request.progress == Progress::Wanted {
            let token = Edit::Set(meta::PROGRESS_TOKEN, Raw::of(&id));
            let meta = request.meta().filter(|meta| meta.kind() == Kind::Object).unwrap_or_else(Raw::empty_object);
            edits.push(request.edit_meta(splice::edited(&meta, &[token])));
        }
        let message = compose::request(&Id::number(id), request.method(), request.params(), &edits);
        Outbound::plain(message, Some(id))
    }

    fn result(&self, request: &Request, result: Raw, _said: ResultType) -> Reply {
        // A task stands for the answer only where one was asked for.
        if request.asks_for_task() && result.get("task").is_some() {
            return match Task::view(&result) {
                Some(task) => Reply::Task(task),
                None => Reply::Invalid("a task without `taskId` or `status`".to_owned()),
            };
        }
        Reply::Complete(result)
    }

    fn error(&self, _request: &Request, error: RpcError) -> Reply {
        Reply::Refused(error)
    }

    fn asked(&self, method: &str, params: Option<&Raw>) -> Asked {
        match method {
            "ping" => Asked::Ping,
            "elicitation/create" | "sampling/createMessage" | "roots/list" => {
                match self.capabilities.lacks(method, params) {
                    None => Asked::Question,
                    Some(_) => Asked::Undeclared(self.undeclared(method)),
                }
            }
            other => Asked::Refuse(RpcError::new(RpcError::METHOD_NOT_FOUND, &format!("unknown method `{other}`"))),
        }
    }

    fn withdraws(&self) -> Withdraws {
        Withdraws::Questions
    }

    fn cancellation(&self, id: u64, reason: &str) -> Option<Bytes> {
        Some(cancelled(id, reason))
    }

    fn keeps_tasks(&self) -> KeepsTasks {
        KeepsTasks::InASession
    }

    fn declares(&self) -> Declares {
        Declares::Once
    }

    fn tells(&self) -> Tells {
        Tells::ByItself
    }

    fn sign_of_life(&self) -> &'static str {
        "ping"
    }

    fn completes_in_context(&self) -> bool {
        Revision::V2025_06_18 <= self.revision
    }

    fn log_from(&self, level: LogLevel) -> Option<Request> {
        let level = Raw::of(&serde_json::json!({ "level": level.as_str() }));
        Some(Request::trusted("logging/setLevel", Some(level)))
    }
}

impl Legacy {
    /// The whole capability is missing, or only the mode.
    fn undeclared(&self, method: &str) -> RpcError {
        let capability = method.split('/').next().unwrap_or_default();
        if self.capabilities.0.get(capability).is_some() {
            RpcError::new(RpcError::INVALID_PARAMS, &format!("this client did not declare that mode of `{capability}`"))
        } else {
            RpcError::new(RpcError::METHOD_NOT_FOUND, &format!("this client did not declare `{capability}`"))
        }
    }
}

/// `notifications/cancelled` for a request of ours; the same words in both eras.
pub(super) fn cancelled(id: u64, reason: &str) -> Bytes {
    let params = Raw::of(&serde_json::json!({ "requestId": id, "reason": reason }));
    compose::notification("notifications/cancelled", Some(&params), &[])
}
