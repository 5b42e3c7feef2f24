//! Follows tasks that an earlier process left: it was killed, or ended before they did.
//!
//! Only tasks of servers that others run are left; those of a process that we started ended with it.

use std::{sync::Arc, time::Duration};

use toolway_config::{PolicyMode, ServerName};
use toolway_wire::{json::Raw, message::ClientCapabilities};
use uuid::Uuid;

use super::{AnsweredBy, BackgroundTask, KeptBy, NotFollowed, SampledTask, TaskRow, TaskSessions, TrackedTask};
use crate::{
    call::{CallId, Caller, CallerContext, VisibleServers},
    host::{Host, Inner, SessionUsers},
    inbox::ItemOrigin,
    policy::{Attendance, Surface},
    record::{PersonWait, RecordsError},
};

/// Time between two looks for tasks that no process follows.
pub(crate) const LOOK: Duration = Duration::from_secs(10);

impl Host {
    /// Follows the tasks of its servers that no process follows, now and as long as it runs.
    pub fn adopt_tasks(&self) {
        let host = Arc::downgrade(self.inner());
        let stop = self.inner().stop_token();
        self.inner().spawn(async move {
            loop {
                match host.upgrade() {
                    Some(host) => report(adopt_all(&host).await),
                    None => return,
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = stop.cancelled() => return,
                }
            }
        });
    }

    /// Follows one task that no process follows. Returns whether it is followed by this host now.
    pub async fn adopt_task(&self, id: Uuid) -> Result<bool, RecordsError> {
        if self.follows_task(id) {
            return Ok(true);
        }
        adopt_one(self.inner(), id).await
    }

    /// Follows tasks of a gateway that was taken over, at once. Those that are free are also found by the next look; those of an
    /// earlier registration of this process belong to it already, so that the look does not find them.
    pub fn adopt_taken_tasks(&self, ids: Vec<Uuid>) {
        let host = Arc::downgrade(self.inner());
        let stop = self.inner().stop_token();
        self.inner().spawn(async move {
            let mut ids = ids.into_iter().peekable();
            while let (Some(id), Some(host)) = (ids.peek().copied(), host.upgrade()) {
                match adopt_taken(&host, id).await {
                    Ok(is_followed) => {
                        ids.next();
                        if !is_followed {
                            // Another process may know its server.
                            host.context.task_ports().log.release(id);
                        }
                        continue;
                    }
                    Err(error) => {
                        tracing::warn!(task = %id, %error, "a task of a gateway that was taken over is not followed yet");
                    }
                }
                drop(host);
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = stop.cancelled() => return,
                }
            }
        });
    }
}

/// Follows a task that this process has claimed; `false` if it is not followed here.
async fn adopt_taken(host: &Arc<Inner>, id: Uuid) -> Result<bool, RecordsError> {
    let stored = host.context.ports.tasks.find(id).await?;
    match stored.filter(|stored| stored.row.status.is_open()) {
        // A claim of what this process has claimed already succeeds.
        Some(stored) => adopt(host, stored.row).await,
        None => Ok(false),
    }
}

/// Follows the task of a call, if it has one that no process follows.
pub(crate) async fn adopt_if_left(host: &Arc<Inner>, call: Uuid) {
    report(adopt_one(host, call).await.map(drop));
}

async fn adopt_one(host: &Arc<Inner>, id: Uuid) -> Result<bool, RecordsError> {
    let left = host.context.ports.tasks.unclaimed().await?;
    match left.into_iter().find(|task| task.id == id) {
        Some(task) => adopt(host, task).await,
        None => Ok(false),
    }
}

async fn adopt_all(host: &Arc<Inner>) -> Result<(), RecordsError> {
    for task in host.context.ports.tasks.unclaimed().await? {
        adopt(host, task).await?;
    }
    Ok(())
}

/// A task that is being adopted; the look for tasks and a takeover may find the same one.
struct Adopting {
    host: Arc<Inner>,
    id: Uuid,
}

impl Adopting {
    /// `None` if it is being adopted already.
    fn begin(host: &Arc<Inner>, id: Uuid) -> Option<Self> {
        host.background.begin_adoption(id).then(|| Self { host: Arc::clone(host), id })
    }
}

impl Drop for Adopting {
    fn drop(&mut self) {
        self.host.background.end_adoption(self.id);
    }
}

/// Claims a task and follows it, or goes on to; `false` if another process was first, or its server is not configured here.
async fn adopt(host: &Arc<Inner>, row: TaskRow) -> Result<bool, RecordsError> {
    let ports = host.context.task_ports();
    let Some(_adopting) = Adopting::begin(host, row.id) else { return Ok(true) };
    // This process lost its registration for a moment: the task and its call are free, or another process is about to follow it.
    if host.background.follows(row.id) {
        return ports.log.claim(row.id).await;
    }
    let Some(connection) = row.server.parse::<ServerName>().ok().and_then(|server| host.connection(&server)) else {
        return Ok(false);
    };
    let is_left = row.kept_by == KeptBy::Process || host.background.is_elsewhere(row.id);
    if is_left || !ports.log.claim(row.id).await? {
        return Ok(false);
    }
    tracing::info!(task = %row.id, server = row.server, tool = row.tool, "following a task that an earlier process left");
    let dialer = &host.context.dialer;
    let is_ours = |surface: Surface| surface.shared_sessions() == dialer.shared_sessions;
    let sessions = match dialer.session_users {
        SessionUsers::OneProcess if row.surface.is_none_or(is_ours) => TaskSessions::Ours,
        SessionUsers::OneProcess | SessionUsers::Cluster => TaskSessions::Others,
    };
    let caller = caller(&row.caller);
    let mode = mode_of_adopted(&caller);
    let declared = row.capabilities.clone().and_then(|declared| Raw::parse(declared).ok());
    let capabilities = declared.map(ClientCapabilities);
    let following = BackgroundTask {
        process: connection.shared().monitor.current(),
        origin: ItemOrigin {
            call: Some(CallId::from_u128(row.id.as_u128())),
            surface: Surface::of(&caller),
            conversation: row.conversation.as_deref().map(Arc::from),
            has_session: row.answered_by == AnsweredBy::Client,
            caller: caller.clone(),
        },
        caller_context: CallerContext { caller, capabilities, session: None, visible: VisibleServers::All },
        redactor: connection.live().redactor.clone(),
        // Where its call was made is not known any more.
        sampling: SampledTask {
            mode,
            assistant: None,
            attendance: Attendance::Unattended,
            called: row.tool.clone(),
            person_wait: PersonWait::default(),
        },
        poll_interval: None,
        sessions,
    };
    let tracked = TrackedTask::adopted(row, ports, following.redactor.clone());
    match following.start(host, tracked) {
        Ok(starting) => starting.follow(),
        Err(not_followed) => {
            let NotFollowed { tracked, outcome } = *not_followed;
            tracing::warn!(task = %tracked.row.id, %outcome, "a task that an earlier process left is not followed yet");
            tracked.release();
            return Ok(false);
        }
    }
    Ok(true)
}

/// The mode of an adopted task. What its call or the assistant of its conversation asked for is not known any more, and may
/// have been stricter than the configuration: each sampling request is asked about, as in the strictest mode. A client of a
/// gateway chooses no mode.
fn mode_of_adopted(caller: &Caller) -> Option<PolicyMode> {
    match caller {
        Caller::Client(_) => None,
        Caller::Agent(_) | Caller::Console | Caller::Program | Caller::Terminal => Some(PolicyMode::Ask),
    }
}

/// The caller of a label. The name of an agent's run is not part of it.
fn caller(label: &str) -> Caller {
    match label.split_once(':') {
        Some(("client", principal)) => Caller::Client(principal.into()),
        _ => match label {
            "agent" => Caller::Agent("resumed".into()),
            "console" => Caller::Console,
            "program" => Caller::Program,
            _ => Caller::Terminal,
        },
    }
}

fn report(adopted: Result<(), RecordsError>) {
    if let Err(error) = adopted {
        tracing::error!(%error, "tasks that earlier processes left cannot be read");
    }
}
