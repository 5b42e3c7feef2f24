//! The tasks of a caller in one list: hosted tasks first, those of an earlier process included, then those of each server
//! that lists tasks.
//!
//! Of the tasks of a server only those that this caller started are shown, because behind one credential a server may list
//! the tasks of all callers. If a server fails, only its own tasks are missing.

use serde::{Deserialize, Serialize};
use toolway_config::ServerName;
use toolway_host::{
    call::{CallId, Caller as HostCaller, TaskOperation},
    task::TaskRow,
};
use toolway_wire::{
    down::{Caller, Tasks},
    json::Raw,
    message::RpcError,
    seal::Purpose,
    task::{Task, TaskError, TaskPage},
};

use super::{
    Scope, invalid, key_revoked, stored_task,
    tasks::{GatewayTasks, ServerTasks, server_tasks},
};

/// A page ends after this many tasks; a page of one server is not split.
const PAGE_TASKS: usize = 100;

/// Content of a sealed cursor of the task list.
#[derive(Debug, Serialize, Deserialize)]
struct TaskCursor {
    caller: String,
    /// Server whose tasks come next; `None`: hosted tasks.
    server: Option<String>,
    /// Cursor of that server.
    from: Option<String>,
}

/// Source of tasks: a server, or `None` for hosted tasks.
type Source = Option<ServerName>;

impl GatewayTasks {
    /// One page, from `cursor` on.
    pub(super) async fn page(&self, cursor: Option<Raw>, caller: &Caller) -> Result<TaskPage, TaskError> {
        let sources = self.sources(caller);
        let (first, mut from) = match cursor {
            None => (0, None),
            Some(cursor) => self.position(&cursor, &sources, caller).map_err(TaskError::Refused)?,
        };
        let mut tasks = Vec::new();
        for (index, source) in sources.iter().enumerate().skip(first) {
            if PAGE_TASKS <= tasks.len() {
                return Ok(TaskPage { tasks, next: Some(self.cursor(source, None, caller)?) });
            }
            let page = match (self.list_source(source, from.take(), caller).await, &self.scope) {
                (Ok(page), _) => page,
                (Err(problem), Scope::One(_)) => return Err(problem),
                (Err(_), Scope::All) => continue,
            };
            tasks.extend(page.tasks);
            if let Some(next) = &page.next {
                return Ok(TaskPage { tasks, next: Some(self.cursor(&sources[index], Some(next), caller)?) });
            }
        }
        Ok(TaskPage { tasks, next: None })
    }

    /// Sources in order: hosted tasks, then servers at which this caller has started tasks.
    fn sources(&self, caller: &Caller) -> Vec<Source> {
        let catalog = self.host.catalog();
        let Some(client) = self.access.client(&caller.principal) else { return Vec::new() };
        let caller_context = HostCaller::Client(caller.principal.clone());
        let lists = |server: &ServerName| {
            let listed = catalog.listing_of(server).is_some_and(|listing| listing.capabilities.lists_tasks());
            listed && server_tasks(&catalog, server) == ServerTasks::OnRequest
        };
        let theirs = |server: &ServerName| client.sees(server) && self.host.keeps_tasks(&caller_context, server);
        let servers: Vec<ServerName> = match &self.scope {
            Scope::One(server) => vec![server.clone()],
            Scope::All => self.host.servers().into_iter().map(|status| status.server).collect(),
        };
        std::iter::once(None)
            .chain(servers.into_iter().filter(|server| lists(server) && theirs(server)).map(Some))
            .collect()
    }

    async fn list_source(&self, source: &Source, from: Option<Raw>, caller: &Caller) -> Result<TaskPage, TaskError> {
        let named = |task: Task| {
            let name = self.seal(&caller.principal, source.as_ref(), &task.id)?;
            Ok(task.with_id(&name))
        };
        let (tasks, next) = match source {
            None => {
                let mut hosted = self.hosted.list(None, caller).await?.tasks;
                hosted = hosted.into_iter().map(named).collect::<Result<_, RpcError>>().map_err(TaskError::Refused)?;
                hosted.extend(self.stored_tasks(caller).await.map_err(TaskError::Refused)?);
                return Ok(TaskPage { tasks: hosted, next: None });
            }
            Some(server) => {
                let of_server = self.of_server(TaskOperation::List, server, None, caller).await?;
                let page = of_server.tasks().list(from).await.map_err(super::tasks::hide_details)?;
                (page.tasks.into_iter().filter(|task| of_server.is_theirs(&task.id)).collect::<Vec<_>>(), page.next)
            }
        };
        let tasks = tasks.into_iter().map(named).collect::<Result<Vec<_>, RpcError>>().map_err(TaskError::Refused)?;
        Ok(TaskPage { tasks, next })
    }

    /// The newest tasks that an earlier process hosted for this client, which has the same key. A store that cannot be read
    /// hides only these.
    async fn stored_tasks(&self, caller: &Caller) -> Result<Vec<Task>, RpcError> {
        let identity = self.identity(&caller.principal).ok_or_else(key_revoked)?;
        let rows = self.host.tasks_hosted_for(&identity, self.started, PAGE_TASKS).await.unwrap_or_else(|error| {
            tracing::error!(%error, caller = %caller.principal, "stored tasks cannot be listed");
            Vec::new()
        });
        // The path of a server has the tasks of that server.
        let is_here = |row: &TaskRow| match &self.scope {
            Scope::All => true,
            Scope::One(server) => row.server == server.as_str(),
        };
        let sealed = rows.iter().filter(|row| is_here(row)).map(|row| {
            let call = CallId::from_u128(row.id.as_u128());
            let id = self.seal(&caller.principal, None, &call.to_string())?;
            Ok(stored_task::state_of(row).with_id(&id))
        });
        sealed.collect()
    }

    fn cursor(&self, source: &Source, from: Option<&Raw>, caller: &Caller) -> Result<Raw, TaskError> {
        let identity = self.identity(&caller.principal).ok_or_else(|| TaskError::Refused(key_revoked()))?;
        let position = TaskCursor {
            caller: identity.to_string(),
            server: source.as_ref().map(ToString::to_string),
            from: from.map(ToString::to_string),
        };
        let internal = |problem: String| TaskError::Refused(RpcError::new(RpcError::INTERNAL, &problem));
        let text = serde_json::to_vec(&position).map_err(|error| internal(error.to_string()))?;
        let sealed = self.sealer.seal(Purpose::TaskCursor, &text).map_err(|error| internal(error.to_string()))?;
        Ok(Raw::of(&sealed))
    }

    /// Opens a cursor of this caller: index of the source, and the cursor of that source.
    fn position(&self, cursor: &Raw, sources: &[Source], caller: &Caller) -> Result<(usize, Option<Raw>), RpcError> {
        let unknown = || invalid("invalid cursor for this list");
        let text = cursor.as_str().ok_or_else(unknown)?;
        let content = self.sealer.open(Purpose::TaskCursor, &text).ok_or_else(unknown)?;
        let cursor: TaskCursor = serde_json::from_slice(&content).map_err(|_| unknown())?;
        if self.identity(&caller.principal).is_none_or(|identity| *cursor.caller != *identity) {
            return Err(unknown());
        }
        let is_next = |source: &Source| source.as_ref().map(ServerName::as_str) == cursor.server.as_deref();
        let over = || invalid("the list has changed; start again without a cursor");
        let first = sources.iter().position(is_next).ok_or_else(over)?;
        let from = cursor.from.map(Raw::parse).transpose().map_err(|_| unknown())?;
        Ok((first, from))
    }
}
