//! Tasks as callers reach them: what a keeper offers, and the two accents for it.
//!
//! A session looks, waits for the result on a stream of its own and is asked there; without one everything is in one
//! answer, and answers to questions are requests. Nobody is told of a method its era lacks.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;

use super::{Caller, Downstream};
use crate::{
    exchange::{Exchange, Handover, Outcome, Request},
    json::{Kind, Raw},
    message::{
        ClientCapabilities, RpcError, capability, meta,
        splice::{self, Edit},
    },
    revision::{Era, Revision},
    task::{Depth, Status, Task, TaskPage, Unanswered, spelling},
};

/// Whoever keeps tasks. A task of another caller is unknown to it.
pub trait Tasks: Send + Sync {
    /// How a task stands.
    fn look<'a>(&'a self, id: &'a str, depth: Depth, caller: &'a Caller) -> BoxFuture<'a, Result<Task, Unanswered>>;

    /// Follows a task to its end: what it asks is asked there, and its end is the exchange's. Leaving does not stop it.
    fn see_through(&self, id: &str, caller: &Caller) -> Exchange;

    /// Gives answers, by key; keys it does not wait for are nothing to it.
    fn answer<'a>(&'a self, id: &'a str, answers: Raw, caller: &'a Caller) -> BoxFuture<'a, Result<(), Unanswered>>;

    /// Stops a task; gives how it stands then. One that is over stays as it is.
    fn cancel<'a>(&'a self, id: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<Task, Unanswered>>;

    /// Resolves when a task may be other than it was seen; as often as its keeper says where nobody can tell.
    fn changed<'a>(&'a self, seen: &'a Task, _caller: &'a Caller) -> BoxFuture<'a, ()> {
        Box::pin(tokio::time::sleep(seen.interval()))
    }

    /// The caller's tasks, from where a page said that the next begins.
    fn list<'a>(&'a self, from: Option<Raw>, caller: &'a Caller) -> BoxFuture<'a, Result<TaskPage, Unanswered>>;
}

/// An answer that takes its time and in which nothing else happens.
pub(super) type Later = BoxFuture<'static, Outcome>;

/// Whether this method is about tasks, in any era.
pub(super) fn is_about(method: &str) -> bool {
    method.starts_with("tasks/")
}

/// What a service offers, as a caller of this revision hears of it.
pub(super) fn offered(downstream: &Downstream, caller: &Caller, capabilities: &Raw) -> Raw {
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

/// Says in the request whether a task may stand for its answer, and not in its params.
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

/// Core tasks came with one revision and left with it.
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

/// How a session is answered.
pub(super) enum InSession {
    /// Once.
    Later(Later),
    /// As this task goes on.
    Following(Exchange, String),
}

/// Answers a request about tasks in a session.
pub(super) fn in_session(downstream: &Arc<Downstream>, caller: &Caller, request: &Request) -> Result<InSession, RpcError> {
    let method = request.method();
    let tasks = downstream.service.tasks(caller).filter(|_| has_core(caller)).ok_or_else(|| unknown(method))?;
    let (downstream, caller) = (Arc::clone(downstream), caller.clone());
    Ok(InSession::Later(match method {
        "tasks/get" => {
            let id = id(request)?;
            later(downstream, caller, move |tasks, caller| {
                Box::pin(
                    async move { tasks.look(&id, Depth::Status, caller).await.map(|task| spelling::legacy(&task)) },
                )
            })
        }
        "tasks/cancel" => {
            let id = id(request)?;
            later(downstream, caller, move |tasks, caller| {
                Box::pin(async move { cancel_in_session(tasks, &id, caller).await })
            })
        }
        "tasks/list" => {
            let from = request.param("cursor");
            later(downstream, caller, move |tasks, caller| {
                Box::pin(async move { tasks.list(from, caller).await.map(|page| spelling::legacy_page(&page)) })
            })
        }
        "tasks/result" => {
            let id = id(request)?;
            return Ok(InSession::Following(tasks.see_through(&id, &caller), id));
        }
        other => return Err(unknown(other)),
    }))
}

/// In a session, a task that is over cannot be cancelled, and one that is cancelled is so at once.
async fn cancel_in_session(tasks: &dyn Tasks, id: &str, caller: &Caller) -> Result<Raw, Unanswered> {
    let before = tasks.look(id, Depth::Status, caller).await?;
    if before.status.is_over() {
        let message = format!("the task is over: {}", before.status);
        return Err(Unanswered::Refused(RpcError::new(RpcError::INVALID_PARAMS, &message)));
    }
    let mut task = tasks.cancel(id, caller).await?;
    if !task.status.is_over() {
        task.touch(Status::Cancelled);
    }
    Ok(spelling::legacy(&task))
}

/// Which task a message of a session belongs to, as an edit of its params or its result.
pub(super) fn related(body: Option<&Raw>, id: &str) -> Edit<'static> {
    meta::with_keys(body, &[Edit::Set(meta::RELATED_TASK, Raw::of(&json!({ "taskId": id })))])
}

// === without a session ===

/// Answers a request about tasks that stands for itself.
pub(super) fn on_its_own(
    downstream: &Arc<Downstream>,
    caller: &Caller,
    request: &Request,
    answers: Option<&Raw>,
) -> Result<Later, RpcError> {
    let method = request.method();
    let known = matches!(method, "tasks/get" | "tasks/update" | "tasks/cancel");
    if !known || downstream.service.tasks(caller).is_none() {
        return Err(unknown(method));
    }
    if !caller.capabilities.extension(capability::TASKS) {
        return Err(undeclared());
    }
    let (id, downstream, caller) = (id(request)?, Arc::clone(downstream), caller.clone());
    Ok(match method {
        "tasks/get" => later(downstream, caller, move |tasks, caller| {
            Box::pin(
                async move { tasks.look(&id, Depth::Whole, caller).await.map(|task| spelling::modern_whole(&task)) },
            )
        }),
        "tasks/cancel" => later(downstream, caller, move |tasks, caller| {
            Box::pin(async move { tasks.cancel(&id, caller).await.map(|_| Raw::empty_object()) })
        }),
        _ => {
            let answers = answers.cloned().filter(|answers| answers.kind() == Kind::Object);
            let answers =
                answers.ok_or_else(|| RpcError::new(RpcError::INVALID_PARAMS, "`inputResponses` is missing"))?;
            later(downstream, caller, move |tasks, caller| {
                Box::pin(async move { tasks.answer(&id, answers, caller).await.map(|()| Raw::empty_object()) })
            })
        }
    })
}

/// The refusal of a caller that takes no task where nothing else is to be had.
pub fn undeclared() -> RpcError {
    let data = json!({ "requiredCapabilities": { "extensions": { capability::TASKS: {} } } });
    RpcError::with_data(RpcError::MISSING_CAPABILITY, "the caller did not declare the extension of tasks", data)
}

/// Whether a refusal says that the caller has to know of tasks.
pub(super) fn are_needed(error: &RpcError) -> bool {
    let needed = error.data().and_then(|data| data.get("requiredCapabilities"));
    needed.is_some_and(|needed| ClientCapabilities(needed).extension(capability::TASKS))
}

fn later<F>(downstream: Arc<Downstream>, caller: Caller, ask: F) -> Later
where
    F: for<'a> FnOnce(&'a dyn Tasks, &'a Caller) -> BoxFuture<'a, Result<Raw, Unanswered>> + Send + 'static,
{
    Box::pin(async move {
        let Some(tasks) = downstream.service.tasks(&caller) else { return Outcome::Refused(unknown("tasks/*")) };
        match ask(tasks, &caller).await {
            Ok(result) => Outcome::Answered(result),
            Err(problem) => problem.into(),
        }
    })
}
