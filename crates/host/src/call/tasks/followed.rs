//! A call that its server continues as a task, for a caller that waits for the result: its exchange goes on as that of
//! the task. The result is requested only when the task has ended or asks for something: some servers answer an earlier
//! request with an error or with nothing. Cancelling or dropping the exchange cancels the task at the server.

use std::{
    fmt,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::json;
use toolway_wire::{
    exchange::{Exchange, ExchangeEvent, ExchangeInterceptor, ExchangeTimeouts, Handover, Outcome},
    json::Raw,
    message::capability,
    task::{Task, TaskDetail, TaskError, TaskStatus, TaskSupport},
    up::PeerTasks,
};

use crate::{
    call::{CallKind, CallRequest, TaskHandling, find::Found},
    task::FIRST_READ,
};

/// Time to cancel a task at its server.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(30);

/// A task that stands for a call.
struct FollowedTask {
    tasks: PeerTasks,
    id: String,
    stage: FollowStage,
    /// The last status message, and how many there were.
    reported: (Option<String>, u64),
}

enum FollowStage {
    /// The server works on it: its status is read from time to time.
    Waiting(StatusRead),
    Running {
        exchange: Exchange,
        /// Reads the status of a task whose exchange does not report it.
        status: Option<StatusRead>,
    },
    Cancelling(BoxFuture<'static, ()>),
    Ended,
}

/// Waits for the poll interval, then reads the status.
type StatusRead = BoxFuture<'static, Result<Task, TaskError>>;

/// Whether the server may, or has to, make a task of a call that the host composed itself; `None`: a relayed request says
/// itself what its client wants.
pub(in crate::call) fn handover(request: &CallRequest, found: &Found) -> Option<Handover> {
    if request.whole.is_some() || request.target.kind() != CallKind::Tool {
        return None;
    }
    let Some(capabilities) = &found.capabilities else { return Some(Handover::Never) };
    let support = || found.tool.as_ref().map_or(TaskSupport::Forbidden, |tool| TaskSupport::of(&tool.item.raw));
    let is_wanted = |support| match request.task {
        // A tool that can answer at once does, unless its caller does not wait.
        TaskHandling::Await | TaskHandling::Hosted => support == TaskSupport::Required,
        TaskHandling::Background | TaskHandling::HandOver => support != TaskSupport::Forbidden,
    };
    Some(if capabilities.extension(capability::TASKS) {
        Handover::Allowed
    } else if capabilities.makes_tasks_of_calls() && is_wanted(support()) {
        Handover::Wanted(request.task_ttl.or(found.connection.wanted().tasks.ttl))
    } else {
        Handover::Never
    })
}

/// The exchange of a task to its end. A task may take as long as it wants.
pub(in crate::call) fn follow(tasks: PeerTasks, task: &Task) -> Exchange {
    let id = task.id.clone();
    let stage = match tasks.is_polled() {
        true => FollowStage::Running { exchange: tasks.follow(&id, ExchangeTimeouts::unbounded()), status: None },
        false => FollowStage::Waiting(read_status(tasks.clone(), id.clone(), FIRST_READ.min(tasks.delay(task)))),
    };
    Exchange::through(FollowedTask { tasks, id, stage, reported: (None, 0) })
}

fn read_status(tasks: PeerTasks, id: String, delay: Duration) -> StatusRead {
    Box::pin(async move {
        tokio::time::sleep(delay).await;
        tasks.get(&id, TaskDetail::Status).await
    })
}

impl FollowedTask {
    /// Polls the status; returns a new status message as progress.
    fn poll_status(&mut self, context: &mut Context<'_>) -> Poll<ExchangeEvent> {
        loop {
            let FollowStage::Running { status: Some(status), .. } = &mut self.stage else { return Poll::Pending };
            let read = std::task::ready!(status.as_mut().poll(context));
            let FollowStage::Running { status, .. } = &mut self.stage else { return Poll::Pending };
            let Ok(task) = read else {
                // The exchange itself reports what is wrong.
                *status = None;
                return Poll::Pending;
            };
            let delay = self.tasks.delay(&task);
            *status = (!task.status.is_finished()).then(|| read_status(self.tasks.clone(), self.id.clone(), delay));
            if let Some(event) = self.report(task.message) {
                return Poll::Ready(event);
            }
        }
    }

    /// Reads the status until the task has ended or asks for something, then requests its result.
    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        loop {
            let FollowStage::Waiting(status) = &mut self.stage else { return self.poll_next(context) };
            let read = std::task::ready!(status.as_mut().poll(context));
            let mut message = None;
            self.stage = match read {
                Ok(task) if task.status == TaskStatus::Working => {
                    let delay = self.tasks.delay(&task);
                    message = task.message;
                    FollowStage::Waiting(read_status(self.tasks.clone(), self.id.clone(), delay))
                }
                // Requests of the server come with the pending result; so does what is wrong with the task.
                read => {
                    let exchange = self.tasks.follow(&self.id, ExchangeTimeouts::unbounded());
                    let status = read
                        .ok()
                        .filter(|task| !task.status.is_finished())
                        .map(|task| read_status(self.tasks.clone(), self.id.clone(), self.tasks.delay(&task)));
                    FollowStage::Running { exchange, status }
                }
            };
            if let Some(event) = self.report(message) {
                return Poll::Ready(Some(event));
            }
        }
    }

    fn report(&mut self, message: Option<String>) -> Option<ExchangeEvent> {
        if message.is_none() || self.reported.0 == message {
            return None;
        }
        self.reported = (message, self.reported.1 + 1);
        Some(ExchangeEvent::Progress(Raw::of(&json!({ "progress": self.reported.1, "message": self.reported.0 }))))
    }

    /// Cancels the task at its server.
    fn cancel_task(&self) -> BoxFuture<'static, ()> {
        let (tasks, id) = (self.tasks.clone(), self.id.clone());
        Box::pin(async move {
            match tokio::time::timeout(CANCEL_TIMEOUT, tasks.cancel(&id)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::warn!(%error, task = id, "cannot cancel a task at its server"),
                Err(_) => tracing::warn!(task = id, "the server does not answer the cancellation of a task"),
            }
        })
    }
}

impl ExchangeInterceptor for FollowedTask {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        match &mut self.stage {
            FollowStage::Ended => Poll::Ready(None),
            FollowStage::Waiting(_) => self.poll_waiting(context),
            FollowStage::Cancelling(cancelling) => {
                std::task::ready!(cancelling.as_mut().poll(context));
                self.stage = FollowStage::Ended;
                Poll::Ready(Some(ExchangeEvent::Ended(Outcome::Cancelled)))
            }
            FollowStage::Running { exchange, .. } => match exchange.poll_next(context) {
                Poll::Ready(event) => {
                    if matches!(event, Some(ExchangeEvent::Ended(_)) | None) {
                        self.stage = FollowStage::Ended;
                    }
                    Poll::Ready(event)
                }
                Poll::Pending => self.poll_status(context).map(Some),
            },
        }
    }

    fn cancel(&mut self, _reason: &str) {
        if matches!(self.stage, FollowStage::Waiting(_) | FollowStage::Running { .. }) {
            self.stage = FollowStage::Cancelling(self.cancel_task());
        }
    }

    fn missed(&self) -> u64 {
        match &self.stage {
            FollowStage::Running { exchange, .. } => exchange.missed(),
            FollowStage::Waiting(_) | FollowStage::Cancelling(_) | FollowStage::Ended => 0,
        }
    }
}

impl Drop for FollowedTask {
    fn drop(&mut self) {
        let cancelling = match std::mem::replace(&mut self.stage, FollowStage::Ended) {
            FollowStage::Waiting(_) | FollowStage::Running { .. } => self.cancel_task(),
            FollowStage::Cancelling(cancelling) => cancelling,
            FollowStage::Ended => return,
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(cancelling);
        }
    }
}

impl fmt::Debug for FollowedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowedTask").field("id", &self.id).finish_non_exhaustive()
    }
}
