//! Tasks that a server keeps, as we reach them: looked at, answered, stopped and followed, whatever the server's era.
//!
//! A server with sessions gives a result or a question only on a stream that is held open for it; here it is held on
//! behalf of whoever looks, so that a look shows all there is in either era.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::{Peer, accent::TaskModel};
use crate::{
    error::WireError,
    exchange::{self, Exchange, Handover, Outcome, Request, ExchangeTimeouts},
    json::Raw,
    message::{ClientCapabilities, RpcError, splice},
    task::{
        Depth, Inside, Status, Task, TaskPage, Unanswered,
        hosted::Hosted,
        spelling,
        watch::{Watched, see_through},
    },
};

/// The tasks of a server, on behalf of a caller with these capabilities.
#[derive(Clone, Debug)]
pub struct PeerTasks {
    peer: Peer,
    capabilities: Option<ClientCapabilities>,
}

/// Tasks whose results are waited for on behalf of whoever looks at them, by name.
#[derive(Debug, Default)]
pub(super) struct FollowedTasks {
    // Nothing awaits under this lock.
    tasks: Mutex<HashMap<String, FollowedTask>>,
}

#[derive(Debug)]
struct FollowedTask {
    hosted: Arc<Hosted>,
    _expiry: AbortOnDropHandle<()>,
}

/// A server that says it asks something, or has ended, is given so long to say what.
const SAYING: Duration = Duration::from_secs(2);
/// Nobody comes back to a task after so long.
const FOLLOWED: Duration = Duration::from_secs(3_600);

impl Peer {
    /// The server's tasks, on behalf of a caller with these capabilities; without any, with those of the connection.
    pub fn tasks(&self, capabilities: Option<ClientCapabilities>) -> PeerTasks {
        PeerTasks { peer: self.clone(), capabilities }
    }
}

// === impl PeerTasks ===

impl PeerTasks {
    /// How a task stands.
    pub async fn look(&self, id: &str, depth: Depth) -> Result<Task, Unanswered> {
        let task = self.task("tasks/get", id).await?;
        match (depth, self.task_model()?) {
            (Depth::Status, _) => Ok(task),
            (Depth::Whole, TaskModel::Polled) => self.check_declared(task),
            (Depth::Whole, TaskModel::SessionStream) => self.with_content(task).await,
        }
    }

    /// Follows a task to its end: what it asks is asked there, and its end is the exchange's. Leaving does not stop it.
    pub fn see_through(&self, id: &str, terms: ExchangeTimeouts) -> Exchange {
        match self.task_model() {
            Ok(TaskModel::SessionStream) => self.peer.open(self.task_request("tasks/result", id), terms),
            Ok(TaskModel::Polled) => {
                let router = self.peer.router();
                let (exchange, feed) = exchange::pair(terms, router.limits.unread_events);
                let followed = PolledTask { tasks: self.clone(), id: id.to_owned() };
                router.spawn(async move {
                    see_through(&followed, &feed).await;
                });
                exchange
            }
            Err(problem) => Exchange::ended(problem.into()),
        }
    }

    /// Gives answers, by key; keys it does not wait for are nothing to it.
    pub async fn answer(&self, id: &str, answers: Raw) -> Result<(), Unanswered> {
        match self.task_model()? {
            TaskModel::Polled => {
                let params = splice::object([("taskId", &Raw::of(id)), ("inputResponses", &answers)]);
                self.send(self.request("tasks/update", params)).await.map(drop)
            }
            TaskModel::SessionStream => {
                let followed = self.followed().find(id);
                match followed {
                    Some(hosted) => hosted.take(&answers),
                    // It asks nothing that anybody has seen; but it should be there.
                    None => drop(self.look(id, Depth::Status).await?),
                }
                Ok(())
            }
        }
    }

    /// Stops a task; gives how it stands then. One that is over stays as it is.
    pub async fn cancel(&self, id: &str) -> Result<Task, Unanswered> {
        let done = self.send(self.task_request("tasks/cancel", id)).await;
        self.followed().forget(id);
        match (self.task_model()?, done) {
            (TaskModel::SessionStream, Ok(result)) => read(&result),
            (TaskModel::Polled, Ok(_)) => self.look(id, Depth::Whole).await,
            (TaskModel::SessionStream, Err(problem)) => match self.look(id, Depth::Status).await {
                Ok(task) if task.status.is_over() => Ok(task),
                _ => Err(problem),
            },
            (TaskModel::Polled, Err(problem)) => Err(problem),
        }
    }

    /// The server's tasks, from where a page said that the next begins. Only a server with sessions lists them.
    pub async fn list(&self, from: Option<Raw>) -> Result<TaskPage, Unanswered> {
        if self.task_model()? == TaskModel::Polled {
            return Err(Unanswered::no_such_method("tasks/list"));
        }
        let params = splice::object(from.iter().map(|from| ("cursor", from)));
        let result = self.send(self.request("tasks/list", params)).await?;
        Ok(spelling::read_page(&result, self.peer.router().limits.listing_items))
    }

    /// What is inside a task of a session: its result once it is over, its questions while it waits.
    async fn with_content(&self, task: Task) -> Result<Task, Unanswered> {
        match task.status {
            Status::Working | Status::Cancelled => Ok(task),
            Status::InputRequired => {
                let said = self.follow(&task)?.until(SAYING, |said| !matches!(said.inside, Inside::Nothing)).await;
                Ok(match said.inside {
                    // What it asked was answered, and it does not know yet.
                    Inside::Nothing => Task { status: Status::Working, ..task },
                    inside => Task { inside, ..task },
                })
            }
            Status::Completed | Status::Failed => {
                let said = self.follow(&task)?.until(SAYING, |said| said.status.is_over()).await;
                if !said.status.is_over() {
                    return Err(WireError::protocol("the task is over, and its result does not come").into());
                }
                self.followed().forget(&task.id);
                Ok(Task { status: said.status, inside: said.inside, ..task })
            }
        }
    }

    /// Waits for a task's result on behalf of whoever looks at it.
    fn follow(&self, task: &Task) -> Result<Arc<Hosted>, Unanswered> {
        let limit = self.peer.router().limits.concurrent_requests;
        self.followed().follow(task, limit, || self.peer.open(self.task_request("tasks/result", &task.id), ExchangeTimeouts::unbounded()))
    }

    /// A server may ask only what was declared, and not too much of it.
    fn check_declared(&self, task: Task) -> Result<Task, Unanswered> {
        let Inside::Asks(questions) = &task.inside else { return Ok(task) };
        let router = self.peer.router();
        let limit = router.limits.server_requests_per_round;
        if limit < questions.len() {
            return Err(WireError::TooLarge { what: "number of questions at once", limit }.into());
        }
        let declared = self.capabilities.as_ref().unwrap_or(&router.client.capabilities);
        for question in questions {
            if let Some(needed) = declared.lacks(&question.method, question.params.as_ref()) {
                let problem = format!("asked `{}` although {needed} was not declared", question.method);
                return Err(WireError::Protocol(problem).into());
            }
        }
        Ok(task)
    }

    async fn task(&self, method: &'static str, id: &str) -> Result<Task, Unanswered> {
        read(&self.send(self.task_request(method, id)).await?)
    }

    fn task_request(&self, method: &'static str, id: &str) -> Request {
        self.request(method, Raw::of(&json!({ "taskId": id })))
    }

    fn request(&self, method: &'static str, params: Raw) -> Request {
        let mut request = Request::trusted(method, Some(params));
        request.capabilities.clone_from(&self.capabilities);
        request.handover = Handover::Allowed;
        request
    }

    async fn send(&self, request: Request) -> Result<Raw, Unanswered> {
        let method = request.method().to_owned();
        match self.peer.open(request, self.peer.timeouts().list).outcome().await {
            Outcome::Answered(result) => Ok(result),
            Outcome::Refused(error) => Err(Unanswered::Refused(error)),
            Outcome::Failed(error) => Err(error.into()),
            Outcome::TimedOut { kind, limit } => Err(WireError::TimedOut { kind, limit }.into()),
            Outcome::Cancelled => Err(WireError::Ended(format!("`{method}` was given up")).into()),
            Outcome::HandedOff(_) => {
                Err(WireError::protocol(format!("a task in the place of a `{method}` result")).into())
            }
        }
    }

    fn task_model(&self) -> Result<TaskModel, Unanswered> {
        Ok(self.peer.router().accent()?.task_model())
    }

    fn followed(&self) -> &Arc<FollowedTasks> {
        &self.peer.inner.followed
    }
}

fn read(result: &Raw) -> Result<Task, Unanswered> {
    Task::view(result).ok_or_else(|| WireError::protocol("a task without `taskId` or `status`").into())
}

// === impl FollowedTasks ===

impl FollowedTasks {
    fn find(&self, id: &str) -> Option<Arc<Hosted>> {
        self.tasks.lock().get(id).map(|waited| Arc::clone(&waited.hosted))
    }

    fn forget(&self, id: &str) {
        let forgotten = self.tasks.lock().remove(id);
        drop(forgotten);
    }

    fn follow(
        self: &Arc<Self>,
        task: &Task,
        limit: usize,
        wait: impl FnOnce() -> Exchange,
    ) -> Result<Arc<Hosted>, Unanswered> {
        let mut tasks = self.tasks.lock();
        if let Some(waited) = tasks.get(&task.id) {
            return Ok(Arc::clone(&waited.hosted));
        }
        if limit <= tasks.len() {
            let message = format!("more than {limit} tasks are followed at once");
            return Err(Unanswered::Refused(RpcError::new(RpcError::INTERNAL, &message)));
        }
        let begun = Task { status: Status::Working, inside: Inside::Nothing, ..task.clone() };
        let hosted = Hosted::keep(begun, wait());
        let (me, id) = (Arc::downgrade(self), task.id.clone());
        let expiry = tokio::runtime::Handle::current().spawn(async move {
            tokio::time::sleep(FOLLOWED).await;
            if let Some(me) = me.upgrade() {
                me.forget(&id);
            }
        });
        let waited = FollowedTask { hosted: Arc::clone(&hosted), _expiry: AbortOnDropHandle::new(expiry) };
        tasks.insert(task.id.clone(), waited);
        Ok(hosted)
    }
}

/// A task that is looked at every now and then.
struct PolledTask {
    tasks: PeerTasks,
    id: String,
}

impl Watched for PolledTask {
    fn look(&self) -> BoxFuture<'_, Result<Task, Unanswered>> {
        Box::pin(self.tasks.look(&self.id, Depth::Whole))
    }

    fn answer(&self, answers: Raw) -> BoxFuture<'_, Result<(), Unanswered>> {
        Box::pin(self.tasks.answer(&self.id, answers))
    }

    fn changed(&self, task: &Task) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(task.interval()))
    }
}
