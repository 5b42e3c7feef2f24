//! A host as a service: all servers under public names, or one server under its own names.
//!
//! Listings are answered from the catalog ([`lists`], [`pages`]); every other request is a call of the host, relayed by
//! [`relayed_call`]. Nothing here depends on the protocol era of either side.

mod annotation;
mod icons;
mod lists;
mod pages;
mod profile;
mod relayed_call;
mod scope;
mod skills;
mod stored_task;
mod subscriptions;
mod task_follower;
mod task_list;
mod tasks;
mod uris;

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use futures_util::future::BoxFuture;
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::{CallRequest, Caller as HostCaller, CallerContext, CompletionRef, Located, Target, TaskHandling},
    catalog::{Origin, uri::split_owned},
    record::{IdempotencyKey, InvalidKey},
};
use toolway_wire::{
    down::{self, Caller, HostedTaskOptions, HostedTasks, ListPage, Profile, Service, ServiceSubscription, Tasks},
    exchange::{Exchange, Handover, Outcome, Request, ServerRequestHandler},
    header::{self, ParamHeader},
    json::Raw,
    message::RpcError,
    notice::SubscriptionFilter,
    seal::Sealer,
};

pub(crate) use pages::PAGE_ITEMS;
pub use scope::Scope;

use self::{
    lists::FirstLists,
    pages::Pages,
    relayed_call::{OpenedCall, RelayedCall, TaskRenamer},
    skills::SkillMethod,
    tasks::{GatewayTasks, ServerTasks, TaskMode},
    uris::PublicUris,
};
use crate::access::{Access, Client};

/// A host as a service for the callers of a gateway.
pub struct HostService {
    host: Host,
    access: Arc<Access>,
    scope: Scope,
    pages: Arc<Pages>,
    tasks: Arc<GatewayTasks>,
    first_lists: FirstLists,
}

/// Member of `_meta` with the idempotency key of a call.
const KEY_META: &str = "toolway/idempotencyKey";

/// An authenticated client, and its connection as the wire describes it.
type Requester<'a> = (&'a Client, &'a Caller);

// === impl HostService ===

impl HostService {
    /// Serves `host` within `scope` to the clients of `access`. Task ids and list cursors are sealed with `sealer`.
    pub fn new(host: Host, access: Arc<Access>, scope: Scope, sealer: Arc<Sealer>) -> Self {
        Self::with_hosted_tasks(host, access, scope, sealer, HostedTasks::new(HostedTaskOptions::default()))
    }

    /// The same, with a store for hosted tasks that other services share.
    pub fn with_hosted_tasks(
        host: Host,
        access: Arc<Access>,
        scope: Scope,
        sealer: Arc<Sealer>,
        hosted: HostedTasks,
    ) -> Self {
        let tasks =
            Arc::new(GatewayTasks::new(host.clone(), Arc::clone(&access), scope.clone(), Arc::clone(&sealer), hosted));
        let pages = Arc::new(Pages::new(sealer, PAGE_ITEMS, host.memory()));
        Self { host, access, scope, pages, tasks, first_lists: FirstLists::default() }
    }

    /// The same, for one client that starts its servers with its session: its first lists wait until these were listed,
    /// within a bound of seconds.
    #[must_use]
    pub fn starting_with_its_client(self) -> Self {
        Self { first_lists: FirstLists::UntilStarted { deadline: OnceLock::new() }, ..self }
    }

    /// The same, with at most this many items in a page of a list.
    #[must_use]
    pub fn with_page_size(self, items: usize) -> Self {
        Self { pages: Arc::new(self.pages.resized(items)), ..self }
    }

    fn answer(&self, request: Request, caller: &Caller) -> Result<Exchange, RpcError> {
        let client = self.client(caller)?;
        if let Some(kind) = lists::kind_of(request.method()) {
            return self.list(kind, &request, client, caller);
        }
        if let Some(method) = SkillMethod::of(request.method()).filter(|_| self.scope == Scope::All) {
            return self.skills(method, request, (&client, caller));
        }
        let text = |key| request.param(key).as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
        let missing = |key: &str| invalid(&format!("`{key}` is missing or not a string"));
        let target = match request.method() {
            "completion/complete" => return self.complete(request, (&client, caller)),
            "tools/call" => self.scope.tool(&text("name").ok_or_else(|| missing("name"))?)?,
            "prompts/get" => self.scope.prompt(&text("name").ok_or_else(|| missing("name"))?)?,
            "resources/read" => self.scope.resource(text("uri").ok_or_else(|| missing("uri"))?),
            method => self.scope.method(&self.host, method)?,
        };
        let caller_context = tasks::caller_context((&client, caller));
        match self.host.locate_for(&caller_context, target) {
            Located { target: target @ (Target::Tool(_) | Target::ToolOf(_)), origin: Some(origin), .. } => {
                self.call(target, origin, request, caller_context, caller)
            }
            Located { target, is_awaited: true, .. } => self.call_awaited(target, request, caller_context, caller),
            Located { target, .. } => match owner_in_uri(&target) {
                Some(server) => Ok(self.relay_owned(target, server, request, caller_context)),
                None => Ok(self.relay(target, request, caller_context)),
            },
        }
    }

    /// Calls a tool: the only request that can become a task.
    fn call(
        &self,
        target: Target,
        Origin { server, raw_name }: Origin,
        mut request: Request,
        caller_context: CallerContext,
        caller: &Caller,
    ) -> Result<Exchange, RpcError> {
        let catalog = self.host.catalog();
        let server_tasks = tasks::server_tasks(&catalog, &server);
        // Task support is part of the listing, which can be specific to this caller.
        let catalog = match server_tasks {
            ServerTasks::OnRequest => self.host.catalog_of(&caller_context),
            ServerTasks::Unsupported | ServerTasks::ByServer => catalog,
        };
        if self.scope != Scope::All && self.tasks.caller_lacks_tasks(&catalog, &server, &raw_name, caller) {
            return Err(down::tasks_not_declared());
        }
        let wanted = request.handover;
        let task_mode = self.tasks.task_mode(server_tasks, || catalog.tool_at(&server, &raw_name), &mut request);
        match task_mode {
            TaskMode::ServerTask => {
                let exchange = self.relay(target, request, caller_context);
                Ok(Exchange::through(TaskRenamer::new(exchange, &self.tasks, server, caller)))
            }
            TaskMode::Awaited => Ok(self.relay_for(TaskHandling::Await, target, request, caller_context)?.exchange),
            TaskMode::Hosted => {
                let call = self.relay_for(TaskHandling::Hosted, target, request, caller_context)?;
                self.tasks.keep(call, wanted, caller)
            }
        }
    }

    /// Calls a tool whose server has not listed its tools yet. Whether the server makes a task of the call is known only when
    /// it is sent, so that a task is one of the gateway.
    fn call_awaited(
        &self,
        target: Target,
        request: Request,
        caller_context: CallerContext,
        caller: &Caller,
    ) -> Result<Exchange, RpcError> {
        match request.handover {
            wanted @ Handover::Wanted(_) => {
                let call = self.relay_for(TaskHandling::Hosted, target, request, caller_context)?;
                self.tasks.keep(call, wanted, caller)
            }
            Handover::Never | Handover::Allowed => {
                Ok(self.relay_for(TaskHandling::Await, target, request, caller_context)?.exchange)
            }
        }
    }

    /// Opens a call at the host, which checks that the caller may see the target.
    fn relay(&self, target: Target, request: Request, caller_context: CallerContext) -> Exchange {
        match self.relay_for(TaskHandling::HandOver, target, request, caller_context) {
            Ok(opened) => opened.exchange,
            Err(error) => Exchange::ended(Outcome::Refused(error)),
        }
    }

    /// The same with what becomes of a task that its server makes of it.
    fn relay_for(
        &self,
        task: TaskHandling,
        target: Target,
        request: Request,
        caller_context: CallerContext,
    ) -> Result<OpenedCall, RpcError> {
        let (kind, session, visible) = (target.kind(), caller_context.session.clone(), caller_context.visible.clone());
        let idempotency_key = self.idempotency_key(&request, &caller_context.caller)?;
        let relayed = CallRequest::relayed(caller_context.caller.clone(), target, request);
        let hosted_for = caller_context.caller.client().and_then(|name| self.tasks.identity(name));
        let hosted_for = hosted_for.filter(|_| task == TaskHandling::Hosted);
        let mut relay = self.host.open(CallRequest { session, visible, task, idempotency_key, hosted_for, ..relayed });
        let task_written = relay.task_written();
        let uris = (self.scope == Scope::All).then(|| PublicUris { host: self.host.clone(), caller_context });
        let id = relay.id();
        Ok(OpenedCall { id, exchange: Exchange::through(RelayedCall::new(relay, kind, uris)), task_written })
    }

    /// The idempotency key of a request, in its header or its `_meta`. It belongs to the key of the client.
    fn idempotency_key(
        &self,
        request: &Request,
        caller: &HostCaller,
    ) -> Result<Option<Result<IdempotencyKey, InvalidKey>>, RpcError> {
        let meta = request.meta().and_then(|meta| meta.get(KEY_META));
        let header = request.idempotency_key.as_deref();
        // What is not a text is as invalid as an empty one.
        let meta = meta.as_ref().map(|meta| meta.as_str().unwrap_or_default());
        let Some(key) = meta.as_deref().or(header) else { return Ok(None) };
        if header.is_some_and(|header| header != key) {
            return Ok(Some(Err(InvalidKey::Different)));
        }
        let client = caller.client().and_then(|name| self.access.client(name)).ok_or_else(key_revoked)?;
        Ok(Some(IdempotencyKey::new(Arc::clone(&client.identity), key)))
    }

    /// Replaces the public name by the name of the server, and relays the completion request.
    fn complete(&self, request: Request, who: Requester<'_>) -> Result<Exchange, RpcError> {
        let about = request.param("ref").ok_or_else(|| invalid("`ref` is missing"))?;
        let about = CompletionRef::parse(&about).map_err(|problem| invalid(&problem))?;
        let caller_context = tasks::caller_context(who);
        let view = self.host.catalog_of(&caller_context);
        let Origin { server, raw_name } = self.scope.completion_origin(&view, who.0, &about)?;
        let about = about.renamed(&raw_name);
        let target = Target::Method { server, method: request.method().to_owned() };
        Ok(self.relay(target, request.with_param("ref", about), caller_context))
    }

    /// The client of a caller; fails if its key was revoked meanwhile.
    fn client(&self, caller: &Caller) -> Result<Arc<Client>, RpcError> {
        self.access.client(&caller.principal).ok_or_else(key_revoked)
    }
}

impl Service for HostService {
    fn profile(&self, caller: &Caller) -> Profile {
        profile::of(&self.host, &self.scope, self.client(caller).ok().as_deref())
    }

    fn info(&self, _caller: &Caller) -> Raw {
        profile::info(&self.host, &self.scope)
    }

    fn open(&self, request: Request, caller: &Caller) -> Exchange {
        self.answer(request, caller).unwrap_or_else(|error| Exchange::ended(Outcome::Refused(error)))
    }

    fn prepared_page(&self, request: &Request, caller: &Caller) -> Option<ListPage> {
        self.page_of(lists::kind_of(request.method())?, request, caller)
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        let client = self.client(caller);
        Box::pin(async move {
            match client {
                Ok(client) => subscriptions::listen(&self.host, &self.scope, client, caller, wanted).await,
                Err(_) => subscriptions::none(),
            }
        })
    }

    fn on_session_ready(&self, caller: &Caller, client: Arc<dyn ServerRequestHandler>) {
        if let Some(session) = &caller.session {
            self.host.begin_session(&HostCaller::Client(Arc::clone(&caller.principal)), session, client);
        }
    }

    fn on_roots_changed(&self, caller: &Caller) {
        let client = HostCaller::Client(Arc::clone(&caller.principal));
        self.host.announce_roots_changed(&client, caller.session.as_deref());
    }

    fn on_session_end(&self, caller: &Caller) {
        if let Some(session) = &caller.session {
            self.host.end_session(&HostCaller::Client(Arc::clone(&caller.principal)), session);
        }
    }

    fn on_principal_expelled(&self, principal: &str) {
        self.tasks.hosted.cancel_all_of(principal);
    }

    fn tasks(&self, _caller: &Caller) -> Option<&dyn Tasks> {
        self.tasks.are_offered().then_some(&*self.tasks)
    }

    fn param_headers(&self, tool: &str, caller: &Caller) -> Vec<ParamHeader> {
        // With all servers the annotations are removed, so that callers send no such headers.
        let Scope::One(server) = &self.scope else { return Vec::new() };
        let Ok(client) = self.client(caller) else { return Vec::new() };
        let schema = match self.host.caller_listing(&tasks::caller_context((&client, caller)), server) {
            Some(own) => own.tools.iter().find(|listed| listed.item.name == tool).map(|listed| listed.item.raw.clone()),
            None => self.host.catalog().tool_at(server, tool).map(|tool| tool.item.raw.clone()),
        };
        let schema = schema.and_then(|tool| tool.get("inputSchema"));
        schema.and_then(|schema| header::param_headers(&schema).ok()).unwrap_or_default()
    }
}

impl fmt::Debug for HostService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostService").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// The server that the public URI of a resource names.
fn owner_in_uri(target: &Target) -> Option<ServerName> {
    match target {
        Target::Resource(uri) => split_owned(uri).map(|(server, _)| server),
        _ => None,
    }
}

fn invalid(message: &str) -> RpcError {
    RpcError::new(RpcError::INVALID_PARAMS, message)
}

fn key_revoked() -> RpcError {
    RpcError::new(RpcError::INVALID_REQUEST, "the key of this client was revoked or has expired")
}

fn unknown_method(method: &str) -> RpcError {
    RpcError::new(RpcError::METHOD_NOT_FOUND, &format!("unknown method `{method}`"))
}
