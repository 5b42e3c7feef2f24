//! `/api/v1/tasks`: calls that their servers continue.

use toolway_host::call::CallId;
use uuid::Uuid;

use super::{Answered, calls::records, done};
use crate::{console::Console, error::ApiError};

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

fn unknown() -> ApiError {
    ApiError::not_found("unknown task")
}
