//! A task followed to its end as an exchange, whoever keeps it: looked at again and again, its questions put once each.

use std::collections::HashMap;

use futures_util::{
    StreamExt,
    future::{BoxFuture, FutureExt},
    stream::FuturesUnordered,
};
use serde_json::json;

use super::{Inside, Status, Task, Unanswered};
use crate::{
    exchange::{Answer, ServerRequestId, Feed, Outcome, ServerRequestDetails},
    json::Raw,
    message::{RpcError, splice},
};

/// One task, as its keeper lets it be followed.
pub(crate) trait Watched: Send + Sync {
    /// The whole of it.
    fn look(&self) -> BoxFuture<'_, Result<Task, Unanswered>>;

    /// Gives answers, by key.
    fn answer(&self, answers: Raw) -> BoxFuture<'_, Result<(), Unanswered>>;

    /// Resolves when it is worth to look again.
    fn changed(&self, task: &Task) -> BoxFuture<'_, ()>;
}

/// Follows a task to its end; whether somebody was there to see it. When the caller leaves, the task goes on.
pub(crate) async fn see_through(watched: &dyn Watched, feed: &Feed) -> bool {
    let mut following =
        Following { watched, feed, put: HashMap::new(), answers: FuturesUnordered::new(), told: None, asked: 0 };
    tokio::select! {
        outcome = following.outcome() => feed.end(outcome),
        () = feed.cancelled() => false,
    }
}

struct Following<'a> {
    watched: &'a dyn Watched,
    feed: &'a Feed,
    /// The questions that were put, by key.
    put: HashMap<String, Put>,
    answers: FuturesUnordered<BoxFuture<'static, (String, Answer)>>,
    /// What was last said of it, and how often something was.
    told: Option<(String, u64)>,
    /// Questions put so far.
    asked: u64,
}

struct Put {
    id: ServerRequestId,
    method: String,
    answered: bool,
}

impl Following<'_> {
    async fn outcome(&mut self) -> Outcome {
        loop {
            let task = match self.watched.look().await {
                Ok(task) => task,
                Err(problem) => return problem.into(),
            };
            match end_of(&task) {
                Some(outcome) => return outcome,
                None => self.tell(&task),
            }
            let answered = tokio::select! {
                () = self.watched.changed(&task) => continue,
                Some(answered) = self.answers.next(), if !self.answers.is_empty() => answered,
            };
            if let Err(outcome) = self.pass_on(answered).await {
                return outcome;
            }
        }
    }

    /// Puts what it newly asks, takes back what it no longer does, and reports what it says.
    fn tell(&mut self, task: &Task) {
        let asks: &[ServerRequestDetails] = if let Inside::Asks(asks) = &task.inside { asks } else { &[] };
        let asked = |key: &str| asks.iter().any(|ask| ask.key.as_deref() == Some(key));
        let gone: Vec<String> = self.put.keys().filter(|key| !asked(key)).cloned().collect();
        for put in gone.iter().filter_map(|key| self.put.remove(key)).filter(|put| !put.answered) {
            self.feed.withdraw(put.id);
        }
        for question in asks {
            self.ask(question);
        }
        self.report(task);
    }

    fn ask(&mut self, question: &ServerRequestDetails) {
        let Some(key) = question.key.clone().filter(|key| !self.put.contains_key(key)) else { return };
        self.asked += 1;
        let id = ServerRequestId(self.asked);
        self.put.insert(key.clone(), Put { id, method: question.method.clone(), answered: false });
        let answer = self.feed.ask(ServerRequestDetails { id, ..question.clone() });
        self.answers.push(answer.map(move |answer| (key, answer)).boxed());
    }

    fn report(&mut self, task: &Task) {
        let Some(message) = &task.message else { return };
        let count = match &self.told {
            Some((told, _)) if told == message => return,
            Some((_, count)) => count + 1,
            None => 1,
        };
        self.feed.progress(Raw::of(&json!({ "progress": count, "message": message })));
        self.told = Some((message.clone(), count));
    }

    /// Gives one answer to the task. Only an elicitation can be refused on the way to a task; nothing else has words for
    /// it there.
    async fn pass_on(&mut self, (key, answer): (String, Answer)) -> Result<(), Outcome> {
        // Taken back meanwhile.
        let Some(put) = self.put.get_mut(&key) else { return Ok(()) };
        put.answered = true;
        let given = match answer {
            Answer::Refused(_) | Answer::Unavailable if put.method == "elicitation/create" => Answer::closed_form(),
            answer => answer.into_result().map_err(Outcome::Refused)?,
        };
        let answers = splice::object([(key.as_str(), &given)]);
        self.watched.answer(answers).await.map_err(Outcome::from)
    }
}

/// The end of an exchange that follows a task, once that is over.
fn end_of(task: &Task) -> Option<Outcome> {
    match (&task.inside, task.status) {
        (Inside::Result(result), _) => Some(Outcome::Answered(result.clone())),
        (Inside::Error(error), _) => Some(Outcome::Refused(error.clone())),
        (_, Status::Cancelled) => Some(refused("the task was cancelled")),
        (_, Status::Completed) => Some(refused("the task has completed without a result")),
        (_, Status::Failed) => Some(refused("the task has failed without an error")),
        (_, Status::Working | Status::InputRequired) => None,
    }
}

fn refused(sentence: &str) -> Outcome {
    Outcome::Refused(RpcError::new(RpcError::INTERNAL, sentence))
}
