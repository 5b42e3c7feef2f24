//! Follows one task: when it is looked at, what its server says in the meantime, and what becomes of its row and its record.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolway_config::ServerName;
use toolway_wire::{
    budget::Charge,
    error::WireError,
    exchange::{Answer, Exchange, ExchangeEvent, ExchangeTimeouts, Outcome, ServerRequestHandler},
    json::Raw,
    message::RpcError,
    task::{Task, TaskDetail, TaskError, TaskStatus as Reported},
    up::{HINT_PAUSE, PeerTasks, TaskHint, TaskHints},
};

use super::{SampledTask, TaskSessions, TaskSwitch};
use crate::{
    audience::ClientText,
    call::{CallError, CallOutcome, CallerContext, tasks::PolledTasks},
    connection::{ListenerGuard, client_features::ClientFeatures, stdio::ProcessInstance},
    host::Inner,
    inbox::ItemOrigin,
    record::{CallBody, Recording},
    sampling::answering::SamplingDesk,
    task::{
        AnsweredBy, ENDED_WITH_PROCESS, FIRST_READ, KeptBy, SettledCall, TaskStatus, TrackedTask, UNREACHABLE_FOR,
        pause_after,
    },
};

/// Shortest time between two reports of a server that are taken over; those between are not.
const REPORT_PAUSE: Duration = Duration::from_millis(200);
/// Time to cancel a task at its server.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(30);

/// Follows one task.
pub(super) struct Following {
    pub(super) host: Weak<Inner>,
    pub(super) stop: CancellationToken,
    pub(super) switch: Arc<TaskSwitch>,
    pub(super) server: ServerName,
    pub(super) tracked: TrackedTask,
    /// `None` if another process began the record.
    pub(super) recording: Option<Box<Recording>>,
    /// The process that runs the task, if it ends with it.
    pub(super) process: Option<Arc<ProcessInstance>>,
    pub(super) origin: ItemOrigin,
    pub(super) caller_context: CallerContext,
    pub(super) sampling: SampledTask,
    pub(super) poll_interval: Option<Duration>,
    /// Which sessions of the server it may run in.
    pub(super) sessions: TaskSessions,
    /// What the server announces about the task, on the connection over which it was read last.
    pub(super) hints: Option<TaskHints>,
    pub(super) _charge: Charge,
    /// Keeps the server from being stopped as idle.
    pub(super) _use: Option<ListenerGuard>,
}

/// What is done next for a task.
enum Step {
    Look,
    /// Its server reported progress.
    Report(Raw),
    Cancel,
}

/// What one look at a task says.
enum Look {
    /// It has not ended; look again after this time.
    Open(Duration),
    Ended(CallOutcome),
    /// The server cannot be reached now.
    Unreachable(ClientText),
    /// The server does not know it.
    Unknown(ClientText),
    /// The server does not know it in a session of this process: it may run in one of another kind of process.
    Elsewhere,
}

// === impl Following ===

impl Following {
    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        let taken = self.tracked.taken();
        let ended = tokio::select! {
            ended = self.follow() => ended,
            () = stop.cancelled() => None,
            () = taken.cancelled() => {
                tracing::warn!(task = %self.tracked.row.id, server = %self.server, "another process follows this task now");
                return self.give_up();
            }
        };
        match ended.or_else(|| self.seen_end()) {
            Some(outcome) => self.end(&outcome).await,
            None if self.tracked.row.kept_by == KeptBy::Server => self.leave(),
            None => {
                let outcome = self.lost(ClientText::complete(ENDED_WITH_PROCESS));
                self.end(&outcome).await;
            }
        }
    }

    /// Looks at the task until it has ended; `None` if it is left to a process that has its session.
    async fn follow(&mut self) -> Option<CallOutcome> {
        let mut due = Instant::now() + FIRST_READ;
        let mut unreachable_since: Option<Instant> = None;
        loop {
            match self.next_step(due).await {
                Step::Cancel => return Some(self.cancel().await),
                Step::Report(params) => {
                    self.tracked.report(&params);
                    tokio::time::sleep(REPORT_PAUSE).await;
                    continue;
                }
                Step::Look => {}
            }
            if let Some(seen) = self.seen_end() {
                return Some(seen);
            }
            due = Instant::now()
                + match self.look().await {
                    Look::Ended(outcome) => return Some(outcome),
                    Look::Unknown(why) => return Some(self.lost(why)),
                    Look::Elsewhere => {
                        self.note_elsewhere();
                        return None;
                    }
                    Look::Open(delay) => {
                        unreachable_since = None;
                        delay
                    }
                    Look::Unreachable(why) => {
                        let since = *unreachable_since.get_or_insert_with(Instant::now);
                        if UNREACHABLE_FOR < since.elapsed() {
                            return Some(self.lost(why));
                        }
                        tracing::debug!(task = %self.tracked.row.id, server = %self.server, error = %why, "cannot read a task");
                        pause_after(since.elapsed())
                    }
                };
        }
    }

    /// Waits until the task is to be looked at, or its server says something.
    async fn next_step(&mut self, due: Instant) -> Step {
        let switch = Arc::clone(&self.switch);
        let hint = async {
            match &mut self.hints {
                Some(hints) => hints.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = tokio::time::sleep_until(due) => {}
            hint = hint => match hint {
                TaskHint::Progress(params) => return Step::Report(params),
                TaskHint::Changed => tokio::time::sleep(HINT_PAUSE).await,
            },
            () = switch.hint.notified() => tokio::time::sleep(FIRST_READ).await,
            () = switch.cancelled.cancelled() => return Step::Cancel,
            () = switch.was_seen.cancelled() => {}
        }
        Step::Look
    }

    fn seen_end(&self) -> Option<CallOutcome> {
        self.switch.seen_end.lock().take()
    }

    /// Reads the task once. If it has ended, its result is fetched; if its server asks for something that the host answers,
    /// it is followed to its end.
    async fn look(&mut self) -> Look {
        let Some(host) = self.host.upgrade() else {
            return Look::Unreachable(ClientText::complete("the host is gone"));
        };
        let id = self.tracked.row.remote_id.clone();
        let access = match PolledTasks::open(&host, &self.server, &self.caller_context, &id).await {
            Ok(access) => access.polled_every(self.poll_interval),
            Err(outcome) => return self.no_access(&outcome),
        };
        if self.process.as_ref().is_some_and(|process| !Arc::ptr_eq(process, &access.process)) {
            return Look::Unknown(ClientText::complete("the process that ran it has ended"));
        }
        // Before it is read: what changes afterwards is announced here.
        self.hints = Some(access.tasks.hints_after(self.hints.take(), &id));
        let task = match access.tasks.get(&id, TaskDetail::Status).await {
            Ok(task) => task,
            Err(TaskError::Refused(error)) => {
                return match refused(&error) {
                    // Without sessions it is known to all or to none.
                    Look::Unknown(_) if self.sessions == TaskSessions::Others && !access.tasks.is_polled() => {
                        Look::Elsewhere
                    }
                    look => look,
                };
            }
            Err(TaskError::Failed(error)) => return self.failed(&error),
        };
        self.tracked.update(&task);
        match (task.status, self.tracked.row.answered_by) {
            (Reported::Cancelled, _) => Look::Ended(CallOutcome::Cancelled),
            (Reported::Completed | Reported::Failed, _) | (Reported::InputRequired, AnsweredBy::Host) => {
                let exchange = access.tasks.follow(&id, ExchangeTimeouts::unbounded());
                drop(host);
                match self.drive(exchange, &access.tasks, &task).await {
                    Outcome::Failed(error) => self.failed(&error),
                    outcome => Look::Ended(outcome.into()),
                }
            }
            (Reported::Working, _) | (Reported::InputRequired, AnsweredBy::Client) => {
                Look::Open(access.tasks.delay(&task))
            }
        }
    }

    /// Drives the exchange of the task to its end; the ports of the host answer its requests. An exchange that only waits for
    /// the result does not say how far the task is: that is read meanwhile.
    async fn drive(&mut self, mut exchange: Exchange, tasks: &PeerTasks, task: &Task) -> Outcome {
        let mut answering = FuturesUnordered::new();
        let switch = Arc::clone(&self.switch);
        let id = self.tracked.row.remote_id.clone();
        let mut hints = self.hints.take();
        let mut due = (!tasks.is_polled()).then(|| Instant::now() + tasks.delay(task));
        loop {
            let said = said(&mut hints, due);
            let event = tokio::select! {
                event = exchange.next() => event,
                Some(()) = answering.next(), if !answering.is_empty() => {
                    self.tracked.set_status(TaskStatus::Working);
                    continue;
                }
                () = switch.cancelled.cancelled() => return Outcome::Cancelled,
                said = said => {
                    match said {
                        TaskHint::Progress(params) => self.tracked.report(&params),
                        // The exchange itself reports what is wrong.
                        TaskHint::Changed => due = match tasks.get(&id, TaskDetail::Status).await {
                            Ok(task) => {
                                self.tracked.update(&task);
                                Some(Instant::now() + tasks.delay(&task)).filter(|_| !task.status.is_finished())
                            }
                            Err(_) => None,
                        },
                    }
                    continue;
                }
            };
            match event {
                Some(ExchangeEvent::Ended(outcome)) => return outcome,
                None => return Outcome::Failed(WireError::Ended("the task ended without a result".to_owned())),
                Some(ExchangeEvent::ServerRequest(request)) => {
                    let Some(features) = self.client_features() else {
                        request.answer(Answer::Unavailable);
                        continue;
                    };
                    self.tracked.set_status(TaskStatus::InputRequired);
                    answering.push(async move {
                        let answer = features.answer(request.details.clone()).await;
                        request.answer(answer);
                    });
                }
                Some(ExchangeEvent::Progress(params)) => self.tracked.progress(&params),
                Some(ExchangeEvent::Withdrawn(_) | ExchangeEvent::Log(_)) => {}
            }
        }
    }

    /// What answers the requests of the server; `None` if the host is gone.
    fn client_features(&self) -> Option<ClientFeatures> {
        let host = self.host.upgrade()?;
        let connection = host.connection(&self.server)?;
        let features = host.context.features(&self.server);
        let SampledTask { mode, assistant, attendance, called, person_wait } = &self.sampling;
        let desk = SamplingDesk {
            host,
            connection,
            mode: *mode,
            assistant: assistant.clone(),
            attendance: *attendance,
            called: called.clone(),
            person_wait: person_wait.clone(),
        };
        Some(ClientFeatures { origin: Some(self.origin.clone()), sampling: Some(Box::new(desk)), ..features })
    }

    /// Cancels the task at its server.
    async fn cancel(&mut self) -> CallOutcome {
        let id = self.tracked.row.remote_id.clone();
        let Some(host) = self.host.upgrade() else { return CallOutcome::Cancelled };
        let cancelling = async {
            let access = PolledTasks::open(&host, &self.server, &self.caller_context, &id).await;
            let access = access.map_err(|outcome| outcome.to_string())?;
            access.tasks.cancel(&id).await.map_err(|error| error.to_string())
        };
        let cancelled = tokio::time::timeout(CANCEL_TIMEOUT, cancelling).await;
        match cancelled.unwrap_or_else(|_| Err("it does not answer".to_owned())) {
            // It ended before it could be cancelled.
            Ok(task) if task.status == Reported::Completed => match self.look().await {
                Look::Ended(outcome) => outcome,
                Look::Open(_) | Look::Unreachable(_) | Look::Unknown(_) | Look::Elsewhere => CallOutcome::Cancelled,
            },
            Ok(_) => CallOutcome::Cancelled,
            Err(error) => {
                tracing::warn!(%error, server = %self.server, task = %self.tracked.row.id, "cannot cancel a task at its server");
                CallOutcome::Cancelled
            }
        }
    }

    /// Writes the end of the task and of its call.
    async fn end(&mut self, outcome: &CallOutcome) {
        self.forget();
        // The task may have changed what was read while it worked.
        if let Some(host) = self.host.upgrade() {
            host.resource_cache.forget_server(&self.server);
        }
        let withheld = outcome.result().and_then(|result| self.switch.bounds.exceeded_by(result));
        let withheld = withheld.map(|reached| CallOutcome::Failed(CallError::Limit(Box::new(reached))));
        let outcome = withheld.as_ref().unwrap_or(outcome);
        if let CallOutcome::Failed(CallError::TaskLost { server, why }) = outcome {
            tracing::warn!(%server, task = %self.tracked.row.id, tool = self.tracked.row.tool, %why, "a task is lost");
        }
        match self.recording.take() {
            Some(mut recording) => {
                if let Some(written) = recording.end(outcome) {
                    written.await;
                }
                self.tracked.end(outcome).await;
            }
            None => self.settle(outcome).await,
        }
        self.tracked.announce_end(outcome);
    }

    /// Ends the task and the record of a call that another process began.
    async fn settle(&mut self, outcome: &CallOutcome) {
        self.tracked.close(outcome);
        let Some(host) = self.host.upgrade() else { return };
        let redactor = self.tracked.redactor();
        let result = outcome.result();
        let kept = result.and_then(|result| Recording::kept(host.context.ports.bodies, redactor, result));
        let settled = SettledCall {
            state: outcome.state(),
            error: outcome.message().map(|message| redactor.text(message.as_str())),
            body: CallBody { arguments: None, result: kept },
            result_bytes: result.map_or(0, |result| result.as_bytes().len()),
        };
        if let Err(error) = self.tracked.log().settle(&self.tracked.row, settled).await {
            tracing::error!(task = %self.tracked.row.id, %error, "the end of a task is not recorded");
        }
    }

    /// Leaves the task to another process.
    fn leave(&mut self) {
        self.give_up();
        self.tracked.release();
    }

    /// Follows the task no longer, and leaves its row and its record as they are.
    fn give_up(&mut self) {
        self.forget();
        if let Some(recording) = &mut self.recording {
            recording.leave_open();
        }
    }

    fn forget(&self) {
        if let Some(host) = self.host.upgrade() {
            host.background.forget(self.tracked.row.id);
        }
    }

    /// Leaves the task alone from now on.
    fn note_elsewhere(&self) {
        let row = &self.tracked.row;
        tracing::warn!(task = %row.id, server = %self.server, tool = row.tool, "a task that an earlier process left is not known in sessions of this process; it is left to the next one that shares its session");
        if let Some(host) = self.host.upgrade() {
            host.background.note_elsewhere(self.tracked.row.id);
        }
    }

    fn lost(&self, why: ClientText) -> CallOutcome {
        CallOutcome::Failed(CallError::TaskLost { server: self.server.clone(), why })
    }

    /// A server that cannot be used now. One that ends with its process and is not connected has lost the task.
    fn no_access(&self, outcome: &CallOutcome) -> Look {
        let why = outcome.for_client().unwrap_or_else(|| ClientText::of_code("ended"));
        match self.tracked.row.kept_by {
            KeptBy::Process => Look::Unknown(why),
            KeptBy::Server => Look::Unreachable(why),
        }
    }

    fn failed(&self, error: &WireError) -> Look {
        tracing::debug!(task = %self.tracked.row.id, server = %self.server, %error, "reading a task failed");
        match self.tracked.row.kept_by {
            KeptBy::Process if matches!(error, WireError::Ended(_)) => Look::Unknown(error.into()),
            KeptBy::Process | KeptBy::Server => Look::Unreachable(error.into()),
        }
    }
}

/// Resolves with the progress that the server reports, or when the status of the task is to be read.
async fn said(hints: &mut Option<TaskHints>, due: Option<Instant>) -> TaskHint {
    let Some(due) = due else { return std::future::pending().await };
    let progress = async {
        loop {
            match hints {
                Some(hints) => match hints.next().await {
                    TaskHint::Progress(params) => return params,
                    // The result comes without being asked for.
                    TaskHint::Changed => {}
                },
                None => return std::future::pending().await,
            }
        }
    };
    tokio::select! {
        () = tokio::time::sleep_until(due) => TaskHint::Changed,
        params = progress => TaskHint::Progress(params),
    }
}

/// A refused read: the server does not know the task, unless it could not answer at all. Its words are for its client.
fn refused(error: &RpcError) -> Look {
    match error.code() {
        RpcError::INTERNAL => Look::Unreachable(ClientText::complete(error.to_string())),
        _ => Look::Unknown(ClientText::complete(format!("the server does not know it: {error}"))),
    }
}
