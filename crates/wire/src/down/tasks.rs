//! Tasks as clients use them: the [`Tasks`] trait, and the two accents for it.
//!
//! In a session, the client polls the status, waits for `tasks/result` and receives server requests there. Without a
//! session, `tasks/get` returns everything and answers are sent with `tasks/update`. Methods that an era does not have
//! are unknown to its clients.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;

use super::{Caller, Downstream};
use crate::{
    exchange::{Exchange, Handover, Outcome, Request},
    json::{JsonKind, Raw},
    message::{
        ClientCapabilities, RpcError, capability, meta,
        splice::{self, Edit},
    },
    revision::{Era, Revision},
    task::{Task, TaskDetail, TaskError, TaskPage, TaskStatus, codec},
};

/// Access to tasks. A task of another caller is reported as unknown.
pub trait Tasks: Send + Sync {
    /// Returns the current state of a task.
    fn get<'a>(&'a self, id: &'a str, depth: TaskDetail, caller: &'a Caller) -> BoxFuture<'a, Result<Task, TaskError>>;

    /// Follows a task to its end as an exchange, server requests included. Dropping the exchange does not stop the task.
    fn follow(&self, id: &str, caller: &Caller) -> Exchange;

    /// Answers server requests of a task by key; unknown keys are ignored.
    fn answer<'a>(&'a self, id: &'a str, answers: Raw, caller: &'a Caller) -> BoxFuture<'a, Result<(), TaskError>>;

    /// Cancels a task and returns its state then. A finished task stays as it is.
    fn cancel<'a>(&'a self, id: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<Task, TaskError>>;

    /// Resolves when a task may have changed since `seen`; by default after its poll interval.
    fn wait_for_change<'a>(&'a self, seen: &'a Task, _caller: &'a Caller) -> BoxFuture<'a, ()> {
        Box::pin(tokio::time::sleep(seen.interval()))
    }

    /// One page of the caller's tasks, from the cursor `from`.
    fn list<'a>(&'a self, from: Option<Raw>, caller: &'a Caller) -> BoxFuture<'a, Result<TaskPage, TaskError>>;
}

/// Outcome of a request without intermediate messages.
pub(super) type DelayedOutcome = BoxFuture<'static, Outcome>;

/// Whether this is a tasks method, in any era.
pub(super) fn is_about(method: &str) -> bool {
    method.starts_with("tasks/")
}

/// Server capabilities with the tasks entries that this client's revision has.
pub(super) fn with_task_capabilities(downstream: &Downstream, caller: &Caller, capabilities: &Raw) -> Raw {
    let keeps = downstream.service.tasks(caller).is_some();
    let core = keeps && has_core(caller);
    let tasks = match core {
        true => {
            Edit::Set("tasks", Raw::of(&json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } })))
        }
        false => Edit::Remove("tasks"),
    };
    let extension = match keeps && caller.revision.era() == Era::Modern {
        true => Edit::Set(capability::TASKS, Raw::empty_object()),
        false => Edit::Remove(capability::TASKS),
    };
    let given = capabilities.get("extensions");
    let extensions = splice::edited(&given.unwrap_or_else(Raw::empty_object), &[extension]);
    let extensions = match extensions.members().is_empty() {
        true => Edit::Remove("extensions"),
        false => Edit::Set("extensions", extensions),
    };
    splice::edited(capabilities, &[tasks, extensions])
}

/// Moves the client's task wish from the params into `request.handover`.
pub(super) fn allow(downstream: &Downstream, caller: &Caller, request: &mut Request) {
    let wanted = request.take_task();
    if request.method() != "tools/call" || downstream.service.tasks(caller).is_none() {
        return;
    }
    let keeps = wanted.as_ref().and_then(|task| task.get("ttl")).and_then(|ttl| ttl.as_u64());
    request.handover = match caller.revision.era() {
        Era::Legacy if wanted.is_some() && has_core(caller) => {
            Handover::Wanted(keeps.map(std::time::Duration::from_millis))
        }
        Era::Modern if caller.capabilities.extension(capability::TASKS) => Handover::Allowed,
        Era::Legacy | Era::Modern => Handover::Never,
    };
}

/// Core tasks exist only in 2025-11-25.
fn has_core(caller: &Caller) -> bool {
    caller.revision == Revision::V2025_11_25
}

fn unknown(method: &str) -> RpcError {
    RpcError::new(RpcError::METHOD_NOT_FOUND, &format!("unknown method `{method}`"))
}

fn id(request: &Request) -> Result<String, RpcError> {
    let id = request.param("taskId");
    let id = id.as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
    id.ok_or_else(|| RpcError::new(RpcError::INVALID_PARAMS, "`taskId` is missing"))
}

// === in a session ===

/// Response to a tasks request in a session.
pub(super) enum SessionTaskReply {
    /// A single result.
    Once(DelayedOutcome),
    /// An exchange that follows the task with this id.
    Following(Exchange, String),
}

/// Answers a tasks request in a session.
pub(super) fn in_session(
    downstream: &Arc<Downstream>,
    caller: &Caller,
    request: &Request,
) -> Result<SessionTaskReply, RpcError> {
    let method = request.method();
    let tasks = downstream.service.tasks(caller).filter(|_| has_core(caller)).ok_or_else(|| unknown(method))?;
    let (downstream, caller) = (Arc::clone(downstream), caller.clone());
    Ok(SessionTaskReply::Once(match method {
        "tasks/get" => {
            let id = id(request)?;
            delayed(downstream, caller, move |tasks, caller| {
                Box::pin(
                    async move { tasks.get(&id, TaskDetail::Status, caller).await.map(|task| codec::legacy(&task)) },
                )
            })
        }
        "tasks/cancel" => {
            let id = id(request)?;
            delayed(downstream, caller, move |tasks, caller| {
                Box::pin(async move { cancel_in_session(tasks, &id, caller).await })
            })
        }
        "tasks/list" => {
            let from = request.param("cursor");
            delayed(downstream, caller, move |tasks, caller| {
                Box::pin(async move { tasks.list(from, caller).await.map(|page| codec::legacy_page(&page)) })
            })
        }
        "tasks/result" => {
            let id = id(request)?;
            return Ok(SessionTaskReply::Following(tasks.follow(&id, &caller), id));
        }
        other => return Err(unknown(other)),
    }))
}

/// In a session, cancelling a finished task is an error, and a cancelled task is reported as such at once.
async fn cancel_in_session(tasks: &dyn Tasks, id: &str, caller: &Caller) -> Result<Raw, TaskError> {
    let before = tasks.get(id, TaskDetail::Status, caller).await?;
    if before.status.is_finished() {
        let message = format!("the task is already finished: {}", before.status);
        return Err(TaskError::Refused(RpcError::new(RpcError::INVALID_PARAMS, &message)));
    }
    let mut task = tasks.cancel(id, caller).await?;
    if !task.status.is_finished() {
        task.touch(TaskStatus::Cancelled);
    }
    Ok(codec::legacy(&task))
}

/// Edit that adds the related task to the params or result of a session's message.
pub(super) fn related(body: Option<&Raw>, id: &str) -> Edit<'static> {
    meta::with_keys(body, &[Edit::Set(meta::RELATED_TASK, Raw::of(&json!({ "taskId": id })))])
}

// === without a session ===

/// Answers a tasks request without a session.
pub(super) fn stateless(
    downstream: &Arc<Downstream>,
    caller: &Caller,
    request: &Request,
    answers: Option<&Raw>,
) -> Result<DelayedOutcome, RpcError> {
    let method = request.method();
    let known = matches!(method, "tasks/get" | "tasks/update" | "tasks/cancel");
    if !known || downstream.service.tasks(caller).is_none() {
        return Err(unknown(method));
    }
    if !caller.capabilities.extension(capability::TASKS) {
        return Err(not_declared());
    }
    let (id, downstream, caller) = (id(request)?, Arc::clone(downstream), caller.clone());
    Ok(match method {
        "tasks/get" => delayed(downstream, caller, move |tasks, caller| {
            Box::pin(
                async move { tasks.get(&id, TaskDetail::Full, caller).await.map(|task| codec::modern_whole(&task)) },
            )
        }),
        "tasks/cancel" => delayed(downstream, caller, move |tasks, caller| {
            Box::pin(async move { tasks.cancel(&id, caller).await.map(|_| Raw::empty_object()) })
        }),
        _ => {
            let answers = answers.cloned().filter(|answers| answers.kind() == JsonKind::Object);
            let answers =
                answers.ok_or_else(|| RpcError::new(RpcError::INVALID_PARAMS, "`inputResponses` is missing"))?;
            delayed(downstream, caller, move |tasks, caller| {
                Box::pin(async move { tasks.answer(&id, answers, caller).await.map(|()| Raw::empty_object()) })
            })
        }
    })
}

/// Refuses a client that did not declare the tasks extension where only a task is possible.
pub fn not_declared() -> RpcError {
    let data = json!({ "requiredCapabilities": { "extensions": { capability::TASKS: {} } } });
    RpcError::with_data(RpcError::MISSING_CAPABILITY, "the client did not declare the tasks extension", data)
}

/// Whether the error says that the client must declare the tasks extension.
pub(super) fn is_tasks_required(error: &RpcError) -> bool {
    let needed = error.data().and_then(|data| data.get("requiredCapabilities"));
    needed.is_some_and(|needed| ClientCapabilities(needed).extension(capability::TASKS))
}

fn delayed<F>(downstream: Arc<Downstream>, caller: Caller, ask: F) -> DelayedOutcome
where
    F: for<'a> FnOnce(&'a dyn Tasks, &'a Caller) -> BoxFuture<'a, Result<Raw, TaskError>> + Send + 'static,
{
    Box::pin(async move {
        let Some(tasks) = downstream.service.tasks(&caller) else { return Outcome::Refused(unknown("tasks/*")) };
        match ask(tasks, &caller).await {
            Ok(result) => Outcome::Answered(result),
            Err(problem) => problem.into(),
        }
    })
}
