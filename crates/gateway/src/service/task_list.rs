//! The tasks of a caller in one list: those that are kept here, then those of each server that lists its own.
//!
//! What a server lists is shown as far as this caller is known to have begun it: behind one credential a server may list
//! the tasks of all. A server that cannot be asked takes only its own tasks away.

use serde::{Deserialize, Serialize};
use toolway_config::ServerName;
use toolway_host::call::Caller as HostCaller;
use toolway_wire::{
    down::{Caller, Tasks},
    json::Raw,
    message::RpcError,
    seal::Purpose,
    task::{Task, TaskPage, Unanswered},
};

use super::{
    Scope, invalid, no_longer_good,
    tasks::{GatewayTasks, Keeps, keeps},
};

/// A page is full with so many; what one server lists in one go stays together.
const PAGE: usize = 100;

/// Where somebody is in the list, as it is sealed.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    caller: String,
    /// Whose tasks come next; none: ours.
    server: Option<String>,
    /// Where that one goes on.
    from: Option<String>,
}

/// Whose tasks: ours, or a server's.
type Source = Option<ServerName>;

impl GatewayTasks {
    /// One page, from where another said that it goes on.
    pub(super) async fn page(&self, cursor: Option<Raw>, caller: &Caller) -> Result<TaskPage, Unanswered> {
        let sources = self.sources(caller);
        let (first, mut from) = match cursor {
            None => (0, None),
            Some(cursor) => self.place(&cursor, &sources, caller).map_err(Unanswered::Refused)?,
        };
        let mut tasks = Vec::new();
        for (index, source) in sources.iter().enumerate().skip(first) {
            if PAGE <= tasks.len() {
                return Ok(TaskPage { tasks, next: Some(self.cursor(source, None, caller)?) });
            }
            let page = match (self.listed(source, from.take(), caller).await, &self.scope) {
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

    /// Whose tasks are listed, in their order: ours, then those of servers at which this caller began some.
    fn sources(&self, caller: &Caller) -> Vec<Source> {
        let catalog = self.host.catalog();
        let Some(client) = self.access.client(&caller.principal) else { return Vec::new() };
        let on_behalf = HostCaller::Client(caller.principal.clone());
        let lists = |server: &ServerName| {
            let listed = catalog.listing_of(server).is_some_and(|listing| listing.capabilities.lists_tasks());
            listed && keeps(&catalog, server) == Keeps::InASession
        };
        let theirs = |server: &ServerName| client.sees(server) && self.host.keeps_tasks(&on_behalf, server);
        let servers: Vec<ServerName> = match &self.scope {
            Scope::One(server) => vec![server.clone()],
            Scope::All => self.host.servers().into_iter().map(|status| status.server).collect(),
        };
        std::iter::once(None)
            .chain(servers.into_iter().filter(|server| lists(server) && theirs(server)).map(Some))
            .collect()
    }

    async fn listed(&self, source: &Source, from: Option<Raw>, caller: &Caller) -> Result<TaskPage, Unanswered> {
        let named = |task: Task| {
            let name = self.seal(&caller.principal, source.as_ref(), &task.id)?;
            Ok(task.named(&name))
        };
        let (tasks, next) = match source {
            None => (self.hosted.list(None, caller).await?.tasks, None),
            Some(server) => {
                let of_server = self.of_server(server, None, caller).await?;
                let page = of_server.tasks().list(from).await?;
                (page.tasks.into_iter().filter(|task| of_server.is_theirs(&task.id)).collect(), page.next)
            }
        };
        let tasks = tasks.into_iter().map(named).collect::<Result<Vec<_>, RpcError>>().map_err(Unanswered::Refused)?;
        Ok(TaskPage { tasks, next })
    }

    fn cursor(&self, source: &Source, from: Option<&Raw>, caller: &Caller) -> Result<Raw, Unanswered> {
        let identity = self.identity(&caller.principal).ok_or_else(|| Unanswered::Refused(no_longer_good()))?;
        let place = Place {
            caller: identity.to_string(),
            server: source.as_ref().map(ToString::to_string),
            from: from.map(ToString::to_string),
        };
        let internal = |problem: String| Unanswered::Refused(RpcError::new(RpcError::INTERNAL, &problem));
        let text = serde_json::to_vec(&place).map_err(|error| internal(error.to_string()))?;
        let sealed = self.sealer.seal(Purpose::TaskCursor, &text).map_err(|error| internal(error.to_string()))?;
        Ok(Raw::of(&sealed))
    }

    /// What a cursor says to this caller: whose tasks come next, and from where.
    fn place(&self, cursor: &Raw, sources: &[Source], caller: &Caller) -> Result<(usize, Option<Raw>), RpcError> {
        let unknown = || invalid("this cursor was not given to you for this list");
        let text = cursor.as_str().ok_or_else(unknown)?;
        let content = self.sealer.open(Purpose::TaskCursor, &text).ok_or_else(unknown)?;
        let place: Place = serde_json::from_slice(&content).map_err(|_| unknown())?;
        if self.identity(&caller.principal).is_none_or(|identity| *place.caller != *identity) {
            return Err(unknown());
        }
        let is_next = |source: &Source| source.as_ref().map(ServerName::as_str) == place.server.as_deref();
        let over = || invalid("this list has changed since; begin again without a cursor");
        let first = sources.iter().position(is_next).ok_or_else(over)?;
        let from = place.from.map(Raw::parse).transpose().map_err(|_| unknown())?;
        Ok((first, from))
    }
}
