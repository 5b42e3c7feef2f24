//! Tasks of servers and of our own, as callers of either era reach them.
//!
//! A task that a server keeps is known to its caller by a sealed name that says whose it is and where, so that it outlives
//! a restart and is nobody else's. A caller that wants a task of a server that makes none when asked is given one of ours,
//! which ends with us; one that wants none is waited for ([`Driven`](super::driven::Driven)).

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::{CallOutcome, Caller as HostCaller, OnBehalf, beside::TasksOf},
    catalog::Catalog,
};
use toolway_wire::{
    down::{Caller, HostedTasks, Tasks},
    error::WireError,
    exchange::{Exchange, Handover, Request, Terms},
    json::Raw,
    message::{RpcError, capability},
    seal::{Purpose, Sealer},
    task::{Depth, Support, Task, TaskPage, Unanswered},
};

use super::{Scope, Who, driven};
use crate::access::Access;

/// The tasks of a service's callers.
pub(super) struct GatewayTasks {
    pub(super) host: Host,
    pub(super) access: Arc<Access>,
    pub(super) scope: Scope,
    pub(super) sealer: Arc<Sealer>,
    pub(super) hosted: HostedTasks,
}

/// What a name of ours says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    /// The server that keeps it; none: we do.
    server: Option<ServerName>,
    /// Its keeper's name for it.
    id: String,
}

/// What a name of ours says, as it is sealed.
#[derive(Serialize, Deserialize)]
struct SealedName {
    /// Whose task it is.
    caller: String,
    server: Option<String>,
    task: String,
}

/// How a call is made, as far as tasks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// A task of the server's is the caller's.
    Handed,
    /// A task of the server's is seen through; the caller gets its end.
    Driven,
    /// The caller gets a task of ours at once, and the call goes on in it.
    Hosted,
}

impl GatewayTasks {
    pub(super) fn new(host: Host, access: Arc<Access>, scope: Scope, sealer: Arc<Sealer>, hosted: HostedTasks) -> Self {
        Self { host, access, scope, sealer, hosted }
    }

    /// Whether callers are told of tasks at all.
    pub(super) fn are_offered(&self) -> bool {
        match &self.scope {
            Scope::All => true,
            Scope::One(server) => keeps(&self.host.catalog(), server) != Keeps::Nothing,
        }
    }

    /// What becomes of a call of this tool, and what its server is told.
    pub(super) fn course(&self, catalog: &Catalog, server: &ServerName, tool: &str, request: &mut Request) -> Course {
        let keeps = keeps(catalog, server);
        let support = match keeps {
            Keeps::InASession => {
                catalog.tool_at(server, tool).map_or(Support::Forbidden, |tool| Support::of(&tool.item.raw))
            }
            // Nobody asks what it says.
            Keeps::Nothing | Keeps::OnTheirOwn => Support::Forbidden,
        };
        match (keeps, request.handover) {
            (Keeps::InASession, Handover::Never) if self.scope == Scope::All && support == Support::Required => {
                request.handover = Handover::Wanted(None);
                Course::Driven
            }
            (Keeps::InASession, Handover::Wanted(_)) if support == Support::Forbidden && self.scope == Scope::All => {
                request.handover = Handover::Never;
                Course::Hosted
            }
            (Keeps::InASession, given) => {
                request.handover = support.wish(given);
                Course::Handed
            }
            (Keeps::OnTheirOwn, Handover::Wanted(_)) => {
                request.handover = Handover::Allowed;
                Course::Hosted
            }
            (Keeps::OnTheirOwn, Handover::Never) if self.scope == Scope::All => {
                request.handover = Handover::Allowed;
                Course::Driven
            }
            (Keeps::OnTheirOwn, _) => Course::Handed,
            (Keeps::Nothing, Handover::Wanted(_)) => {
                request.handover = Handover::Never;
                Course::Hosted
            }
            (Keeps::Nothing, _) => {
                request.handover = Handover::Never;
                Course::Handed
            }
        }
    }

    /// Whether a tool runs in no other way than as a task, and its caller cannot have one. Only a caller that says so with
    /// each request can be told what it lacks.
    pub(super) fn lacks(&self, catalog: &Catalog, server: &ServerName, tool: &str, caller: &Caller) -> bool {
        let required = || {
            let tool = catalog.tool_at(server, tool);
            tool.is_some_and(|tool| Support::of(&tool.item.raw) == Support::Required)
        };
        caller.says_what_it_lacks() && !caller.capabilities.extension(capability::TASKS) && required()
    }

    /// A task of a server's under the name its caller knows it by.
    pub(super) fn named(&self, task: Task, server: &ServerName, principal: &str) -> Result<Task, RpcError> {
        let name = self.seal(principal, Some(server), &task.id)?;
        Ok(task.named(&name))
    }

    /// Keeps a call as a task of ours.
    pub(super) fn keep(&self, exchange: Exchange, request: &Request, caller: &Caller) -> Result<Task, RpcError> {
        let time = match request.handover {
            Handover::Wanted(time) => time,
            Handover::Never | Handover::Allowed => None,
        };
        let task = self.hosted.keep(exchange, time, caller)?;
        let name = self.seal(&caller.principal, None, &task.id)?;
        Ok(task.named(&name))
    }

    /// Whoever this is, as the host knows them; nobody once the key is gone.
    fn on_behalf(&self, caller: &Caller) -> Result<OnBehalf, Unanswered> {
        let client = self.access.client(&caller.principal);
        let client = client.ok_or_else(|| Unanswered::Refused(super::no_longer_good()))?;
        Ok(on_behalf((&client, caller)))
    }

    /// Who a caller is, as what is sealed for it says; nobody once its key is gone.
    pub(super) fn identity(&self, principal: &str) -> Option<Arc<str>> {
        self.access.client(principal).map(|client| Arc::clone(&client.identity))
    }

    pub(super) fn seal(&self, principal: &str, server: Option<&ServerName>, id: &str) -> Result<String, RpcError> {
        let server = server.map(ToString::to_string);
        let caller = self.identity(principal).ok_or_else(super::no_longer_good)?.to_string();
        let name = SealedName { caller, server, task: id.to_owned() };
        let internal = |problem: &dyn fmt::Display| RpcError::new(RpcError::INTERNAL, &problem.to_string());
        let text = serde_json::to_vec(&name).map_err(|error| internal(&error))?;
        self.sealer.seal(Purpose::Task, &text).map_err(|error| internal(&error))
    }

    /// What a name says to this caller: another's is as unknown as one that nobody made.
    fn open(&self, id: &str, caller: &Caller) -> Result<Name, Unanswered> {
        let content = self.sealer.open(Purpose::Task, id).ok_or_else(|| Unanswered::unknown(id))?;
        let sealed: SealedName = serde_json::from_slice(&content).map_err(|_| Unanswered::unknown(id))?;
        let server = sealed.server.map(|server| server.parse()).transpose().map_err(|_| Unanswered::unknown(id))?;
        let ours = match (&self.scope, &server) {
            (Scope::One(one), Some(server)) => one == server,
            (Scope::One(_), None) | (Scope::All, _) => true,
        };
        let theirs = self.identity(&caller.principal).is_some_and(|identity| *sealed.caller == *identity);
        match (theirs && ours, &server) {
            (false, _) => Err(Unanswered::unknown(id)),
            (true, None) if !self.hosted.keeps(&sealed.task, caller) => Err(over()),
            (true, _) => Ok(Name { server, id: sealed.task }),
        }
    }

    pub(super) async fn of_server(
        &self,
        server: &ServerName,
        id: Option<&str>,
        caller: &Caller,
    ) -> Result<TasksOf, Unanswered> {
        let on_behalf = self.on_behalf(caller)?;
        self.host.tasks(on_behalf, server, id).await.map_err(|outcome| unanswered(&outcome))
    }
}

impl Tasks for GatewayTasks {
    fn look<'a>(&'a self, id: &'a str, depth: Depth, caller: &'a Caller) -> BoxFuture<'a, Result<Task, Unanswered>> {
        Box::pin(async move {
            let name = self.open(id, caller)?;
            let task = match &name.server {
                None => self.hosted.look(&name.id, depth, caller).await?,
                Some(server) => {
                    let of_server = self.of_server(server, Some(&name.id), caller).await?;
                    of_server.tasks().look(&name.id, depth).await?
                }
            };
            Ok(task.named(id))
        })
    }

    fn see_through(&self, id: &str, caller: &Caller) -> Exchange {
        match (self.open(id, caller), self.on_behalf(caller)) {
            (Err(problem), _) | (_, Err(problem)) => Exchange::ended(problem.into()),
            (Ok(Name { server: None, id, .. }), _) => self.hosted.see_through(&id, caller),
            (Ok(Name { server: Some(server), id, .. }), Ok(on_behalf)) => {
                driven::seen_through(&self.host, on_behalf, server, id)
            }
        }
    }

    fn answer<'a>(&'a self, id: &'a str, answers: Raw, caller: &'a Caller) -> BoxFuture<'a, Result<(), Unanswered>> {
        Box::pin(async move {
            let name = self.open(id, caller)?;
            match &name.server {
                None => self.hosted.answer(&name.id, answers, caller).await,
                Some(server) => {
                    let of_server = self.of_server(server, Some(&name.id), caller).await?;
                    of_server.tasks().answer(&name.id, answers).await
                }
            }
        })
    }

    fn cancel<'a>(&'a self, id: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<Task, Unanswered>> {
        Box::pin(async move {
            let name = self.open(id, caller)?;
            let task = match &name.server {
                None => self.hosted.cancel(&name.id, caller).await?,
                Some(server) => {
                    let of_server = self.of_server(server, Some(&name.id), caller).await?;
                    of_server.tasks().cancel(&name.id).await?
                }
            };
            Ok(task.named(id))
        })
    }

    fn list<'a>(&'a self, from: Option<Raw>, caller: &'a Caller) -> BoxFuture<'a, Result<TaskPage, Unanswered>> {
        Box::pin(self.page(from, caller))
    }
}

/// How a server keeps tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeps {
    Nothing,
    /// Where it is asked to, in the session that asked.
    InASession,
    /// Where it likes to, for whoever knows the name.
    OnTheirOwn,
}

pub(super) fn keeps(catalog: &Catalog, server: &ServerName) -> Keeps {
    let declared = catalog.listing_of(server).map(|listing| &listing.capabilities);
    match declared {
        Some(declared) if declared.extension(capability::TASKS) => Keeps::OnTheirOwn,
        Some(declared) if declared.makes_tasks_of_calls() => Keeps::InASession,
        Some(_) | None => Keeps::Nothing,
    }
}

/// Whoever this is, as the host knows them.
pub(super) fn on_behalf((client, caller): Who<'_>) -> OnBehalf {
    OnBehalf {
        caller: HostCaller::Client(Arc::clone(&caller.principal)),
        capabilities: Some(caller.capabilities.clone()),
        session: caller.session.clone(),
        visible: client.servers.clone(),
    }
}

fn unanswered(outcome: &CallOutcome) -> Unanswered {
    let message = outcome.message().unwrap_or_default();
    Unanswered::Failed(WireError::Refused(message))
}

/// A task of ours that was there once.
fn over() -> Unanswered {
    let why =
        "this task was kept by the gateway and is over: its time was up, or it ended with the gateway; call again";
    Unanswered::Refused(RpcError::new(RpcError::INVALID_PARAMS, why))
}

/// The clocks of whoever follows a task: it may take as long as it takes.
pub(super) fn patience() -> Terms {
    Terms::unbounded()
}

/// With a service its callers cannot reach what it kept.
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
