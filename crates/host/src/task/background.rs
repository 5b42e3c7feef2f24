//! Tasks that no call waits for: which are followed, by what their caller and an operator do to them, and how following one
//! begins. How one is followed is in [`following`].
//!
//! A task whose server cannot be reached is asked for again for a while. A task that its server does not know, or whose
//! process has ended, is lost. When the host stops, the row and the record of a task that its server keeps stay open for the
//! next process; one that ends with a process of this host is lost.

mod following;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolway_config::{PolicyMode, ServerName};
use toolway_wire::{budget::Charge, task::TaskStatus as Reported, time::Micros};
use uuid::Uuid;

use self::following::Following;
use super::{KeptBy, StoredTask, TaskPorts, TaskRow, TrackedTask};
use crate::{
    audience::ClientText,
    call::{CallError, CallOutcome, Caller, CallerContext},
    catalog::PublicName,
    connection::{HostContext, stdio::ProcessInstance},
    host::{Host, Inner},
    inbox::ItemOrigin,
    policy::{AssistantPolicy, Attendance, limit::taken::CallBounds},
    record::{PersonWait, Recording, RecordsError, redact::Redactor},
};

/// Bytes that a followed task is charged for: its row, its record and what follows it.
const TASK_BYTES: usize = 8 * 1024;

/// What following a task needs besides its row.
pub(crate) struct BackgroundTask {
    /// The process that runs it.
    pub(crate) process: Arc<ProcessInstance>,
    pub(crate) origin: ItemOrigin,
    pub(crate) caller_context: CallerContext,
    pub(crate) redactor: Redactor,
    pub(crate) sampling: SampledTask,
    /// Time between two polls; `None`: that of the server's entry.
    pub(crate) poll_interval: Option<Duration>,
    /// Which sessions of the server it may run in.
    pub(crate) sessions: TaskSessions,
}

/// What decides on sampling requests of the server of a task.
pub(crate) struct SampledTask {
    /// Mode of its call.
    pub(crate) mode: Option<PolicyMode>,
    /// Assistant of its conversation.
    pub(crate) assistant: Option<Arc<AssistantPolicy>>,
    pub(crate) attendance: Attendance,
    /// Name of what was called.
    pub(crate) called: String,
    pub(crate) person_wait: PersonWait,
}

/// Which sessions of its server a task may run in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskSessions {
    /// Those of this host: a server that does not know the task has lost it.
    Ours,
    /// Those of another process: `serve` and commands have sessions of their own, and so has each gateway of a cluster.
    Others,
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
    /// Those that have ended last and whose results are bounded: their callers can still read them at their servers.
    // Nothing awaits under this lock.
    ended: Mutex<VecDeque<EndedTask>>,
    /// Those that another kind of process has to follow: their servers do not know them in our sessions.
    // Nothing awaits under this lock.
    elsewhere: Mutex<HashSet<Uuid>>,
    /// Those that are being adopted.
    // Nothing awaits under this lock.
    adopting: Mutex<HashSet<Uuid>>,
}

/// A task that is not followed any more.
#[derive(Debug)]
struct EndedTask {
    server: ServerName,
    caller: Caller,
    session: Option<Arc<str>>,
    remote_id: String,
    bounds: CallBounds,
}

/// Tasks of other processes that are remembered; then they are looked at again.
const MAX_ELSEWHERE: usize = 1_024;

/// Tasks of one caller that have ended and are remembered with the bounds of their results. Of an earlier one, the smallest
/// bound that may concern it holds.
const MAX_ENDED: usize = 256;
/// The same of all callers.
const MAX_ENDED_OF_ALL: usize = 4_096;

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
    /// What its result may not exceed.
    bounds: CallBounds,
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
            bounds: host.bounds_of_task(&self.caller_context.caller, &server, &tracked.row.tool),
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
            poll_interval: self.poll_interval,
            sessions: self.sessions,
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

    /// Asks the server of a task at once how far it is; what changed arrives as an event. Returns whether this host follows
    /// the task in the background.
    pub fn poll_task(&self, id: Uuid) -> bool {
        let switch = self.inner().background.tasks.lock().get(&id).cloned();
        switch.inspect(|switch| switch.hint.notify_one()).is_some()
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
        self.inner().background.follows(id)
    }
}

impl BackgroundTasks {
    /// Whether a task is followed.
    pub(super) fn follows(&self, id: Uuid) -> bool {
        self.tasks.lock().contains_key(&id)
    }

    /// Whether a task is not being adopted; it is from here on.
    pub(super) fn begin_adoption(&self, id: Uuid) -> bool {
        self.adopting.lock().insert(id)
    }

    pub(super) fn end_adoption(&self, id: Uuid) {
        self.adopting.lock().remove(&id);
    }

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

    /// What the result of a task may not exceed; `None` if no task of this process is meant.
    pub(crate) fn bounds(&self, task: &SeenTask<'_>) -> Option<CallBounds> {
        if let Some(switch) = self.find(task) {
            return Some(switch.bounds.clone());
        }
        let is_same = |ended: &&EndedTask| {
            ended.server == *task.server
                && ended.caller == *task.caller
                && ended.session.as_ref() == task.session
                && ended.remote_id == task.remote_id
        };
        self.ended.lock().iter().rev().find(is_same).map(|ended| ended.bounds.clone())
    }

    /// Whether a task was looked at, and another kind of process has to follow it.
    pub(crate) fn is_elsewhere(&self, id: Uuid) -> bool {
        self.elsewhere.lock().contains(&id)
    }

    fn note_elsewhere(&self, id: Uuid) {
        let mut elsewhere = self.elsewhere.lock();
        if MAX_ELSEWHERE <= elsewhere.len() {
            elsewhere.clear();
        }
        elsewhere.insert(id);
    }

    /// A task is not followed any more.
    fn forget(&self, id: Uuid) {
        let Some(switch) = self.tasks.lock().remove(&id) else { return };
        if switch.bounds.result.is_none() {
            return;
        }
        let TaskSwitch { server, caller, session, remote_id, bounds, .. } = &*switch;
        let ended = EndedTask {
            server: server.clone(),
            caller: caller.clone(),
            session: session.clone(),
            remote_id: remote_id.clone(),
            bounds: bounds.clone(),
        };
        let mut all = self.ended.lock();
        let of_caller = || all.iter().filter(|other| other.caller == ended.caller).count();
        if MAX_ENDED <= of_caller() {
            let oldest = all.iter().position(|other| other.caller == ended.caller);
            oldest.and_then(|oldest| all.remove(oldest));
        } else if MAX_ENDED_OF_ALL <= all.len() {
            all.pop_front();
        }
        all.push_back(ended);
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

impl Inner {
    /// What the result of a task may not exceed. `tool` is its public name.
    fn bounds_of_task(&self, caller: &Caller, server: &ServerName, tool: &str) -> CallBounds {
        let catalog = self.catalog_publisher.catalog();
        let entry = tool.parse().ok().and_then(|name: PublicName| catalog.find_tool(&name));
        // A name without prefix, of a tool that is listed no more, is its own.
        let of_server = || tool.strip_prefix(server.as_str()).and_then(|rest| rest.strip_prefix("__")).unwrap_or(tool);
        self.limits.of_task(caller, server, entry.map_or_else(of_server, |entry| &entry.origin.raw_name))
    }
}

impl HostContext {
    /// Where rows of tasks go.
    pub(crate) fn task_ports(&self) -> TaskPorts {
        TaskPorts { log: Arc::clone(&self.ports.tasks), events: self.events.clone() }
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
        Arc, BackgroundTasks, CallBounds, CallOutcome, Caller, CancellationToken, Mutex, Notify, SeenTask, TaskSwitch,
        Uuid,
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
                bounds: CallBounds::default(),
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
