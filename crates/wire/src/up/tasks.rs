//! Tasks of a server, for both eras: read, answered, cancelled, followed and listed.
//!
//! A stateful server sends a task's result and server requests only on the stream of a pending `tasks/result`. This module
//! keeps that request open for the caller, so that reading a task returns its whole content in both eras.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::{Peer, accent::TaskModel, task_hints::TaskHints};
use crate::{
    error::WireError,
    exchange::{self, Exchange, ExchangeTimeouts, Handover, Outcome, Request},
    json::Raw,
    limit::Limits,
    message::{ClientCapabilities, RpcError, splice},
    task::{
        Task, TaskContent, TaskDetail, TaskError, TaskPage, TaskStatus, codec,
        follow::{TaskHandle, follow},
        hosted::HostedTask,
    },
};

/// The tasks of a server, on behalf of a caller with these capabilities.
#[derive(Clone, Debug)]
pub struct PeerTasks {
    pub(super) peer: Peer,
    pub(super) capabilities: Option<ClientCapabilities>,
    /// Time between two polls of a task whose server suggests none.
    usual_delay: Duration,
}

/// Pending `tasks/result` requests, by task id.
#[derive(Debug, Default)]
pub(super) struct FollowedTasks {
    // No await under this lock.
    tasks: Mutex<HashMap<String, PendingResult>>,
}

#[derive(Debug)]
struct PendingResult {
    hosted: Arc<HostedTask>,
    _expiry: AbortOnDropHandle<()>,
}

/// Time between two polls of a task whose server suggests none, by default.
const USUAL_DELAY: Duration = Duration::from_secs(5);
/// How long to wait for the result or server request that a task's status announces.
const CONTENT_TIMEOUT: Duration = Duration::from_secs(2);
/// A pending `tasks/result` is dropped after this time.
const PENDING_RESULT_LIFETIME: Duration = Duration::from_secs(3_600);

impl Peer {
    /// Tasks of the server, for a caller with these capabilities; `None` uses those of the connection.
    pub fn tasks(&self, capabilities: Option<ClientCapabilities>) -> PeerTasks {
        PeerTasks { peer: self.clone(), capabilities, usual_delay: USUAL_DELAY }
    }
}

// === impl PeerTasks ===

impl PeerTasks {
    /// The same tasks, polled at this interval where the server suggests none.
    #[must_use]
    pub fn polled_every(self, usual_delay: Duration) -> Self {
        Self { usual_delay, ..self }
    }

    /// Time until the next poll of a task.
    pub fn delay(&self, task: &Task) -> Duration {
        task.poll_delay(self.usual_delay)
    }

    /// Reads a task.
    pub async fn get(&self, id: &str, depth: TaskDetail) -> Result<Task, TaskError> {
        let task = self.task("tasks/get", id).await?;
        match (depth, self.task_model()?) {
            (TaskDetail::Status, _) => Ok(task),
            (TaskDetail::Full, TaskModel::Polled) => self.check_declared(task),
            (TaskDetail::Full, TaskModel::SessionStream) => self.with_content(task).await,
        }
    }

    /// Follows a task to its end: its server requests and its result become those of the exchange. Dropping the exchange
    /// does not cancel the task.
    pub fn follow(&self, id: &str, timeouts: ExchangeTimeouts) -> Exchange {
        match self.task_model() {
            Ok(TaskModel::SessionStream) => self.peer.open(self.task_request("tasks/result", id), timeouts),
            Ok(TaskModel::Polled) => {
                let router = self.peer.router();
                let (exchange, feed) = exchange::pair(timeouts, router.limits.unread_events);
                let followed = PolledTask { tasks: self.clone(), id: id.to_owned(), hints: Mutex::default() };
                router.spawn(async move {
                    follow(&followed, &feed).await;
                });
                exchange
            }
            Err(problem) => Exchange::ended(problem.into()),
        }
    }

    /// Whether a followed task is polled, which reports its status messages; else its result is awaited.
    pub fn is_polled(&self) -> bool {
        matches!(self.task_model(), Ok(TaskModel::Polled))
    }

    /// Answers server requests of a task, by key; unknown keys are ignored.
    pub async fn answer(&self, id: &str, answers: Raw) -> Result<(), TaskError> {
        match self.task_model()? {
            TaskModel::Polled => {
                let params = splice::object([("taskId", &Raw::of(id)), ("inputResponses", &answers)]);
                self.send(self.request("tasks/update", params)).await.map(drop)
            }
            TaskModel::SessionStream => {
                let followed = self.followed().find(id);
                match followed {
                    Some(hosted) => hosted.take(&answers),
                    // No server request was shown yet; only checks that the task exists.
                    None => drop(self.get(id, TaskDetail::Status).await?),
                }
                Ok(())
            }
        }
    }

    /// Cancels a task and returns its state. A task that has ended is unchanged.
    pub async fn cancel(&self, id: &str) -> Result<Task, TaskError> {
        let done = self.send(self.task_request("tasks/cancel", id)).await;
        self.followed().forget(id);
        self.peer.router().task_progress.end(id);
        match (self.task_model()?, done) {
            (TaskModel::SessionStream, Ok(result)) => read(&result),
            (TaskModel::Polled, Ok(_)) => self.get(id, TaskDetail::Full).await,
            (TaskModel::SessionStream, Err(problem)) => match self.get(id, TaskDetail::Status).await {
                Ok(task) if task.status.is_finished() => Ok(task),
                _ => Err(problem),
            },
            (TaskModel::Polled, Err(problem)) => Err(problem),
        }
    }

    /// Lists the tasks of the server, one page from the given cursor. Only stateful servers support it.
    pub async fn list(&self, from: Option<Raw>) -> Result<TaskPage, TaskError> {
        if self.task_model()? == TaskModel::Polled {
            return Err(TaskError::no_such_method("tasks/list"));
        }
        let params = splice::object(from.iter().map(|from| ("cursor", from)));
        let result = self.send(self.request("tasks/list", params)).await?;
        Ok(codec::read_page(&result, self.peer.router().limits.listing_items))
    }

    /// Adds the content of a task of a stateful server: its result, or its open server requests.
    async fn with_content(&self, task: Task) -> Result<Task, TaskError> {
        match task.status {
            TaskStatus::Working | TaskStatus::Cancelled => Ok(task),
            TaskStatus::InputRequired => {
                let current = self
                    .start_following(&task)?
                    .until(CONTENT_TIMEOUT, |current| !matches!(current.content, TaskContent::Nothing))
                    .await;
                Ok(match current.content {
                    // Its server request is answered, and its status is not updated yet.
                    TaskContent::Nothing => Task { status: TaskStatus::Working, ..task },
                    content => Task { content, ..task },
                })
            }
            TaskStatus::Completed | TaskStatus::Failed => {
                let current =
                    self.start_following(&task)?.until(CONTENT_TIMEOUT, |current| current.status.is_finished()).await;
                if !current.status.is_finished() {
                    return Err(
                        WireError::protocol("the task has ended, but the server does not send its result").into()
                    );
                }
                self.followed().forget(&task.id);
                Ok(Task { status: current.status, content: current.content, ..task })
            }
        }
    }

    /// Returns the pending `tasks/result` of a task; sends one if necessary.
    fn start_following(&self, task: &Task) -> Result<Arc<HostedTask>, TaskError> {
        self.followed().find_or_start(task, &self.peer.router().limits, || {
            self.peer.open(self.task_request("tasks/result", &task.id), ExchangeTimeouts::unbounded())
        })
    }

    /// Fails if the task has undeclared or too many server requests.
    fn check_declared(&self, task: Task) -> Result<Task, TaskError> {
        let TaskContent::Requests(requests) = &task.content else { return Ok(task) };
        let router = self.peer.router();
        let limit = router.limits.server_requests_per_round;
        if limit < requests.len() {
            return Err(WireError::TooLarge { what: "number of server requests at once", limit }.into());
        }
        let declared = self.capabilities.as_ref().unwrap_or(&router.client.capabilities);
        for request in requests {
            if let Some(needed) = declared.lacks(&request.method, request.params.as_ref()) {
                let problem = format!("the server requested `{}`, but {needed} was not declared", request.method);
                return Err(WireError::Protocol(problem).into());
            }
        }
        Ok(task)
    }

    async fn task(&self, method: &'static str, id: &str) -> Result<Task, TaskError> {
        let task = read(&self.send(self.task_request(method, id)).await?)?;
        if task.status.is_finished() {
            self.peer.router().task_progress.end(id);
        }
        Ok(task)
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

    async fn send(&self, request: Request) -> Result<Raw, TaskError> {
        let method = request.method().to_owned();
        match self.peer.open(request, self.peer.timeouts().list).outcome().await {
            Outcome::Answered(result) => Ok(result),
            Outcome::Refused(error) => Err(TaskError::Refused(error)),
            Outcome::Failed(error) => Err(error.into()),
            Outcome::TimedOut { kind, limit } => Err(WireError::TimedOut { kind, limit }.into()),
            Outcome::Cancelled => Err(WireError::Ended(format!("`{method}` was cancelled")).into()),
            Outcome::HandedOff(_) => {
                Err(WireError::protocol(format!("unexpected task instead of a `{method}` result")).into())
            }
        }
    }

    fn task_model(&self) -> Result<TaskModel, TaskError> {
        Ok(self.peer.router().accent()?.task_model())
    }

    fn followed(&self) -> &Arc<FollowedTasks> {
        &self.peer.inner.followed
    }
}

fn read(result: &Raw) -> Result<Task, TaskError> {
    Task::view(result).ok_or_else(|| WireError::protocol("the task has no `taskId` or `status`").into())
}

// === impl FollowedTasks ===

impl FollowedTasks {
    fn find(&self, id: &str) -> Option<Arc<HostedTask>> {
        self.tasks.lock().get(id).map(|waited| Arc::clone(&waited.hosted))
    }

    fn forget(&self, id: &str) {
        let forgotten = self.tasks.lock().remove(id);
        drop(forgotten);
    }

    fn find_or_start(
        self: &Arc<Self>,
        task: &Task,
        limits: &Limits,
        wait: impl FnOnce() -> Exchange,
    ) -> Result<Arc<HostedTask>, TaskError> {
        let mut tasks = self.tasks.lock();
        if let Some(waited) = tasks.get(&task.id) {
            return Ok(Arc::clone(&waited.hosted));
        }
        let limit = limits.concurrent_requests;
        if limit <= tasks.len() {
            let message = format!("more than {limit} task results are pending");
            return Err(TaskError::Refused(RpcError::new(RpcError::INTERNAL, &message)));
        }
        let begun = Task { status: TaskStatus::Working, content: TaskContent::Nothing, ..task.clone() };
        let hosted = HostedTask::start(begun, wait(), limits.memory.clone());
        let (me, id) = (Arc::downgrade(self), task.id.clone());
        let expiry = tokio::runtime::Handle::current().spawn(async move {
            tokio::time::sleep(PENDING_RESULT_LIFETIME).await;
            if let Some(me) = me.upgrade() {
                me.forget(&id);
            }
        });
        let waited = PendingResult { hosted: Arc::clone(&hosted), _expiry: AbortOnDropHandle::new(expiry) };
        tasks.insert(task.id.clone(), waited);
        Ok(hosted)
    }
}

/// A task of a stateless server, read at its poll interval.
struct PolledTask {
    tasks: PeerTasks,
    id: String,
    /// What the server has announced since the last read.
    hints: Mutex<Option<TaskHints>>,
}

impl TaskHandle for PolledTask {
    fn get(&self) -> BoxFuture<'_, Result<Task, TaskError>> {
        // Before it is read: what changes afterwards is announced here.
        let before = self.hints.lock().take();
        *self.hints.lock() = Some(self.tasks.hints_after(before, &self.id));
        Box::pin(self.tasks.get(&self.id, TaskDetail::Full))
    }

    fn answer(&self, answers: Raw) -> BoxFuture<'_, Result<(), TaskError>> {
        Box::pin(self.tasks.answer(&self.id, answers))
    }

    fn wait_for_change(&self, task: &Task) -> BoxFuture<'_, ()> {
        let delay = self.tasks.delay(task);
        let hints = self.hints.lock().take();
        Box::pin(async move {
            let mut hints = hints.unwrap_or_else(|| self.tasks.hints(&self.id));
            hints.pause(delay).await;
            *self.hints.lock() = Some(hints);
        })
    }
}
