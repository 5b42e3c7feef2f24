//! Tasks of servers and hosted tasks, for callers of either era.
//!
//! A caller knows a task of a server by a sealed id that contains caller and server, so that it survives a restart and is
//! valid for this caller only. A caller that wants a task from a server that creates none on request gets a hosted task,
//! whose call has a row in the store: after a restart its state and result are read there ([`stored_task`](super::stored_task)).
//! For a caller that wants no task, the gateway waits for it
//! ([`TaskFollower`](super::task_follower::TaskFollower)).

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use toolway_config::ServerName;
use toolway_host::{
    Host,
    audience::ClientText,
    call::{CallId, CallOutcome, Caller as HostCaller, CallerContext, CallerTasks, TaskOperation},
    catalog::{Catalog, ToolEntry},
};
use toolway_wire::{
    down::{Caller, HostedTasks, Tasks},
    exchange::{Exchange, ExchangeTimeouts, Handover, Outcome, Request},
    json::Raw,
    message::{RpcError, capability},
    seal::{Purpose, Sealer},
    task::{Task, TaskDetail, TaskError, TaskPage, TaskSupport},
    time::{self, Micros},
};

use super::{
    Requester, Scope,
    relayed_call::OpenedCall,
    stored_task::{self, StoredTask},
    task_follower,
    uris::PublicUris,
};
use crate::access::Access;

/// The tasks of the callers of one service.
pub(super) struct GatewayTasks {
    pub(super) host: Host,
    pub(super) access: Arc<Access>,
    pub(super) scope: Scope,
    pub(super) sealer: Arc<Sealer>,
    pub(super) hosted: HostedTasks,
    /// Tasks that were hosted before are those of an earlier process.
    pub(super) started: Micros,
}

/// Content of an opened task id.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TaskRef {
    keeper: TaskKeeper,
    /// Task id at the server, or of the hosted task.
    id: String,
}

/// What keeps a task.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TaskKeeper {
    Server(ServerName),
    /// This process.
    Hosted,
    /// The store: an earlier process hosted the task of this call.
    Store(CallId),
}

/// Content of a task id as it is sealed.
#[derive(Serialize, Deserialize)]
struct SealedTaskRef {
    /// Identity of the caller.
    caller: String,
    /// `None`: the gateway hosts the task.
    server: Option<String>,
    /// The server's id of the task, or the id of the call of a hosted one.
    task: String,
}

/// How a tool call and tasks are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskMode {
    /// The caller gets the task of the server, if the server creates one.
    ServerTask,
    /// The gateway waits for the task of the server, and the caller gets the result.
    Awaited,
    /// The caller gets a hosted task at once, and the call continues in it.
    Hosted,
}

impl GatewayTasks {
    pub(super) fn new(host: Host, access: Arc<Access>, scope: Scope, sealer: Arc<Sealer>, hosted: HostedTasks) -> Self {
        Self { host, access, scope, sealer, hosted, started: time::now() }
    }

    /// Whether the service declares tasks.
    pub(super) fn are_offered(&self) -> bool {
        match &self.scope {
            Scope::All => true,
            Scope::One(server) => server_tasks(&self.host.catalog(), server) != ServerTasks::Unsupported,
        }
    }

    /// Chooses the mode for a call of this tool, and sets the task request for its server.
    pub(super) fn task_mode<'a>(
        &self,
        kind: ServerTasks,
        tool: impl FnOnce() -> Option<&'a ToolEntry>,
        request: &mut Request,
    ) -> TaskMode {
        let support = match kind {
            ServerTasks::OnRequest => tool().map_or(TaskSupport::Forbidden, |tool| TaskSupport::of(&tool.item.raw)),
            // Not used in these cases.
            ServerTasks::Unsupported | ServerTasks::ByServer => TaskSupport::Forbidden,
        };
        match (kind, request.handover) {
            (ServerTasks::OnRequest, Handover::Never)
                if self.scope == Scope::All && support == TaskSupport::Required =>
            {
                request.handover = Handover::Wanted(None);
                TaskMode::Awaited
            }
            (ServerTasks::OnRequest, Handover::Wanted(_))
                if support == TaskSupport::Forbidden && self.scope == Scope::All =>
            {
                request.handover = Handover::Never;
                TaskMode::Hosted
            }
            (ServerTasks::OnRequest, given) => {
                request.handover = support.handover_for(given);
                TaskMode::ServerTask
            }
            (ServerTasks::ByServer, Handover::Wanted(_)) => {
                request.handover = Handover::Allowed;
                TaskMode::Hosted
            }
            (ServerTasks::ByServer, Handover::Never) if self.scope == Scope::All => {
                request.handover = Handover::Allowed;
                TaskMode::Awaited
            }
            (ServerTasks::ByServer, _) => TaskMode::ServerTask,
            (ServerTasks::Unsupported, Handover::Wanted(_)) => {
                request.handover = Handover::Never;
                TaskMode::Hosted
            }
            (ServerTasks::Unsupported, _) => {
                request.handover = Handover::Never;
                TaskMode::ServerTask
            }
        }
    }

    /// Whether the tool requires a task and the caller does not support tasks. True only for callers that declare their
    /// capabilities with each request.
    pub(super) fn caller_lacks_tasks(
        &self,
        catalog: &Catalog,
        server: &ServerName,
        tool: &str,
        caller: &Caller,
    ) -> bool {
        let required = || {
            let tool = catalog.tool_at(server, tool);
            tool.is_some_and(|tool| TaskSupport::of(&tool.item.raw) == TaskSupport::Required)
        };
        caller.declares_capabilities_per_request() && !caller.capabilities.extension(capability::TASKS) && required()
    }

    /// The task of a server with its sealed id.
    pub(super) fn with_sealed_id(&self, task: Task, server: &ServerName, principal: &str) -> Result<Task, RpcError> {
        let name = self.seal(principal, Some(server), &task.id)?;
        Ok(task.with_id(&name))
    }

    /// Turns a call into a hosted task. The caller is given its id when its row is written, so that it is found after a
    /// restart.
    pub(super) fn keep(&self, call: OpenedCall, wanted: Handover, caller: &Caller) -> Result<Exchange, RpcError> {
        let time = match wanted {
            Handover::Wanted(time) => time,
            Handover::Never | Handover::Allowed => None,
        };
        // By the id of its call it is found after a restart.
        let task = self.hosted.start_as(call.id.to_string(), call.exchange, time, caller)?;
        let name = self.seal(&caller.principal, None, &task.id)?;
        let task = Box::new(task.with_id(&name));
        let written = call.task_written;
        Ok(stored_task::ending_with(async move {
            written.await;
            Outcome::HandedOff(task)
        }))
    }

    /// The caller as the host knows it; fails once the key is revoked.
    fn caller_context(&self, caller: &Caller) -> Result<CallerContext, TaskError> {
        let client = self.access.client(&caller.principal);
        let client = client.ok_or_else(|| TaskError::Refused(super::key_revoked()))?;
        Ok(caller_context((&client, caller)))
    }

    /// Identity for sealed handles; `None` once the key is revoked.
    pub(super) fn identity(&self, principal: &str) -> Option<Arc<str>> {
        self.access.client(principal).map(|client| Arc::clone(&client.identity))
    }

    /// The id of a task for its caller. It is always the same: clients compare ids.
    pub(super) fn seal(&self, principal: &str, server: Option<&ServerName>, id: &str) -> Result<String, RpcError> {
        let server = server.map(ToString::to_string);
        let caller = self.identity(principal).ok_or_else(super::key_revoked)?.to_string();
        let name = SealedTaskRef { caller, server, task: id.to_owned() };
        let internal = |problem: &dyn fmt::Display| RpcError::new(RpcError::INTERNAL, &problem.to_string());
        let text = serde_json::to_vec(&name).map_err(|error| internal(&error))?;
        self.sealer.seal_id(Purpose::Task, &text).map_err(|error| internal(&error))
    }

    /// Opens a task id of this caller. The id of another caller is as unknown as an invalid one.
    fn open(&self, id: &str, caller: &Caller) -> Result<TaskRef, TaskError> {
        let content = self.sealer.open(Purpose::Task, id).ok_or_else(|| TaskError::unknown(id))?;
        let sealed: SealedTaskRef = serde_json::from_slice(&content).map_err(|_| TaskError::unknown(id))?;
        let server = sealed.server.map(|server| server.parse()).transpose().map_err(|_| TaskError::unknown(id))?;
        let in_scope = match (&self.scope, &server) {
            (Scope::One(one), Some(server)) => one == server,
            (Scope::One(_), None) | (Scope::All, _) => true,
        };
        let is_callers = self.identity(&caller.principal).is_some_and(|identity| *sealed.caller == *identity);
        if !(is_callers && in_scope) {
            return Err(TaskError::unknown(id));
        }
        let keeper = match server {
            Some(server) => TaskKeeper::Server(server),
            None if self.hosted.contains(&sealed.task, caller) => TaskKeeper::Hosted,
            None => TaskKeeper::Store(sealed.task.parse().map_err(|_| hosted_task_gone())?),
        };
        Ok(TaskRef { keeper, id: sealed.task })
    }

    /// A task that an earlier process hosted.
    fn stored(&self, call: CallId, caller: &Caller) -> Result<StoredTask, TaskError> {
        let uris = PublicUris { host: self.host.clone(), caller_context: self.caller_context(caller)? };
        let uris = Some(uris).filter(|_| self.scope == Scope::All);
        Ok(StoredTask { host: self.host.clone(), call, uris })
    }

    pub(super) async fn of_server(
        &self,
        operation: TaskOperation,
        server: &ServerName,
        id: Option<&str>,
        caller: &Caller,
    ) -> Result<CallerTasks, TaskError> {
        let caller_context = self.caller_context(caller)?;
        self.host.tasks_for(operation, caller_context, server, id).await.map_err(|outcome| unanswered(&outcome))
    }
}

impl Tasks for GatewayTasks {
    fn get<'a>(&'a self, id: &'a str, depth: TaskDetail, caller: &'a Caller) -> BoxFuture<'a, Result<Task, TaskError>> {
        Box::pin(async move {
            let name = self.open(id, caller)?;
            let task = match &name.keeper {
                TaskKeeper::Hosted => self.hosted.get(&name.id, depth, caller).await?,
                TaskKeeper::Store(call) => self.stored(*call, caller)?.task().await?,
                TaskKeeper::Server(server) => {
                    let of_server = self.of_server(TaskOperation::Get, server, Some(&name.id), caller).await?;
                    of_server.tasks().get(&name.id, depth).await.map_err(hide_details)?
                }
            };
            Ok(task.with_id(id))
        })
    }

    fn follow(&self, id: &str, caller: &Caller) -> Exchange {
        match (self.open(id, caller), self.caller_context(caller)) {
            (Err(problem), _) | (_, Err(problem)) => Exchange::ended(problem.into()),
            (Ok(TaskRef { keeper: TaskKeeper::Hosted, id }), _) => self.hosted.follow(&id, caller),
            (Ok(TaskRef { keeper: TaskKeeper::Store(call), .. }), _) => match self.stored(call, caller) {
                Ok(stored) => stored.follow(),
                Err(problem) => Exchange::ended(problem.into()),
            },
            (Ok(TaskRef { keeper: TaskKeeper::Server(server), id }), Ok(caller_context)) => {
                task_follower::follow_task(&self.host, caller_context, server, id)
            }
        }
    }

    fn answer<'a>(&'a self, id: &'a str, answers: Raw, caller: &'a Caller) -> BoxFuture<'a, Result<(), TaskError>> {
        Box::pin(async move {
            let name = self.open(id, caller)?;
            match &name.keeper {
                TaskKeeper::Hosted => self.hosted.answer(&name.id, answers, caller).await,
                // Its requests ended with the process that hosted it.
                TaskKeeper::Store(_) => Ok(()),
                TaskKeeper::Server(server) => {
                    let of_server = self.of_server(TaskOperation::Update, server, Some(&name.id), caller).await?;
                    of_server.tasks().answer(&name.id, answers).await.map_err(hide_details)
                }
            }
        })
    }

    fn cancel<'a>(&'a self, id: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<Task, TaskError>> {
        Box::pin(async move {
            let name = self.open(id, caller)?;
            let task = match &name.keeper {
                TaskKeeper::Hosted => self.hosted.cancel(&name.id, caller).await?,
                TaskKeeper::Store(call) => self.stored(*call, caller)?.cancel().await?,
                TaskKeeper::Server(server) => {
                    let of_server = self.of_server(TaskOperation::Cancel, server, Some(&name.id), caller).await?;
                    of_server.tasks().cancel(&name.id).await.map_err(hide_details)?
                }
            };
            Ok(task.with_id(id))
        })
    }

    fn list<'a>(&'a self, from: Option<Raw>, caller: &'a Caller) -> BoxFuture<'a, Result<TaskPage, TaskError>> {
        Box::pin(self.page(from, caller))
    }
}

/// How a server creates tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerTasks {
    /// It does not create tasks.
    Unsupported,
    /// On request, bound to the session of the request.
    OnRequest,
    /// When the server decides to; any caller that has the id can use the task.
    ByServer,
}

pub(super) fn server_tasks(catalog: &Catalog, server: &ServerName) -> ServerTasks {
    let declared = catalog.listing_of(server).map(|listing| &listing.capabilities);
    match declared {
        Some(declared) if declared.extension(capability::TASKS) => ServerTasks::ByServer,
        Some(declared) if declared.makes_tasks_of_calls() => ServerTasks::OnRequest,
        Some(_) | None => ServerTasks::Unsupported,
    }
}

/// The caller as the host knows it.
pub(super) fn caller_context((client, caller): Requester<'_>) -> CallerContext {
    CallerContext {
        caller: HostCaller::Client(Arc::clone(&caller.principal)),
        capabilities: Some(caller.capabilities.clone()),
        session: caller.session.clone(),
        visible: client.servers.clone(),
    }
}

/// Error for a task whose server cannot be used.
pub(super) fn unanswered(outcome: &CallOutcome) -> TaskError {
    let message = outcome.for_client().map(|text| text.to_string()).unwrap_or_default();
    TaskError::Refused(RpcError::new(RpcError::INTERNAL, &message))
}

/// The error for clients: the operator log has the details, from the connection of the server.
pub(super) fn hide_details(error: TaskError) -> TaskError {
    match error {
        TaskError::Failed(error) => {
            TaskError::Refused(RpcError::new(RpcError::INTERNAL, &ClientText::from(&error).to_string()))
        }
        refused @ TaskError::Refused(_) => refused,
    }
}

/// The outcome for clients.
pub(super) fn without_details(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Failed(error) => hide_details(TaskError::Failed(error)).into(),
        other => other,
    }
}

/// Error for a hosted task that no longer exists.
pub(super) fn hosted_task_gone() -> TaskError {
    let why = "this task was hosted by the gateway and no longer exists: it expired, or the gateway restarted without a \
               record of it; call again";
    TaskError::Refused(RpcError::new(RpcError::INVALID_PARAMS, why))
}

/// Terms for following a task: without timeouts.
pub(super) fn no_timeouts() -> ExchangeTimeouts {
    ExchangeTimeouts::unbounded()
}

/// Without the service its hosted tasks cannot be reached, so they are removed.
impl Drop for GatewayTasks {
    fn drop(&mut self) {
        self.hosted.clear();
    }
}

impl fmt::Debug for GatewayTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayTasks").field("scope", &self.scope).finish_non_exhaustive()
    }
}
