//! What a host offers, as a service: everything under public names, or one server under its own.
//!
//! Listings are answered from the catalog ([`lists`], [`pages`]); whatever concerns one server goes the way of a call and comes
//! back through [`relaying`]. Nothing here knows in which era either side speaks.

mod annotation;
mod driven;
mod icons;
mod listening;
mod lists;
mod pages;
mod profile;
mod relaying;
mod scope;
mod task_list;
mod tasks;
mod uris;

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use toolway_host::{
    Host,
    call::{CallRequest, Caller as HostCaller, OnBehalf, Target},
    catalog::{ItemKind, Origin},
};
use toolway_wire::{
    down::{self, Caller, Heard, HostedTasks, Keeping, Profile, Service, Tasks},
    exchange::{Exchange, Outcome, Request},
    header::{self, ParamHeader},
    json::Raw,
    message::{
        RpcError,
        splice::{self, Edit},
    },
    notice::Wanted,
    seal::Sealer,
};

pub use scope::Scope;

use self::{
    pages::Pages,
    relaying::{Relaying, Renamed},
    tasks::{Course, GatewayTasks, Keeps},
    uris::Here,
};
use crate::access::{Access, Client};

/// A host as a service for callers of a gateway.
pub struct HostService {
    host: Host,
    access: Arc<Access>,
    scope: Scope,
    pages: Arc<Pages>,
    tasks: Arc<GatewayTasks>,
}

/// Somebody who was let in, and how they speak.
type Who<'a> = (&'a Client, &'a Caller);

// === impl HostService ===

impl HostService {
    /// What `host` offers within `scope` to whoever is let in; names of tasks and places in lists are sealed.
    pub fn new(host: Host, access: Arc<Access>, scope: Scope, sealer: Arc<Sealer>) -> Self {
        Self::keeping(host, access, scope, sealer, HostedTasks::new(Keeping::default()))
    }

    /// The same, where tasks of ours are kept here.
    pub fn keeping(host: Host, access: Arc<Access>, scope: Scope, sealer: Arc<Sealer>, hosted: HostedTasks) -> Self {
        let tasks =
            Arc::new(GatewayTasks::new(host.clone(), Arc::clone(&access), scope.clone(), Arc::clone(&sealer), hosted));
        Self { host, access, scope, pages: Arc::new(Pages::new(sealer)), tasks }
    }

    fn answer(&self, request: Request, caller: &Caller) -> Result<Exchange, RpcError> {
        let client = self.client(caller)?;
        let text = |key| request.param(key).as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
        let missing = |key: &str| invalid(&format!("`{key}` is missing or no text"));
        let target = match request.method() {
            "tools/list" => return self.listed(ItemKind::Tool, &request, client, caller),
            "prompts/list" => return self.listed(ItemKind::Prompt, &request, client, caller),
            "resources/list" => return self.listed(ItemKind::Resource, &request, client, caller),
            "resources/templates/list" => return self.listed(ItemKind::Template, &request, client, caller),
            "completion/complete" => return self.complete(request, (&client, caller)),
            "tools/call" => self.scope.tool(&text("name").ok_or_else(|| missing("name"))?)?,
            "prompts/get" => self.scope.prompt(&text("name").ok_or_else(|| missing("name"))?)?,
            "resources/read" => self.scope.resource(text("uri").ok_or_else(|| missing("uri"))?),
            method => self.scope.method(method)?,
        };
        let on_behalf = tasks::on_behalf((&client, caller));
        match self.host.located(&on_behalf, target) {
            target @ (Target::Tool(_) | Target::ToolOf(_)) => self.call(target, request, on_behalf, caller),
            target => Ok(self.relay(target, request, on_behalf)),
        }
    }

    /// Calls a tool: the one request that a task may stand for.
    fn call(
        &self,
        target: Target,
        mut request: Request,
        on_behalf: OnBehalf,
        caller: &Caller,
    ) -> Result<Exchange, RpcError> {
        let Some(Origin { server, raw_name }) = self.host.origin_of(&on_behalf, &target) else {
            return Ok(self.relay(target, request, on_behalf));
        };
        let catalog = self.host.catalog();
        // Whether a tool can be a task is said where it is listed, which may be to this caller alone.
        let catalog = match tasks::keeps(&catalog, &server) {
            Keeps::InASession => self.host.catalog_of(&on_behalf),
            Keeps::Nothing | Keeps::OnTheirOwn => catalog,
        };
        if self.scope != Scope::All && self.tasks.lacks(&catalog, &server, &raw_name, caller) {
            return Err(down::tasks_undeclared());
        }
        let wished = request.clone();
        let course = self.tasks.course(&catalog, &server, &raw_name, &mut request);
        let exchange = self.relay(target, request, on_behalf.clone());
        let driven = |exchange| driven::driven(&self.host, on_behalf, server.clone(), exchange);
        match course {
            Course::Handed => Ok(Exchange::through(Renamed::new(exchange, &self.tasks, server, caller))),
            Course::Driven => Ok(driven(exchange)),
            Course::Hosted => {
                let task = self.tasks.keep(driven(exchange), &wished, caller)?;
                Ok(Exchange::ended(Outcome::HandedOff(Box::new(task))))
            }
        }
    }

    /// Hands it on; whether the caller sees what it asks for, the host says.
    fn relay(&self, target: Target, request: Request, on_behalf: OnBehalf) -> Exchange {
        let (kind, session, visible) = (target.kind(), on_behalf.session.clone(), on_behalf.visible.clone());
        let relayed = CallRequest::relayed(on_behalf.caller.clone(), target, request);
        let relay = self.host.open(CallRequest { session, visible, ..relayed });
        let here = (self.scope == Scope::All).then(|| Here { host: self.host.clone(), on_behalf });
        Exchange::through(Relaying::new(relay, kind, here))
    }

    /// Puts the server's own name in the place of ours, and lets that server complete it.
    fn complete(&self, request: Request, who: Who<'_>) -> Result<Exchange, RpcError> {
        let about = request.param("ref").ok_or_else(|| invalid("`ref` is missing"))?;
        let (key, named) = match about.fields(["name", "uri"]) {
            [_, Some(uri)] => ("uri", uri),
            [Some(name), None] => ("name", name),
            [None, None] => return Err(invalid("`ref` names neither a prompt nor a resource")),
        };
        let named = named.as_str().ok_or_else(|| invalid("`ref` names nothing"))?;
        let on_behalf = tasks::on_behalf(who);
        let view = self.host.catalog_of(&on_behalf);
        let Origin { server, raw_name } = self.scope.referred(&view, who.0, key, &named)?;
        let about = splice::edited(&about, &[Edit::Set(key, Raw::of(&raw_name))]);
        let target = Target::Method { server, method: request.method().to_owned() };
        Ok(self.relay(target, request.with_param("ref", about), on_behalf))
    }

    /// Whoever this is; refused where the key has been taken back since.
    fn client(&self, caller: &Caller) -> Result<Arc<Client>, RpcError> {
        self.access.client(&caller.principal).ok_or_else(no_longer_good)
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

    fn listen<'a>(&'a self, wanted: Wanted, caller: &'a Caller) -> BoxFuture<'a, Heard> {
        let client = self.client(caller);
        Box::pin(async move {
            match client {
                Ok(client) => listening::listen(&self.host, &self.scope, client, caller, wanted).await,
                Err(_) => listening::nothing(),
            }
        })
    }

    fn left(&self, caller: &Caller) {
        if let Some(session) = &caller.session {
            self.host.end_session(&HostCaller::Client(Arc::clone(&caller.principal)), session);
        }
    }

    fn expelled(&self, principal: &str) {
        self.tasks.hosted.let_go(principal);
    }

    fn tasks(&self, _caller: &Caller) -> Option<&dyn Tasks> {
        self.tasks.are_offered().then_some(&*self.tasks)
    }

    fn param_headers(&self, tool: &str, caller: &Caller) -> Vec<ParamHeader> {
        // Where everything is they are not shown, so nobody owes them.
        let Scope::One(server) = &self.scope else { return Vec::new() };
        let Ok(client) = self.client(caller) else { return Vec::new() };
        let schema = match self.host.own_listing(&tasks::on_behalf((&client, caller)), server) {
            Some(own) => own.tools.iter().find(|listed| listed.item.name == tool).map(|listed| listed.item.raw.clone()),
            None => self.host.catalog().tool_at(server, tool).map(|tool| tool.item.raw.clone()),
        };
        let schema = schema.and_then(|tool| tool.get("inputSchema"));
        schema.and_then(|schema| header::annotated(&schema).ok()).unwrap_or_default()
    }
}

impl fmt::Debug for HostService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostService").field("scope", &self.scope).finish_non_exhaustive()
    }
}

fn invalid(message: &str) -> RpcError {
    RpcError::new(RpcError::INVALID_PARAMS, message)
}

fn no_longer_good() -> RpcError {
    RpcError::new(RpcError::INVALID_REQUEST, "the key of this caller is no longer good")
}

fn unknown_method(method: &str) -> RpcError {
    RpcError::new(RpcError::METHOD_NOT_FOUND, &format!("unknown method `{method}`"))
}
