//! The downstream side: clients connect to us and use a [`Service`], in any protocol revision.
//!
//! A [`Service`] turns a request into an [`Exchange`]; a relay calls `Peer::open` there. The two downstream transports
//! ([`stdio`], [`http`]) decide the era of each request from its metadata and let that era's accent encode the
//! response. A service does not depend on the era.

mod accent;
mod dialect;
mod hosted_tasks;
pub mod http;

mod legacy;
mod list_page;
mod modern;
mod park;
mod progress;
mod refusal;
mod session;
mod shared_sessions;
pub mod stdio;
mod stream;
mod tasks;

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    exchange::{Exchange, LogLevel, Request, ServerRequestHandler},
    header::ParamHeader,
    json::Raw,
    limit::Limits,
    message::ClientCapabilities,
    notice::{Notice, SubscriptionFilter},
    revision::Revision,
    seal::{NoRandomness, Sealer},
};

pub use hosted_tasks::{HostedTaskOptions, HostedTasks, TASKS_PER_CALLER};
pub use list_page::{ListDialect, ListPage};
pub use park::ParkedCallHolder;
pub use shared_sessions::{
    MAX_CAPABILITIES, SessionChanges, SessionReply, SessionRow, SessionRows, SessionRowsUnavailable, SharedSessions,
    SubscriptionChange,
};
pub use tasks::{Tasks, not_declared as tasks_not_declared};

use self::park::ParkingLot;

/// Answers the requests of clients.
pub trait Service: Send + Sync + 'static {
    /// The server information, capabilities and instructions shown to this caller.
    fn profile(&self, caller: &Caller) -> Profile;

    /// The `info` of the profile, which every stateless result carries.
    fn info(&self, caller: &Caller) -> Raw {
        self.profile(caller).info
    }

    /// Answers one request. An unknown method ends in `METHOD_NOT_FOUND`.
    fn open(&self, request: Request, caller: &Caller) -> Exchange;

    /// The page of a list that is prepared for this caller; `None` if [`Service::open`] answers the request.
    fn prepared_page(&self, _request: &Request, _caller: &Caller) -> Option<ListPage> {
        None
    }

    /// Subscribes to changes from now on. The receiver ends when the subscription does. Asynchronous, because an upstream
    /// server may decide which part of `wanted` is accepted.
    fn listen<'a>(&'a self, wanted: SubscriptionFilter, caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription>;

    /// The tasks of this service; `None` if it never answers with a task. The advertised capabilities depend on it.
    fn tasks(&self, _caller: &Caller) -> Option<&dyn Tasks> {
        None
    }

    /// Called when a client with a session has completed the handshake. `client` sends it requests outside its own
    /// requests; it does not keep the session open.
    fn on_session_ready(&self, _caller: &Caller, _client: Arc<dyn ServerRequestHandler>) {}

    /// Called when a client with a session announces that its roots changed.
    fn on_roots_changed(&self, _caller: &Caller) {}

    /// Called when a caller's session has ended.
    fn on_session_end(&self, _caller: &Caller) {}

    /// Called when a principal has lost access: everything kept for it must end.
    fn on_principal_expelled(&self, _principal: &str) {}

    /// Arguments of a tool that clients repeat in HTTP headers (`x-mcp-header`).
    fn param_headers(&self, _tool: &str, _caller: &Caller) -> Vec<ParamHeader> {
        Vec::new()
    }
}

/// Server information, capabilities and instructions of a service.
#[derive(Clone, Debug)]
pub struct Profile {
    /// `{name, version, …}`
    pub info: Raw,
    /// Server capabilities, as on the wire.
    pub capabilities: Raw,
    /// Usage instructions for models.
    pub instructions: Option<String>,
}

/// A subscription granted by a [`Service`].
#[derive(Debug)]
pub struct ServiceSubscription {
    /// The accepted part of the requested filter.
    pub accepted: SubscriptionFilter,
    /// Notices that match `accepted`.
    pub notices: mpsc::Receiver<Notice>,
}

/// The client that makes a request, and the principal it authenticated as.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Protocol revision of the client.
    pub revision: Revision,
    /// Server requests the client can answer.
    pub capabilities: ClientCapabilities,
    /// `clientInfo`, for display only.
    pub info: Option<Raw>,
    /// Authenticated principal; empty if the client was not authenticated.
    pub principal: Arc<str>,
    /// Internal name of the session, not the session id on the wire; `None` for stateless requests.
    pub session: Option<Arc<str>>,
}

/// Options of a downstream.
#[derive(Clone, Debug)]
pub struct DownstreamOptions {
    /// Accepted protocol revisions.
    pub revisions: Vec<Revision>,
    /// Limits on messages, requests, sessions and streams.
    pub limits: Limits,
    /// How long a server request waits for the client's answer, in either era.
    pub answer_timeout: Duration,
    /// How long a session may be idle: no request in progress, no stream read, nothing received.
    pub session_idle: Duration,
    /// Interval of keep-alive comments on a silent stream.
    pub keep_alive: Duration,
    /// How long requests in progress may take to finish after the downstream was told to stop.
    pub drain: Duration,
    /// Server requests that a client with a session may receive.
    pub server_requests: AllowedServerRequests,
    /// Log level for a client with a session that has not set one, at servers that log only on request.
    pub default_log_level: Option<LogLevel>,
    /// Seals the handles that clients hold; `None`: a random key that lives as long as this downstream.
    pub sealer: Option<Arc<Sealer>>,
    /// Sessions that other gateways of a cluster share; `None`: they live here only.
    pub shared_sessions: Option<SharedSessions>,
    /// Which gateway of a cluster has the parked calls; `None`: it is alone.
    pub parked_call_holder: Option<ParkedCallHolder>,
    /// Capacity for sessions and parked calls; `None`: not shared with other downstreams.
    pub shared_capacity: Option<SharedCapacity>,
}

/// Capacity shared by several downstreams: their sessions and parked calls count against one limit. A session or call
/// is still visible only to its own downstream. Clones share the capacity.
#[derive(Clone, Debug, Default)]
pub struct SharedCapacity {
    pub(crate) sessions: Arc<http::SessionStore>,
    pub(crate) parked: park::SharedParkedCalls,
}

/// Server requests that a client with a session may receive. A stateless client receives only what it declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedServerRequests {
    /// Declared ones; others are refused on the client's behalf.
    Declared,
    /// All of them; the client itself refuses what it does not support.
    Anything,
}

/// Default interval of keep-alive comments on a silent stream.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// State shared by all connections of one downstream.
pub(crate) struct Downstream {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) options: DownstreamOptions,
    pub(crate) parked: ParkingLot,
    /// Cancelled at shutdown: subscriptions end.
    pub(crate) draining: CancellationToken,
}

impl Caller {
    /// Whether the client declares its capabilities with each request and so can be told which one is missing.
    pub fn declares_capabilities_per_request(&self) -> bool {
        self.revision.era() == crate::revision::Era::Modern
    }
}

impl Default for DownstreamOptions {
    fn default() -> Self {
        Self {
            revisions: Revision::ALL.to_vec(),
            limits: Limits::default(),
            answer_timeout: Duration::from_secs(600),
            session_idle: Duration::from_secs(1_800),
            keep_alive: KEEP_ALIVE,
            drain: http::DRAIN_TIMEOUT,
            server_requests: AllowedServerRequests::Declared,
            default_log_level: Some(LogLevel::Info),
            sealer: None,
            shared_sessions: None,
            parked_call_holder: None,
            shared_capacity: None,
        }
    }
}

impl Downstream {
    pub(crate) fn new(service: Arc<dyn Service>, mut options: DownstreamOptions) -> Result<Arc<Self>, NoRandomness> {
        let sealer = match &options.sealer {
            Some(sealer) => Arc::clone(sealer),
            None => Arc::new(Sealer::with_random_key()?),
        };
        // Taken out of the options: sessions hold their downstream and must not keep the shared store alive.
        let parked_calls = options.shared_capacity.take().map(|capacity| capacity.parked).unwrap_or_default();
        let parked = ParkingLot::new(
            sealer,
            &options.limits,
            options.answer_timeout,
            parked_calls,
            options.parked_call_holder.clone(),
        )?;
        Ok(Arc::new(Self { service, options, parked, draining: CancellationToken::new() }))
    }

    /// Whether any revision of this era is enabled.
    pub(crate) fn speaks(&self, era: crate::revision::Era) -> bool {
        self.options.revisions.iter().any(|revision| revision.era() == era)
    }

    /// The revisions of one era, newest first.
    pub(crate) fn revisions(&self, era: crate::revision::Era) -> Vec<Revision> {
        let mut revisions: Vec<_> =
            self.options.revisions.iter().copied().filter(|revision| revision.era() == era).collect();
        revisions.sort_unstable();
        revisions.reverse();
        revisions
    }
}

impl fmt::Debug for Downstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Downstream").field("options", &self.options).finish_non_exhaustive()
    }
}
