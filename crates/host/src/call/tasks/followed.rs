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
use tokio::time::Instant;
use toolway_config::ServerName;
use toolway_wire::{
    error::WireError,
    exchange::{Exchange, ExchangeEvent, ExchangeInterceptor, ExchangeTimeouts, Handover, Outcome},
    json::Raw,
    message::{
        capability,
        splice::{self, Edit},
    },
    task::{Task, TaskDetail, TaskError, TaskStatus, TaskSupport},
    up::{HINT_PAUSE, PeerTasks, TaskHint, TaskHints},
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
    /// The last status message.
    stated: Option<String>,
    /// How many status messages there were.
    count: u64,
    /// What the server has reported itself.
    progress: Option<Raw>,
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

/// Waits for the poll interval, then reads the status; ends before if the server reports progress.
type StatusRead = BoxFuture<'static, HeardTask>;

/// What a server said about a task, and what it announces from then on.
struct HeardTask {
    heard: Heard,
    hints: TaskHints,
}

enum Heard {
    Status(Result<Task, TaskError>),
    /// The status is read then.
    Progress(Raw, Instant),
}

/// Whether the server may, or has to, make a task of a call whose task the host follows; `None`: a relayed request whose
/// client gets the task of the server says itself what it wants.
pub(in crate::call) fn handover(request: &CallRequest, found: &Found) -> Option<Handover> {
    let is_handed_over = request.whole.is_some() && request.task == TaskHandling::HandOver;
    if is_handed_over || request.target.kind() != CallKind::Tool {
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
        stated: None,
        count: 0,
        progress: None,
    })
}

impl FollowStage {
    /// Begins to follow a task, whose status is read after a time.
    fn first(tasks: &PeerTasks, id: &str, delay: Duration) -> Self {
        match tasks.is_polled() {
            true => Self::Running { exchange: tasks.follow(id, ExchangeTimeouts::unbounded()), status: None },
            false => {
                let due = Instant::now() + delay;
                Self::Waiting(read_status(tasks.clone(), id.to_owned(), due, tasks.hints(id)))
            }
        }
    }
}

fn read_status(tasks: PeerTasks, id: String, due: Instant, mut hints: TaskHints) -> StatusRead {
    Box::pin(async move {
        tokio::select! {
            () = tokio::time::sleep_until(due) => {}
            hint = hints.next() => match hint {
                TaskHint::Progress(params) => return HeardTask { heard: Heard::Progress(params, due), hints },
                TaskHint::Changed => tokio::time::sleep_until(due.min(Instant::now() + HINT_PAUSE)).await,
            },
        }
        // Before it is read: what changes afterwards is announced here.
        let hints = tasks.hints_after(Some(hints), &id);
        HeardTask { heard: Heard::Status(tasks.get(&id, TaskDetail::Status).await), hints }
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
    /// Polls the status; returns progress, or a new status message as progress.
    fn poll_status(&mut self, context: &mut Context<'_>) -> Poll<ExchangeEvent> {
        loop {
            let FollowStage::Running { status: Some(status), .. } = &mut self.stage else { return Poll::Pending };
            let HeardTask { heard, hints } = std::task::ready!(status.as_mut().poll(context));
            let (next, event) = match heard {
                Heard::Progress(params, due) => (Some(self.read_again(due, hints)), self.pass_on(params)),
                Heard::Status(Ok(task)) => {
                    let next = (!task.status.is_finished()).then(|| self.read_again(self.due(&task), hints));
                    (next, self.report(task.message))
                }
                // The exchange itself reports what is wrong.
                Heard::Status(Err(_)) => (None, None),
            };
            let FollowStage::Running { status, .. } = &mut self.stage else { return Poll::Pending };
            *status = next;
            if let Some(event) = event {
                return Poll::Ready(event);
            }
        }
    }

    /// Reads the status until the task has ended or asks for something, then requests its result.
    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        loop {
            let FollowStage::Waiting(status) = &mut self.stage else { return self.poll_next(context) };
            let HeardTask { heard, hints } = std::task::ready!(status.as_mut().poll(context));
            if let Heard::Status(Err(TaskError::Failed(error))) = &heard
                && let Some(event) = self.reconnect(error)
            {
                return Poll::Ready(Some(event));
            }
            let event = match heard {
                Heard::Progress(params, due) => {
                    self.stage = FollowStage::Waiting(self.read_again(due, hints));
                    self.pass_on(params)
                }
                Heard::Status(Ok(task)) if task.status == TaskStatus::Working => {
                    self.unreachable_since = None;
                    self.stage = FollowStage::Waiting(self.read_again(self.due(&task), hints));
                    self.report(task.message)
                }
                // Requests of the server come with the pending result; so does what is wrong with the task.
                Heard::Status(read) => {
                    self.unreachable_since = None;
                    let exchange = self.tasks.follow(&self.id, ExchangeTimeouts::unbounded());
                    let open = read.ok().filter(|task| !task.status.is_finished());
                    let status = open.map(|task| self.read_again(self.due(&task), hints));
                    self.stage = FollowStage::Running { exchange, status };
                    None
                }
            };
            if let Some(event) = event {
                return Poll::Ready(Some(event));
            }
        }
    }

    fn read_again(&self, due: Instant, hints: TaskHints) -> StatusRead {
        read_status(self.tasks.clone(), self.id.clone(), due, hints)
    }

    /// When a task is read again that was read now.
    fn due(&self, task: &Task) -> Instant {
        Instant::now() + self.tasks.delay(task)
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
        // The same message again is news.
        self.stated = None;
        self.report(Some(said))
    }

    /// A new status message as progress: the number is that of the server, or else counts the messages.
    fn report(&mut self, message: Option<String>) -> Option<ExchangeEvent> {
        if message.is_none() || self.stated == message {
            return None;
        }
        self.stated = message;
        self.count += 1;
        let message = Raw::of(&self.stated);
        let report = match &self.progress {
            Some(progress) => splice::edited(progress, &[Edit::Set("message", message)]),
            None => splice::object([("progress", &Raw::of(&self.count)), ("message", &message)]),
        };
        Some(ExchangeEvent::Progress(report))
    }

    /// Progress of the server, once.
    fn pass_on(&mut self, params: Raw) -> Option<ExchangeEvent> {
        if self.progress.as_ref().is_some_and(|before| before.text() == params.text()) {
            return None;
        }
        self.progress = Some(params.clone());
        Some(ExchangeEvent::Progress(params))
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
