//! `/api/v1/tasks`: calls that their servers continue.

use serde_json::{Value, json};
use toolway_host::{call::CallId, task::TaskFilter};
use uuid::Uuid;

use super::{Answered, calls::records, done};
use crate::{console::Console, error::ApiError, reply, view::task};

/// Tasks of a list that are open, and as many that have ended.
const LIMIT: usize = 100;

/// The open tasks of all callers, then those that ended last.
pub(super) async fn list(console: &Console) -> Answered {
    let Some(records) = &console.records else { return reply::json(&json!([])) };
    let filter = |is_open| TaskFilter { is_open: Some(is_open), limit: LIMIT, ..TaskFilter::default() };
    let mut tasks = records.tasks(filter(true)).await?;
    tasks.extend(records.tasks(filter(false)).await?);
    reply::json(&tasks.iter().map(task::view).collect::<Vec<Value>>())
}

/// One task. Its arguments and its result are those of its call.
pub(super) async fn show(console: &Console, id: &str) -> Answered {
    let id: Uuid = id.parse().map_err(|_| unknown())?;
    let task = records(console)?.task(id).await?.ok_or_else(unknown)?;
    reply::json(&task::view(&task))
}

/// Cancels a task for the user. The model of its conversation is told.
pub(super) async fn cancel(console: &Console, id: &str) -> Answered {
    let id: Uuid = id.parse().map_err(|_| unknown())?;
    let task = records(console)?.task(id).await?.ok_or_else(unknown)?;
    if !task.status.is_open() {
        return Err(ApiError::conflict(format!("the task has ended: {}", task.status)));
    }
    let told = task.conversation.as_deref().is_some_and(|conversation| console.turns.board.cancel(conversation, id));
    let call = CallId::from_u128(id.as_u128());
    if told || console.host.cancel_task(id) || console.host.cancel_call(call, "cancelled by the user") {
        return done();
    }
    let error = ApiError::conflict("another process follows the task");
    Err(error.hint(format!("run `toolway tasks cancel {id}`")))
}

/// Asks the server at once how far a task is; events tell what changed.
pub(super) async fn poll(console: &Console, id: &str) -> Answered {
    let id: Uuid = id.parse().map_err(|_| unknown())?;
    let task = records(console)?.task(id).await?.ok_or_else(unknown)?;
    if !task.status.is_open() {
        return Err(ApiError::conflict(format!("the task has ended: {}", task.status)));
    }
    if console.host.poll_task(id) {
        return done();
    }
    let error = ApiError::conflict("its caller, or another process, follows the task");
    Err(error.hint("it asks the server by itself; what changes is shown here"))
}

fn unknown() -> ApiError {
    ApiError::not_found("unknown task")
}
