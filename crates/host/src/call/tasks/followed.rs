//! A call that its server continues as a task, for a caller that waits for the result: its exchange goes on as that of
//! the task. The result is requested only when the task has ended or asks for something: some servers answer an earlier
//! request with an error or with nothing. Cancelling or dropping the exchange cancels the task at the server. A server that
//! keeps its tasks and cannot be reached is asked again for a while.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::time::Instant;
use toolway_config::ServerName;
use toolway_wire::{
    error::WireError,
    exchange::{Exchange, ExchangeEvent, ExchangeInterceptor, ExchangeTimeouts, Handover, Outcome},
    json::Raw,
    message::capability,
    task::{Task, TaskDetail, TaskError, TaskStatus, TaskSupport},
    up::{PeerTasks, TaskHints},
};

use super::PolledTasks;
use crate::{
    call::{CallKind, CallOutcome, CallRequest, CallerContext, TaskHandling, find::Found},
    host::Inner,
    task::{FIRST_READ, UNREACHABLE_FOR, pause_after},
};

/// Time to cancel a task at its server.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(30);

/// How a task is reached again after its connection has failed.
pub(in crate::call) struct Reconnection {
    pub(in crate::call) host: Arc<Inner>,
    pub(in crate::call) server: ServerName,
    pub(in crate::call) caller_context: CallerContext,
}

/// A task that stands for a call.
struct FollowedTask {
    tasks: PeerTasks,
    /// Keeps the connection over which it was reached again.
    access: Option<PolledTasks>,
    /// `None` if the task ends with its connection.
    again: Option<Arc<Reconnection>>,
    /// Since when the server cannot be reached.
    unreachable_since: Option<Instant>,
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
    /// The server cannot be reached; it is asked again after a pause.
    Reconnecting(BoxFuture<'static, Result<PolledTasks, CallOutcome>>),
    Cancelling(BoxFuture<'static, ()>),
    Ended,
}

/// Waits for the poll interval, then reads the status.
type StatusRead = BoxFuture<'static, ReadStatus>;

/// The status of a task, and what its server has announced since it was read.
struct ReadStatus {
    read: Result<Task, TaskError>,
    hints: TaskHints,
}

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

/// The exchange of a task to its end. A task may take as long as it wants. `again` is `None` if it ends with its connection.
pub(in crate::call) fn follow(tasks: PeerTasks, task: &Task, again: Option<Reconnection>) -> Exchange {
    let id = task.id.clone();
    let stage = FollowStage::first(&tasks, &id, FIRST_READ.min(tasks.delay(task)));
    let again = again.map(Arc::new);
    Exchange::through(FollowedTask {
        tasks,
        access: None,
        again,
        unreachable_since: None,
        id,
        stage,
        reported: (None, 0),
    })
}

impl FollowStage {
    /// Begins to follow a task, whose status is read after a time.
    fn first(tasks: &PeerTasks, id: &str, delay: Duration) -> Self {
        match tasks.is_polled() {
            true => Self::Running { exchange: tasks.follow(id, ExchangeTimeouts::unbounded()), status: None },
            false => Self::Waiting(read_status(tasks.clone(), id.to_owned(), delay, tasks.hints(id))),
        }
    }
}

fn read_status(tasks: PeerTasks, id: String, delay: Duration, hints: TaskHints) -> StatusRead {
    Box::pin(async move {
        hints.pause(delay).await;
        // Before it is read: what changes afterwards is announced here.
        let hints = tasks.hints(&id);
        ReadStatus { read: tasks.get(&id, TaskDetail::Status).await, hints }
    })
}

/// Whether an error says only that the server cannot be reached now.
fn is_passing(error: &WireError) -> bool {
    match error {
        WireError::Unreachable { .. } | WireError::Ended(_) | WireError::TimedOut { .. } => true,
        WireError::Status { status, .. } => status.is_server_error() || matches!(status.as_u16(), 408 | 429),
        _ => false,
    }
}

impl FollowedTask {
    /// Polls the status; returns a new status message as progress.
    fn poll_status(&mut self, context: &mut Context<'_>) -> Poll<ExchangeEvent> {
        loop {
            let FollowStage::Running { status: Some(status), .. } = &mut self.stage else { return Poll::Pending };
            let ReadStatus { read, hints } = std::task::ready!(status.as_mut().poll(context));
            let FollowStage::Running { status, .. } = &mut self.stage else { return Poll::Pending };
            let Ok(task) = read else {
                // The exchange itself reports what is wrong.
                *status = None;
                return Poll::Pending;
            };
            let delay = self.tasks.delay(&task);
            *status =
                (!task.status.is_finished()).then(|| read_status(self.tasks.clone(), self.id.clone(), delay, hints));
            if let Some(event) = self.report(task.message) {
                return Poll::Ready(event);
            }
        }
    }

    /// Reads the status until the task has ended or asks for something, then requests its result.
    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        loop {
            let FollowStage::Waiting(status) = &mut self.stage else { return self.poll_next(context) };
            let ReadStatus { read, hints } = std::task::ready!(status.as_mut().poll(context));
            if let Err(TaskError::Failed(error)) = &read
                && let Some(event) = self.reconnect(error)
            {
                return Poll::Ready(Some(event));
            }
            self.unreachable_since = None;
            let mut message = None;
            self.stage = match read {
                Ok(task) if task.status == TaskStatus::Working => {
                    let delay = self.tasks.delay(&task);
                    message = task.message;
                    FollowStage::Waiting(read_status(self.tasks.clone(), self.id.clone(), delay, hints))
                }
                // Requests of the server come with the pending result; so does what is wrong with the task.
                read => {
                    let exchange = self.tasks.follow(&self.id, ExchangeTimeouts::unbounded());
                    let status = read
                        .ok()
                        .filter(|task| !task.status.is_finished())
                        .map(|task| read_status(self.tasks.clone(), self.id.clone(), self.tasks.delay(&task), hints));
                    FollowStage::Running { exchange, status }
                }
            };
            if let Some(event) = self.report(message) {
                return Poll::Ready(Some(event));
            }
        }
    }

    /// Reaches the task again after a pause; `None` if the error is not a passing one, or lasts for too long. The event says
    /// so to the caller.
    fn reconnect(&mut self, error: &WireError) -> Option<ExchangeEvent> {
        let again = self.again.clone().filter(|_| is_passing(error))?;
        let since = *self.unreachable_since.get_or_insert_with(Instant::now);
        if UNREACHABLE_FOR < since.elapsed() {
            return None;
        }
        let pause = pause_after(since.elapsed());
        tracing::debug!(server = %again.server, task = self.id, %error, "cannot read a task");
        let id = self.id.clone();
        self.stage = FollowStage::Reconnecting(Box::pin(async move {
            tokio::time::sleep(pause).await;
            PolledTasks::open(&again.host, &again.server, &again.caller_context, &id).await
        }));
        let said = format!("the server cannot be reached; asked again in {} s", pause.as_secs());
        let report = json!({ "progress": self.reported.1 + 1, "message": said });
        self.reported = (Some(said), self.reported.1 + 1);
        Some(ExchangeEvent::Progress(Raw::of(&report)))
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
            FollowStage::Reconnecting(opening) => {
                match std::task::ready!(opening.as_mut().poll(context)) {
                    Ok(access) => {
                        self.tasks = access.tasks.clone();
                        self.access = Some(access);
                        self.stage = FollowStage::first(&self.tasks, &self.id, Duration::ZERO);
                    }
                    Err(outcome) => {
                        let error = WireError::Ended(outcome.to_string());
                        match self.reconnect(&error) {
                            Some(event) => return Poll::Ready(Some(event)),
                            None => {
                                self.stage = FollowStage::Ended;
                                return Poll::Ready(Some(ExchangeEvent::Ended(Outcome::Failed(error))));
                            }
                        }
                    }
                }
                self.poll_next(context)
            }
            FollowStage::Running { exchange, .. } => match exchange.poll_next(context) {
                Poll::Ready(Some(ExchangeEvent::Ended(Outcome::Failed(error)))) => {
                    let event = self.reconnect(&error).unwrap_or_else(|| {
                        self.stage = FollowStage::Ended;
                        ExchangeEvent::Ended(Outcome::Failed(error))
                    });
                    Poll::Ready(Some(event))
                }
                Poll::Ready(event) => {
                    self.unreachable_since = None;
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
        if matches!(self.stage, FollowStage::Waiting(_) | FollowStage::Running { .. } | FollowStage::Reconnecting(_)) {
            self.stage = FollowStage::Cancelling(self.cancel_task());
        }
    }

    fn missed(&self) -> u64 {
        match &self.stage {
            FollowStage::Running { exchange, .. } => exchange.missed(),
            FollowStage::Waiting(_)
            | FollowStage::Reconnecting(_)
            | FollowStage::Cancelling(_)
            | FollowStage::Ended => 0,
        }
    }
}

impl Drop for FollowedTask {
    fn drop(&mut self) {
        let cancelling = match std::mem::replace(&mut self.stage, FollowStage::Ended) {
            FollowStage::Waiting(_) | FollowStage::Running { .. } | FollowStage::Reconnecting(_) => self.cancel_task(),
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
