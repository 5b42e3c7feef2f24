//! One hosted task: drives its exchange, keeps open server requests and notifies followers. Its result is charged to the
//! byte budget as long as it is kept; if that is exhausted, the task fails.

use std::{
    collections::HashSet,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::{self, BoxFuture};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::{Task, TaskContent, TaskError, TaskStatus, follow::TaskHandle};
use crate::{
    budget::{Charge, MemoryBudget},
    exchange::{Answer, Exchange, ExchangeEvent, Outcome, ServerRequest, ServerRequestDetails, ServerRequestId},
    json::Raw,
    message::RpcError,
};

/// A task of this process.
#[derive(Debug)]
pub(crate) struct HostedTask {
    // Nothing awaits under these locks.
    state: Mutex<State>,
    /// Version, incremented at each change to wake followers.
    changed: watch::Sender<u64>,
    driver: Mutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Debug)]
struct State {
    task: Task,
    /// Open server requests by key, oldest first.
    server_requests: Vec<(String, ServerRequest)>,
    used: HashSet<String>,
    /// Charge for the result.
    charge: Charge,
}

/// Follows one hosted task from a known version on.
#[derive(Debug)]
pub(crate) struct HostedTaskFollower {
    hosted: Arc<HostedTask>,
    version: Mutex<watch::Receiver<u64>>,
}

// === impl HostedTask ===

impl HostedTask {
    /// Starts a task that drives this exchange. Its result is charged to `memory`.
    pub(crate) fn start(task: Task, exchange: Exchange, memory: MemoryBudget) -> Arc<Self> {
        let state = State { task, server_requests: Vec::new(), used: HashSet::new(), charge: Charge::empty(memory) };
        let hosted =
            Arc::new(Self { state: Mutex::new(state), changed: watch::Sender::new(0), driver: Mutex::new(None) });
        // Spawned when the task exists: the exchange may have ended already, and its end must find the task.
        let driver = tokio::runtime::Handle::current().spawn(drive(Arc::downgrade(&hosted), exchange));
        *hosted.driver.lock() = Some(AbortOnDropHandle::new(driver));
        hosted
    }

    /// Current state with content.
    pub(crate) fn snapshot(&self) -> Task {
        let state = self.state.lock();
        let mut task = state.task.clone();
        if !state.server_requests.is_empty() {
            let details = |(key, request): &(String, ServerRequest)| ServerRequestDetails {
                key: Some(key.clone()),
                ..request.details.clone()
            };
            task.content = TaskContent::Requests(state.server_requests.iter().map(details).collect());
        }
        task
    }

    fn handle_event(&self, event: ExchangeEvent) {
        match event {
            ExchangeEvent::ServerRequest(server_request) => self.add_server_request(server_request),
            ExchangeEvent::Withdrawn(id) => self.withdraw(id),
            ExchangeEvent::Progress(params) => self.set_message(&params),
            // Tasks have no log.
            ExchangeEvent::Log(_) => {}
            ExchangeEvent::Ended(outcome) => match outcome {
                Outcome::Answered(result) => self.end(TaskStatus::Completed, TaskContent::Result(result)),
                Outcome::Refused(error) => self.end(TaskStatus::Failed, TaskContent::Error(error)),
                Outcome::Cancelled => self.end(TaskStatus::Cancelled, TaskContent::Nothing),
                other => self.end(TaskStatus::Failed, TaskContent::Error(failure(&other))),
            },
        }
    }

    /// Adds a server request. Keys are unique within a task.
    fn add_server_request(&self, server_request: ServerRequest) {
        self.change(|state| {
            let given = server_request.details.key.clone().filter(|key| !state.used.contains(key));
            let minted = || (1..).map(|number| format!("ask-{number}")).find(|key| !state.used.contains(key));
            let key = given.or_else(minted).unwrap_or_default();
            state.used.insert(key.clone());
            state.server_requests.push((key, server_request));
        });
    }

    fn withdraw(&self, id: ServerRequestId) {
        self.change(|state| state.server_requests.retain(|(_, request)| request.details.id != id));
    }

    fn set_message(&self, progress: &Raw) {
        let message = progress.get("message").as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
        if message.is_some() {
            self.change(|state| state.task.message = message);
        }
    }

    /// Passes answers to open server requests; unknown keys are ignored.
    pub(crate) fn take(&self, answers: &Raw) {
        let mut given = Vec::new();
        self.change(|state| {
            for (key, request) in std::mem::take(&mut state.server_requests) {
                match answers.get(&key) {
                    Some(answer) => given.push((request, answer)),
                    None => state.server_requests.push((key, request)),
                }
            }
        });
        // Outside the lock, because the exchange may continue at once.
        given.into_iter().for_each(|(request, answer)| request.answer(Answer::Given(answer)));
    }

    /// Cancels the task unless it is finished. Dropping the driver drops the exchange, which cancels it upstream.
    pub(crate) fn cancel(&self) {
        self.end(TaskStatus::Cancelled, TaskContent::Nothing);
        drop(self.driver.lock().take());
    }

    /// Waits until `enough` accepts the state, at most for `timeout`; returns the state then.
    pub(crate) async fn until(self: &Arc<Self>, timeout: Duration, enough: impl Fn(&Task) -> bool) -> Task {
        let follower = HostedTaskFollower::new(Arc::clone(self));
        let waiting = async {
            loop {
                let task = follower.snapshot();
                if enough(&task) {
                    return;
                }
                follower.wait_for_change(&task).await;
            }
        };
        // After the timeout, the current state is returned.
        drop(tokio::time::timeout(timeout, waiting).await);
        self.snapshot()
    }

    fn end(&self, status: TaskStatus, content: TaskContent) {
        let mut unanswered = Vec::new();
        self.change(|state| {
            if !state.task.status.is_finished() {
                unanswered = std::mem::take(&mut state.server_requests);
                (state.task.status, state.task.content) = state.charged(status, content);
            }
        });
        drop(unanswered);
    }

    fn change(&self, act: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        act(&mut state);
        let status = match state.task.status {
            finished if finished.is_finished() => finished,
            _ if state.server_requests.is_empty() => TaskStatus::Working,
            _ => TaskStatus::InputRequired,
        };
        state.task.touch(status);
        drop(state);
        self.changed.send_modify(|version| *version += 1);
    }
}

impl State {
    /// The end of the task with its content charged; a failure if it does not fit.
    fn charged(&mut self, status: TaskStatus, content: TaskContent) -> (TaskStatus, TaskContent) {
        match self.charge.set(content.size()) {
            Ok(()) => (status, content),
            Err(error) => {
                let error = RpcError::new(RpcError::INTERNAL, &format!("the result cannot be kept: {error}"));
                (TaskStatus::Failed, TaskContent::Error(error))
            }
        }
    }
}

impl HostedTaskFollower {
    pub(crate) fn new(hosted: Arc<HostedTask>) -> Self {
        let version = Mutex::new(hosted.changed.subscribe());
        Self { hosted, version }
    }

    fn snapshot(&self) -> Task {
        // Marked first, so that a change during the read is noticed.
        self.version.lock().mark_unchanged();
        self.hosted.snapshot()
    }
}

impl TaskHandle for HostedTaskFollower {
    fn get(&self) -> BoxFuture<'_, Result<Task, TaskError>> {
        Box::pin(future::ready(Ok(self.snapshot())))
    }

    fn answer(&self, answers: Raw) -> BoxFuture<'_, Result<(), TaskError>> {
        self.hosted.take(&answers);
        Box::pin(future::ready(Ok(())))
    }

    fn wait_for_change(&self, _task: &Task) -> BoxFuture<'_, ()> {
        let mut version = self.version.lock().clone();
        // The sender lives as long as this value.
        Box::pin(async move { drop(version.changed().await) })
    }
}

/// Drives the exchange of a task as long as the task exists.
async fn drive(hosted: Weak<HostedTask>, mut exchange: Exchange) {
    while let Some(event) = exchange.next().await {
        match hosted.upgrade() {
            Some(hosted) => hosted.handle_event(event),
            None => return,
        }
    }
}

fn failure(outcome: &Outcome) -> RpcError {
    let sentence = match outcome {
        Outcome::Failed(error) => error.to_string(),
        Outcome::TimedOut { kind, limit } => kind.describe(*limit),
        _ => "the task ended without a result".to_owned(),
    };
    RpcError::new(RpcError::INTERNAL, &sentence)
}
