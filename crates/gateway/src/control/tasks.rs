//! Tasks over the control socket: a call of the user that goes on without the command, and its cancellation.

use std::time::Duration;

use serde_json::{Value, json};
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::{CallId, CallOutcome, CallRequest, Caller, Target, TaskHandling},
    catalog::Origin,
};
use toolway_wire::json::Raw;

use super::{Failure, failure};

/// A call whose command does not wait for its end.
pub(super) struct DetachedCall {
    pub(super) server: ServerName,
    pub(super) tool: String,
    /// Arguments of the tool as JSON.
    pub(super) arguments: String,
    pub(super) ttl: Option<Duration>,
}

impl DetachedCall {
    /// Makes the call. Returns the id of its task, or its result if the server answers at once.
    pub(super) async fn start(self, host: &Host) -> Result<Value, Failure> {
        let arguments = Raw::parse(self.arguments).map_err(|error| failure("order", &error.to_string()))?;
        // Whether a tool runs as a task is part of the listing.
        host.list(&self.server).await.map_err(|error| failure("unknown_server", &error.to_string()))?;
        let target = Target::ToolOf(Origin { server: self.server, raw_name: self.tool });
        let request = CallRequest {
            arguments: Some(arguments),
            task: TaskHandling::Background,
            task_ttl: self.ttl,
            ..CallRequest::new(Caller::Terminal, target)
        };
        let relay = host.open(request);
        let id = relay.id();
        match relay.outcome().await {
            CallOutcome::HandedOff(_) => Ok(json!({ "task": id.to_string() })),
            CallOutcome::Answered(result) => Ok(json!({ "call": id.to_string(), "result": result.to_string() })),
            other => Err(failure("call", &other.message().map(|text| text.as_str().to_owned()).unwrap_or_default())),
        }
    }
}

/// Cancels a task that this host follows.
pub(super) fn cancel(host: &Host, id: &str) -> Result<Value, Failure> {
    let id: CallId = id.parse().map_err(|_| failure("order", "the id of a task is a UUID"))?;
    let cancelled = host.cancel_task(id.uuid()) || host.cancel_call(id, "cancelled by the user");
    Ok(json!({ "cancelled": cancelled }))
}
