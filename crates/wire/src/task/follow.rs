//! Follows a task to its end as an exchange: polls it, and forwards each of its server requests once.

use std::collections::HashMap;

use futures_util::{
    StreamExt,
    future::{BoxFuture, FutureExt},
    stream::FuturesUnordered,
};
use serde_json::json;

use super::{CANCELLED_TASK, Task, TaskContent, TaskError, TaskStatus};
use crate::{
    exchange::{Answer, Feed, Outcome, ServerRequestDetails, ServerRequestId},
    json::Raw,
    message::{RpcError, splice},
};

/// Access to one task for a follower.
pub(crate) trait TaskHandle: Send + Sync {
    /// Returns the current state with content.
    fn get(&self) -> BoxFuture<'_, Result<Task, TaskError>>;

    /// Answers server requests by key.
    fn answer(&self, answers: Raw) -> BoxFuture<'_, Result<(), TaskError>>;

    /// Resolves when the task may have changed.
    fn wait_for_change(&self, task: &Task) -> BoxFuture<'_, ()>;
}

/// Follows a task to its end; returns whether the caller received the end. If the caller leaves, the task continues.
pub(crate) async fn follow(followed: &dyn TaskHandle, feed: &Feed) -> bool {
    let mut following = TaskFollower {
        followed,
        feed,
        forwarded: HashMap::new(),
        answers: FuturesUnordered::new(),
        reported: None,
        forwarded_count: 0,
    };
    tokio::select! {
        outcome = following.outcome() => feed.end(outcome),
        () = feed.cancelled() => false,
    }
}

struct TaskFollower<'a> {
    followed: &'a dyn TaskHandle,
    feed: &'a Feed,
    /// Forwarded server requests by key.
    forwarded: HashMap<String, ForwardedRequest>,
    answers: FuturesUnordered<BoxFuture<'static, (String, Answer)>>,
    /// The last status message, and the number of messages so far.
    reported: Option<(String, u64)>,
    /// Number of forwarded server requests.
    forwarded_count: u64,
}

struct ForwardedRequest {
    id: ServerRequestId,
    method: String,
    answered: bool,
}

impl TaskFollower<'_> {
    async fn outcome(&mut self) -> Outcome {
        loop {
            let task = match self.followed.get().await {
                Ok(task) => task,
                Err(problem) => return problem.into(),
            };
            match end_of(&task) {
                Some(outcome) => return outcome,
                None => self.update(&task),
            }
            let answered = tokio::select! {
                () = self.followed.wait_for_change(&task) => continue,
                Some(answered) = self.answers.next(), if !self.answers.is_empty() => answered,
            };
            if let Err(outcome) = self.pass_on(answered).await {
                return outcome;
            }
        }
    }

    /// Forwards new server requests, withdraws those that are gone, and reports the status message.
    fn update(&mut self, task: &Task) {
        let requests: &[ServerRequestDetails] =
            if let TaskContent::Requests(open) = &task.content { open } else { &[] };
        let is_open = |key: &str| requests.iter().any(|details| details.key.as_deref() == Some(key));
        let gone: Vec<String> = self.forwarded.keys().filter(|key| !is_open(key)).cloned().collect();
        for request in gone.iter().filter_map(|key| self.forwarded.remove(key)).filter(|request| !request.answered) {
            self.feed.withdraw(request.id);
        }
        for details in requests {
            self.forward(details);
        }
        self.report(task);
    }

    fn forward(&mut self, details: &ServerRequestDetails) {
        let Some(key) = details.key.clone().filter(|key| !self.forwarded.contains_key(key)) else { return };
        self.forwarded_count += 1;
        let id = ServerRequestId(self.forwarded_count);
        self.forwarded.insert(key.clone(), ForwardedRequest { id, method: details.method.clone(), answered: false });
        let answer = self.feed.ask(ServerRequestDetails { id, ..details.clone() });
        self.answers.push(answer.map(move |answer| (key, answer)).boxed());
    }

    fn report(&mut self, task: &Task) {
        let Some(message) = &task.message else { return };
        let count = match &self.reported {
            Some((reported, _)) if reported == message => return,
            Some((_, count)) => count + 1,
            None => 1,
        };
        self.feed.progress(Raw::of(&json!({ "progress": count, "message": message })));
        self.reported = Some((message.clone(), count));
    }

    /// Passes one answer to the task. Only an elicitation without an answer can be expressed in the answers of a task;
    /// any other refusal ends the exchange.
    async fn pass_on(&mut self, (key, answer): (String, Answer)) -> Result<(), Outcome> {
        // Withdrawn meanwhile.
        let Some(request) = self.forwarded.get_mut(&key) else { return Ok(()) };
        request.answered = true;
        let given = match answer {
            answer if request.method == "elicitation/create" && answer.is_missing() => Answer::closed_form(),
            answer => answer.into_result().map_err(Outcome::Refused)?,
        };
        let answers = splice::object([(key.as_str(), &given)]);
        self.followed.answer(answers).await.map_err(Outcome::from)
    }
}

/// Outcome of the exchange, once the task is finished.
fn end_of(task: &Task) -> Option<Outcome> {
    match (&task.content, task.status) {
        (TaskContent::Result(result), _) => Some(Outcome::Answered(result.clone())),
        (TaskContent::Error(error), _) => Some(Outcome::Refused(error.clone())),
        (_, TaskStatus::Cancelled) => Some(refused(CANCELLED_TASK)),
        (_, TaskStatus::Completed) => Some(refused("the task completed without a result")),
        (_, TaskStatus::Failed) => Some(refused("the task failed without an error")),
        (_, TaskStatus::Working | TaskStatus::InputRequired) => None,
    }
}

fn refused(sentence: &str) -> Outcome {
    Outcome::Refused(RpcError::new(RpcError::INTERNAL, sentence))
}
