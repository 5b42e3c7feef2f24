//! Access to the tasks that a server runs for a caller. Each operation is recorded like a call.

pub(super) mod followed;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use toolway_config::{ServerName, TaskTerms};
use toolway_wire::{
    exchange::{Exchange, ExchangeTimeouts, Outcome},
    json::Raw,
    message::RpcError,
    task::{Task, TaskContent, TaskDetail, TaskError, TaskPage, TaskStatus},
    up::PeerTasks,
};

use super::{
    CallKind, CallOutcome, Caller, CallerContext, Target,
    approving::{self, AuxiliaryRequest, CurrentGrant},
    find::Found,
    pipeline::{self, not_connected},
    recorded_exchange::RecordedExchange,
};
use crate::{
    audience::ClientText,
    connection::{
        Connection, Lease, ReadyPeer,
        pool::{Interactivity, RequestOrigin},
        stdio::ProcessInstance,
        withheld,
    },
    host::{Host, Inner},
    policy::{Annotations, LimitReached, Permit, Refusal, Subject, limit::taken::CallBounds},
    record::Recording,
    task::SeenTask,
};

/// The tasks of one caller at one server, over the connection on which they run. Holds a call slot.
#[derive(Debug)]
pub struct CallerTasks {
    tasks: RecordedTasks,
    connection: Connection,
    _lease: Box<Lease>,
}

/// The task operations of a server. Each is recorded when it begins and when it ends.
#[derive(Clone)]
pub struct RecordedTasks {
    tasks: PeerTasks,
    caller: Caller,
    session: Option<Arc<str>>,
    host: Arc<Inner>,
    held: Arc<(Permit, ReadyPeer)>,
    /// What results may not exceed that belong to a task of an earlier process, whose tool is not known here.
    bounds: CallBounds,
}

/// Access for following a task in the background: not decided on again, without a call slot, and not recorded, because it
/// belongs to the call that was.
pub(crate) struct PolledTasks {
    pub(crate) tasks: PeerTasks,
    /// The process that the connection leads to.
    pub(crate) process: Arc<ProcessInstance>,
    _lease: Lease,
    _ready: ReadyPeer,
}

impl PolledTasks {
    /// The tasks of a caller at a server, over the connection of this task.
    pub(crate) async fn open(
        host: &Inner,
        server: &ServerName,
        caller_context: &CallerContext,
        task: &str,
    ) -> Result<Self, CallOutcome> {
        let connection = host.connection(server).ok_or_else(|| Refusal::UnknownServer(server.to_string()))?;
        let ready = connection.ready().await.map_err(|why| not_connected(&connection, why))?;
        let origin = RequestOrigin { task: Some(task), ..RequestOrigin::of(caller_context) };
        let lease = connection.lease(&ready, origin, Interactivity::NonInteractive, host.slots.patience()).await;
        let lease = lease.map_err(|no_lease| pipeline::no_lease_outcome(&connection, no_lease))?;
        let withheld = connection.wanted().withheld;
        let declared = caller_context.capabilities.as_ref();
        let declared = declared.map(|declared| withheld::remaining(declared, withheld));
        let tasks = lease.peer(&ready).tasks(declared).polled_every(connection.wanted().tasks.poll_interval);
        Ok(Self { tasks, process: lease.process(&connection), _lease: lease, _ready: ready })
    }

    /// The same with another time between two polls, if one is given.
    pub(crate) fn polled_every(self, interval: Option<Duration>) -> Self {
        match interval {
            Some(interval) => Self { tasks: self.tasks.polled_every(interval), ..self },
            None => self,
        }
    }
}

/// What a caller wants of its tasks. Policy decides by the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskOperation {
    /// Read or follow a task.
    Get,
    /// Answer server requests of a task.
    Update,
    /// Cancel a task.
    Cancel,
    /// List tasks.
    List,
}

impl Host {
    /// Returns access to the tasks that a server runs for a caller, to read them ([`Host::tasks_for`]).
    pub async fn tasks(
        &self,
        caller_context: impl Into<CallerContext>,
        server: &ServerName,
        task: Option<&str>,
    ) -> Result<CallerTasks, CallOutcome> {
        self.tasks_for(TaskOperation::Get, caller_context.into(), server, task).await
    }

    /// Returns access to the tasks that a server runs for a caller. `task` is the id of the task concerned, if there is
    /// one; it selects the connection. Access is decided and admitted like a call. It is recorded if it fails; else the
    /// operations are. A task that its caller abandons is cancelled with the access that followed it.
    pub async fn tasks_for(
        &self,
        operation: TaskOperation,
        caller_context: CallerContext,
        server: &ServerName,
        task: Option<&str>,
    ) -> Result<CallerTasks, CallOutcome> {
        let caller = caller_context.caller.clone();
        let (mut subject, method) = (None, operation.method());
        let accessed = self.access_tasks(method, caller_context, server, task, &mut subject).await;
        if let Err(outcome) = &accessed {
            let mut recording = self.inner().begin_recording(&caller, method, 0);
            subject.iter().for_each(|subject| recording.set_subject(subject, None));
            recording.end_with(Err(outcome)).await;
        }
        accessed
    }

    async fn access_tasks(
        &self,
        method: &'static str,
        caller_context: CallerContext,
        server: &ServerName,
        task: Option<&str>,
        subject: &mut Option<Subject>,
    ) -> Result<CallerTasks, CallOutcome> {
        let inner = self.inner();
        let target = Target::Method { server: server.clone(), method: method.to_owned() };
        // Every operation belongs to a call that was decided on: `writes` does not ask again.
        let annotations = Some(Annotations::of_kind(CallKind::Method, GET));
        let request = AuxiliaryRequest { context: &caller_context, target: &target, annotations };
        let mut previous = None;
        for _ in 0..approving::MAX_DECISIONS {
            let client_slot = inner.slots.take_client_slot(&caller_context.caller)?;
            *subject = Some(request.find(inner).await?.subject);
            let current = approving::obtain_current_grant(inner, request, previous.take(), None).await?;
            let CurrentGrant { found, grant, moment } = current;
            let connection = &found.connection;
            let ready = connection.ready().await.map_err(|why| not_connected(connection, why))?;
            let origin = RequestOrigin { task, ..RequestOrigin::of(&caller_context) };
            let lease = connection.lease(&ready, origin, Interactivity::NonInteractive, inner.slots.patience()).await;
            let lease = lease.map_err(|no_lease| pipeline::no_lease_outcome(connection, no_lease))?;
            let permit = pipeline::admit(inner, connection, grant, client_slot).await?;
            // What was approved is what is accessed.
            if !moment.is_now(inner, &found) {
                previous = Some(permit.into_grant());
                continue;
            }
            let Found { connection, .. } = found;
            let withheld = connection.wanted().withheld;
            let declared = caller_context.capabilities.as_ref();
            let declared = declared.map(|declared| withheld::remaining(declared, withheld));
            let tasks = RecordedTasks {
                tasks: lease.peer(&ready).tasks(declared),
                caller: caller_context.caller.clone(),
                session: caller_context.session.clone(),
                host: Arc::clone(inner),
                held: Arc::new((permit, ready)),
                bounds: inner.limits.of_unknown_task(&caller_context.caller, server),
            };
            return Ok(CallerTasks { tasks, connection, _lease: Box::new(lease) });
        }
        Err(Refusal::KeepsChanging(method.to_owned()).into())
    }

    /// How the tasks of a server are treated; the defaults for an unknown one.
    pub fn task_terms(&self, server: &ServerName) -> TaskTerms {
        self.inner().connection(server).map(|connection| connection.wanted().tasks).unwrap_or_default()
    }

    /// Whether a server runs tasks of a caller, on a connection of that caller or on the shared one.
    pub fn keeps_tasks(&self, caller: &Caller, server: &ServerName) -> bool {
        let connection = self.inner().connection(server);
        connection.is_some_and(|connection| connection.shared().pool.has_task(caller, None))
    }
}

/// Method of the read access to a task.
const GET: &str = "tasks/get";

impl TaskOperation {
    fn method(self) -> &'static str {
        match self {
            Self::Get => GET,
            Self::Update => "tasks/update",
            Self::Cancel => "tasks/cancel",
            Self::List => "tasks/list",
        }
    }
}

impl CallerTasks {
    /// Whether this task is known to belong to the caller. A server that is reached with one credential for all callers
    /// may list the tasks of others too.
    pub fn is_theirs(&self, task: &str) -> bool {
        self.connection.shared().pool.has_task(&self.tasks.caller, Some(task))
    }

    /// The task operations of the server.
    pub fn tasks(&self) -> &RecordedTasks {
        &self.tasks
    }
}

// === impl RecordedTasks ===

impl RecordedTasks {
    /// Reads a task.
    pub async fn get(&self, id: &str, depth: TaskDetail) -> Result<Task, TaskError> {
        let read = self.record_operation(GET, id.len(), self.tasks.get(id, depth)).await;
        let task = read.inspect(|task| self.saw(task))?;
        let TaskContent::Result(result) = &task.content else { return Ok(task) };
        match self.bounds(id).exceeded_by(result) {
            None => Ok(task),
            Some(reached) => {
                let content = TaskContent::Error(withheld(&reached));
                // As received, it contains the result.
                Ok(Task { status: TaskStatus::Failed, content, raw: Raw::empty_object(), ..task })
            }
        }
    }

    /// What the result of a task may not exceed.
    fn bounds(&self, id: &str) -> CallBounds {
        self.host.background.bounds(&self.seen(id)).unwrap_or_else(|| self.bounds.clone())
    }

    /// Follows a task to its end: its server requests and its result become those of the exchange. Dropping the exchange
    /// does not cancel the task.
    pub fn follow(&self, id: &str, timeouts: ExchangeTimeouts) -> Exchange {
        let mut recording = self.begin(GET, id.len());
        let on_result = Box::new({
            let tasks = self.clone();
            let id = id.to_owned();
            move |result| tasks.host.background.saw_end(&tasks.seen(&id), result)
        });
        let bounds = self.bounds(id);
        let (tasks, held, id) = (self.tasks.clone(), Arc::clone(&self.held), id.to_owned());
        let opening: BoxFuture<'static, (Recording, Result<Exchange, Refusal>)> = Box::pin(async move {
            let running = recording.mark_running(&held.0, held.1.redactor.clone()).await;
            (recording, running.map(|()| tasks.follow(&id, timeouts)))
        });
        Exchange::through(RecordedExchange::new(opening, on_result, bounds))
    }

    /// Answers server requests of a task, by key; unknown keys are ignored.
    pub async fn answer(&self, id: &str, answers: Raw) -> Result<(), TaskError> {
        let bytes = id.len() + answers.as_bytes().len();
        self.record_operation("tasks/update", bytes, self.tasks.answer(id, answers)).await
    }

    /// Cancels a task and returns its state. A task that has ended is unchanged.
    pub async fn cancel(&self, id: &str) -> Result<Task, TaskError> {
        let cancelled = self.record_operation("tasks/cancel", id.len(), self.tasks.cancel(id)).await;
        cancelled.inspect(|task| self.saw(task))
    }

    /// Lists the tasks of the server, one page from the given cursor. Only stateful servers support it.
    pub async fn list(&self, from: Option<Raw>) -> Result<TaskPage, TaskError> {
        self.record_operation("tasks/list", 0, self.tasks.list(from)).await
    }

    /// The host may follow the task too, for the record of its call.
    fn saw(&self, task: &Task) {
        self.host.background.saw(&self.seen(&task.id), task.status);
    }

    fn seen<'a>(&'a self, remote_id: &'a str) -> SeenTask<'a> {
        let server = &self.held.0.subject().server;
        SeenTask { server, caller: &self.caller, session: self.session.as_ref(), remote_id }
    }

    fn begin(&self, method: &'static str, argument_bytes: usize) -> Recording {
        let mut recording = self.host.begin_recording(&self.caller, method, argument_bytes);
        recording.set_subject(self.held.0.subject(), None);
        recording
    }

    async fn record_operation<T>(
        &self,
        method: &'static str,
        argument_bytes: usize,
        operation: impl Future<Output = Result<T, TaskError>>,
    ) -> Result<T, TaskError> {
        let mut recording = self.begin(method, argument_bytes);
        let (permit, ready) = &*self.held;
        if let Err(refusal) = recording.mark_running(permit, ready.redactor.clone()).await {
            let error = RpcError::new(RpcError::INTERNAL, &ClientText::from(&refusal).to_string());
            recording.end_with(Err(&refusal.into())).await;
            return Err(TaskError::Refused(error));
        }
        recording.assume_written();
        let done = operation.await;
        let outcome = match &done {
            Ok(_) => Ok(Raw::empty_object()),
            Err(error) => Err(CallOutcome::from(Outcome::from(error.clone()))),
        };
        recording.end_with(outcome.as_ref()).await;
        done
    }
}

/// The error in place of a result that is too large.
pub(super) fn withheld(reached: &LimitReached) -> RpcError {
    RpcError::with_data(RpcError::INTERNAL, &reached.to_string(), reached.data())
}

impl std::fmt::Debug for RecordedTasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordedTasks").field("caller", &self.caller).finish_non_exhaustive()
    }
}
