//! Follows a task that no call waits for: reads its status until it has ended, answers the requests of its server, and
//! ends the record of its call.
//!
//! A task whose server cannot be reached is asked for again for a while. A task that its server does not know, or whose
//! process has ended, is lost. When the host stops, the row and the record of a task that its server keeps stay open for the
//! next process; one that ends with a process of this host is lost.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;
use toolway_config::{PolicyMode, ServerName};
use toolway_wire::{
    budget::Charge,
    error::WireError,
    exchange::{Answer, Exchange, ExchangeEvent, ExchangeTimeouts, Outcome, ServerRequestHandler},
    message::RpcError,
    task::{TaskDetail, TaskError, TaskStatus as Reported},
    time::Micros,
    up::{HINT_PAUSE, TaskHints},
};
use uuid::Uuid;

use super::{
    AnsweredBy, ENDED_WITH_PROCESS, FIRST_READ, KeptBy, SettledCall, StoredTask, TaskPorts, TaskRow, TaskStatus,
    TrackedTask, UNREACHABLE_FOR, pause_after,
};
use crate::{
    audience::ClientText,
    call::{CallError, CallOutcome, Caller, CallerContext, tasks::PolledTasks},
    connection::{HostContext, ListenerGuard, client_features::ClientFeatures, stdio::ProcessInstance},
    host::{Host, Inner},
    inbox::ItemOrigin,
    policy::Attendance,
    record::{CallBody, PersonWait, Recording, RecordsError, redact::Redactor},
    sampling::answering::SamplingDesk,
};

/// Bytes that a followed task is charged for: its row, its record and what follows it.
const TASK_BYTES: usize = 8 * 1024;
/// Time to cancel a task at its server.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(30);

/// What following a task needs besides its row.
pub(crate) struct BackgroundTask {
    /// The process that runs it.
    pub(crate) process: Arc<ProcessInstance>,
    pub(crate) origin: ItemOrigin,
    pub(crate) caller_context: CallerContext,
    pub(crate) redactor: Redactor,
    pub(crate) sampling: SampledTask,
}

/// What decides on sampling requests of the server of a task.
pub(crate) struct SampledTask {
    /// Mode of its call.
    pub(crate) mode: Option<PolicyMode>,
    pub(crate) attendance: Attendance,
    /// Name of what was called.
    pub(crate) called: String,
    pub(crate) person_wait: PersonWait,
}

/// A task that cannot be followed.
pub(crate) struct NotFollowed {
    /// Its row, which is open.
    pub(crate) tracked: TrackedTask,
    /// What its caller is told.
    pub(crate) outcome: CallOutcome,
}

/// The tasks that a host follows in the background, by id.
#[derive(Debug, Default)]
pub(crate) struct BackgroundTasks {
    // Nothing awaits under this lock.
    tasks: Mutex<HashMap<Uuid, Arc<TaskSwitch>>>,
}

/// A task that its caller uses at its server.
pub(crate) struct SeenTask<'a> {
    pub(crate) server: &'a ServerName,
    pub(crate) caller: &'a Caller,
    pub(crate) session: Option<&'a Arc<str>>,
    pub(crate) remote_id: &'a str,
}

/// Acts on a task that is followed.
#[derive(Debug)]
struct TaskSwitch {
    server: ServerName,
    /// Two processes of a server, for two callers or sessions, may give their tasks the same ids.
    caller: Caller,
    session: Option<Arc<str>>,
    remote_id: String,
    cancelled: CancellationToken,
    /// How its caller saw it end.
    seen_end: Mutex<Option<CallOutcome>>,
    was_seen: CancellationToken,
    /// Something about the task may have changed.
    hint: Notify,
}

/// A task that is about to be followed.
#[must_use]
pub(crate) struct StartingTask {
    host: Arc<Inner>,
    following: Following,
}

/// Follows one task.
struct Following {
    host: Weak<Inner>,
    stop: CancellationToken,
    switch: Arc<TaskSwitch>,
    server: ServerName,
    tracked: TrackedTask,
    /// `None` if another process began the record.
    recording: Option<Box<Recording>>,
    /// The process that runs the task, if it ends with it.
    process: Option<Arc<ProcessInstance>>,
    origin: ItemOrigin,
    caller_context: CallerContext,
    sampling: SampledTask,
    /// What the server announces about the task, on the connection over which it was read last.
    hints: Option<TaskHints>,
    _charge: Charge,
    /// Keeps the server from being stopped as idle.
    _use: Option<ListenerGuard>,
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
}

impl BackgroundTask {
    /// Begins to follow a task; fails if there is no memory left for one more.
    pub(crate) fn start(self, host: &Arc<Inner>, tracked: TrackedTask) -> Result<StartingTask, Box<NotFollowed>> {
        let lost = |why: ClientText| match tracked.row.server.parse() {
            Ok(server) => CallOutcome::Failed(CallError::TaskLost { server, why }),
            Err(_) => CallOutcome::Cancelled,
        };
        let mut charge = Charge::empty(host.memory().clone());
        let server = match (charge.set(TASK_BYTES), tracked.row.server.parse::<ServerName>()) {
            (Ok(()), Ok(server)) => server,
            (Err(error), _) => {
                let outcome = lost(ClientText::complete(format!("it is not followed: {error}")));
                return Err(Box::new(NotFollowed { tracked, outcome }));
            }
            (_, Err(error)) => {
                let outcome = lost(ClientText::complete(error.to_string()));
                return Err(Box::new(NotFollowed { tracked, outcome }));
            }
        };
        let in_use = host.connection(&server).map(|connection| connection.keep_in_use());
        let switch = Arc::new(TaskSwitch {
            server: server.clone(),
            caller: self.caller_context.caller.clone(),
            session: self.caller_context.session.clone(),
            remote_id: tracked.row.remote_id.clone(),
            cancelled: CancellationToken::new(),
            seen_end: Mutex::new(None),
            was_seen: CancellationToken::new(),
            hint: Notify::new(),
        });
        host.background.tasks.lock().insert(tracked.row.id, Arc::clone(&switch));
        let following = Following {
            host: Arc::downgrade(host),
            stop: host.stop_token(),
            switch,
            server,
            process: (tracked.row.kept_by == KeptBy::Process).then_some(self.process),
            tracked,
            recording: None,
            origin: self.origin,
            caller_context: self.caller_context,
            sampling: self.sampling,
            hints: None,
            _charge: charge,
            _use: in_use,
        };
        Ok(StartingTask { host: Arc::clone(host), following })
    }
}

impl StartingTask {
    /// Follows the task, and ends this record with it.
    pub(crate) fn with_recording(mut self, recording: Box<Recording>) {
        self.following.recording = Some(recording);
        self.follow();
    }

    /// Follows the task, whose call another process began.
    pub(crate) fn follow(self) {
        let Self { host, following } = self;
        host.spawn(following.run());
    }
}

impl Host {
    /// Cancels a task that this host follows in the background. Returns whether there is such a task.
    pub fn cancel_task(&self, id: Uuid) -> bool {
        let switch = self.inner().background.tasks.lock().get(&id).cloned();
        switch.inspect(|switch| switch.cancelled.cancel()).is_some()
    }

    /// A task as it is stored, with the end of its call.
    pub async fn stored_task(&self, id: Uuid) -> Result<Option<StoredTask>, RecordsError> {
        self.inner().context.ports.tasks.find(id).await
    }

    /// The newest tasks that the gateway hosted for a client of this identity before a time.
    pub async fn tasks_hosted_for(
        &self,
        identity: &str,
        before: Micros,
        limit: usize,
    ) -> Result<Vec<TaskRow>, RecordsError> {
        self.inner().context.ports.tasks.hosted_for(identity, before, limit).await
    }

    /// Whether this host follows a task in the background.
    pub fn follows_task(&self, id: Uuid) -> bool {
        self.inner().background.tasks.lock().contains_key(&id)
    }
}

impl BackgroundTasks {
    /// Its caller has read or cancelled a task at its server, which said this.
    pub(crate) fn saw(&self, task: &SeenTask<'_>, status: Reported) {
        match status {
            Reported::Cancelled => self.saw_end(task, CallOutcome::Cancelled),
            Reported::Completed | Reported::Failed | Reported::InputRequired => {
                self.find(task).iter().for_each(|switch| switch.hint.notify_one());
            }
            Reported::Working => {}
        }
    }

    /// Its caller has got the end of a task from its server.
    pub(crate) fn saw_end(&self, task: &SeenTask<'_>, outcome: CallOutcome) {
        let Some(switch) = self.find(task) else { return };
        switch.seen_end.lock().get_or_insert(outcome);
        switch.was_seen.cancel();
    }

    fn find(&self, task: &SeenTask<'_>) -> Option<Arc<TaskSwitch>> {
        let is_same = |switch: &&Arc<TaskSwitch>| {
            switch.server == *task.server
                && switch.caller == *task.caller
                && switch.session.as_ref() == task.session
                && switch.remote_id == task.remote_id
        };
        self.tasks.lock().values().find(is_same).cloned()
    }
}

impl HostContext {
    /// Where rows of tasks go.
    pub(crate) fn task_ports(&self) -> TaskPorts {
        TaskPorts { log: Arc::clone(&self.ports.tasks), events: self.events.clone() }
    }
}

// === impl Following ===

impl Following {
    async fn run(mut self) {
        let stop = self.stop.clone();
        let ended = tokio::select! {
            ended = self.follow() => Some(ended),
            () = stop.cancelled() => None,
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

    /// Looks at the task until it has ended.
    async fn follow(&mut self) -> CallOutcome {
        let mut delay = FIRST_READ;
        let mut unreachable_since: Option<Instant> = None;
        loop {
            let switch = Arc::clone(&self.switch);
            let hints = self.hints.as_mut();
            let hinted = async {
                match hints {
                    Some(hints) => hints.next().await,
                    None => std::future::pending().await,
                }
                tokio::time::sleep(HINT_PAUSE).await;
            };
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = hinted => {}
                () = switch.hint.notified() => tokio::time::sleep(FIRST_READ).await,
                () = switch.cancelled.cancelled() => return self.cancel().await,
                () = switch.was_seen.cancelled() => {}
            }
            if let Some(seen) = self.seen_end() {
                return seen;
            }
            delay = match self.look().await {
                Look::Ended(outcome) => return outcome,
                Look::Unknown(why) => return self.lost(why),
                Look::Open(delay) => {
                    unreachable_since = None;
                    delay
                }
                Look::Unreachable(why) => {
                    let since = *unreachable_since.get_or_insert_with(Instant::now);
                    if UNREACHABLE_FOR < since.elapsed() {
                        return self.lost(why);
                    }
                    tracing::debug!(task = %self.tracked.row.id, server = %self.server, error = %why, "cannot read a task");
                    pause_after(since.elapsed())
                }
            };
        }
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
            Ok(access) => access,
            Err(outcome) => return self.no_access(&outcome),
        };
        if self.process.as_ref().is_some_and(|process| !Arc::ptr_eq(process, &access.process)) {
            return Look::Unknown(ClientText::complete("the process that ran it has ended"));
        }
        // Before it is read: what changes afterwards is announced here.
        self.hints = Some(access.tasks.hints(&id));
        let task = match access.tasks.get(&id, TaskDetail::Status).await {
            Ok(task) => task,
            Err(TaskError::Refused(error)) => return refused(&error),
            Err(TaskError::Failed(error)) => return self.failed(&error),
        };
        self.tracked.update(&task);
        match (task.status, self.tracked.row.answered_by) {
            (Reported::Cancelled, _) => Look::Ended(CallOutcome::Cancelled),
            (Reported::Completed | Reported::Failed, _) | (Reported::InputRequired, AnsweredBy::Host) => {
                let exchange = access.tasks.follow(&id, ExchangeTimeouts::unbounded());
                drop(host);
                match self.drive(exchange).await {
                    Outcome::Failed(error) => self.failed(&error),
                    outcome => Look::Ended(outcome.into()),
                }
            }
            (Reported::Working, _) | (Reported::InputRequired, AnsweredBy::Client) => {
                Look::Open(access.tasks.delay(&task))
            }
        }
    }

    /// Drives the exchange of the task to its end; the ports of the host answer its requests.
    async fn drive(&mut self, mut exchange: Exchange) -> Outcome {
        let mut answering = FuturesUnordered::new();
        let switch = Arc::clone(&self.switch);
        loop {
            let event = tokio::select! {
                event = exchange.next() => event,
                Some(()) = answering.next(), if !answering.is_empty() => {
                    self.tracked.set_status(TaskStatus::Working);
                    continue;
                }
                () = switch.cancelled.cancelled() => return Outcome::Cancelled,
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
        let SampledTask { mode, attendance, called, person_wait } = &self.sampling;
        let desk = SamplingDesk {
            host,
            connection,
            mode: *mode,
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
                Look::Open(_) | Look::Unreachable(_) | Look::Unknown(_) => CallOutcome::Cancelled,
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
        self.forget();
        if let Some(recording) = &mut self.recording {
            recording.leave_open();
        }
        self.tracked.release();
    }

    fn forget(&self) {
        if let Some(host) = self.host.upgrade() {
            host.background.tasks.lock().remove(&self.tracked.row.id);
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

/// A refused read: the server does not know the task, unless it could not answer at all. Its words are for its client.
fn refused(error: &RpcError) -> Look {
    match error.code() {
        RpcError::INTERNAL => Look::Unreachable(ClientText::complete(error.to_string())),
        _ => Look::Unknown(ClientText::complete(format!("the server does not know it: {error}"))),
    }
}

impl fmt::Debug for BackgroundTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundTask").field("origin", &self.origin).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Arc, BackgroundTasks, CallOutcome, Caller, CancellationToken, Mutex, Notify, SeenTask, TaskSwitch, Uuid,
    };

    #[test]
    fn equal_ids_of_two_callers_or_sessions_are_two_tasks() {
        let server = "files".parse().unwrap();
        let sessions: [Arc<str>; 2] = ["one".into(), "two".into()];
        let callers = ["ada", "ben"].map(|name| Caller::Client(name.into()));
        let switch = |caller: &Caller, session: &Arc<str>| {
            Arc::new(TaskSwitch {
                server: "files".parse().unwrap(),
                caller: caller.clone(),
                session: Some(Arc::clone(session)),
                remote_id: "task-1".to_owned(),
                cancelled: CancellationToken::new(),
                seen_end: Mutex::new(None),
                was_seen: CancellationToken::new(),
                hint: Notify::new(),
            })
        };
        let switches = [(0, 0), (0, 1), (1, 0)].map(|(caller, session)| switch(&callers[caller], &sessions[session]));
        let tasks = BackgroundTasks::default();
        switches.iter().for_each(|switch| drop(tasks.tasks.lock().insert(Uuid::now_v7(), Arc::clone(switch))));
        let seen = SeenTask { server: &server, caller: &callers[0], session: Some(&sessions[1]), remote_id: "task-1" };
        tasks.saw_end(&seen, CallOutcome::Cancelled);
        assert_eq!(switches.map(|switch| switch.was_seen.is_cancelled()), [false, true, false]);
    }
}
