//! A task as pages show it.

use serde_json::{Value, json};
use toolway_host::{call::CallOutcome, task::TaskRow, time};

use super::cut;

/// A task as it is stored, or as it is now.
pub(crate) fn view(task: &TaskRow) -> Value {
    json!({
        "id": task.id.to_string(),
        "server": task.server,
        "tool": task.tool,
        "caller": task.caller,
        "conversation": task.conversation,
        "status": task.status.as_str(),
        "message": task.message.as_ref().map(|message| cut(&message.to_string()).to_owned()),
        "progress": task.progress.map(|progress| json!({ "done": progress.done, "total": progress.total })),
        "createdAt": time::rfc3339(task.created_at),
        "updatedAt": time::rfc3339(task.updated_at),
    })
}

/// A task that has ended, with the state of its call.
pub(crate) fn ended(task: &TaskRow, outcome: &CallOutcome) -> Value {
    let mut view = view(task);
    view["state"] = json!(outcome.state().as_str());
    view
}
