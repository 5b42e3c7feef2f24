//! The upstream side: connections to servers, of any era and over any transport.
//!
//! [`Peer::connect`] opens a [`Transport`], detects the server's era and performs the handshake. From then on
//! [`Peer::open`] turns a request into an [`Exchange`]. Callers do not see the era: the accent (`legacy` or `modern`) is
//! chosen once, at connect time.

mod accent;
mod call;
pub mod client;
pub mod connector;
pub mod credential;
pub mod fetch;
mod first_roots;
mod handshake;
pub mod http;
pub mod in_process;
mod kept_session;
mod legacy;
pub(crate) mod listen;
mod methods;
mod modern;
mod probe;
mod redirect;
mod remembered;
mod router;
pub mod stdio;
mod task_hints;
mod task_progress;
mod tasks;
pub mod transport;

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::sync::broadcast;

pub use accent::CapabilityScope;
pub use handshake::ServerProfile;
pub use kept_session::{KeptSession, SessionObserver};
pub use listen::UpstreamSubscription;
pub use methods::{CompletionTarget, Listing};
pub use probe::{BothEras, DetectedProtocol, EraChoice, EraMemory, HttpTransportChoice, SessionSupport};
pub use task_hints::{HINT_PAUSE, TaskHint, TaskHints};
pub use tasks::PeerTasks;

use self::{
    handshake::ClientProfile,
    probe::Probe,
    router::Router,
    transport::{Link, LinkKind, Transport},
};
use crate::{
    budget::{Charge, Kept},
    error::WireError,
    exchange::{Exchange, ExchangeTimeouts, LogLevel, Request, RequiredUrl, ServerRequestHandler},
    json::Raw,
    limit::Limits,
    message::{ClientCapabilities, RpcError},
    notice::{Notice, SubscriptionFilter},
    revision::{Era, Revision},
};

/// A connected server. Cloning is cheap; the connection ends with the last clone.
#[derive(Clone, Debug)]
pub struct Peer {
    inner: Arc<Inner>,
}

/// A weak reference to a connected server; does not keep the connection open.
#[derive(Clone, Debug)]
pub struct WeakPeer {
    inner: Weak<Inner>,
}

struct Inner {
    guard: RouterGuard,
    transport: Arc<dyn Transport>,
    profile: ServerProfile,
    protocol: DetectedProtocol,
    timeouts: Timeouts,
    followed: Arc<tasks::FollowedTasks>,
    /// What is known of a server that speaks both eras, and where that is stored. Nothing awaits under this lock.
    sessions: parking_lot::Mutex<remembered::Sessions>,
    memory: Option<(Arc<dyn EraMemory>, String)>,
    _charge: Charge,
}

/// About what a connection costs: its queues, tables and session.
const CONNECTION_COST: usize = 32 * 1024;

/// Options of [`Peer::connect`].
pub struct ConnectOptions {
    /// `clientInfo` sent to the server: `{name, version, …}`.
    pub info: Raw,
    /// Handler of server requests; without one, no capability is declared.
    pub request_handler: Option<Arc<dyn ServerRequestHandler>>,
    /// Era to use.
    pub era: EraChoice,
    /// How a server of both eras is reached, if the era is detected.
    pub both_eras: BothEras,
    /// HTTP transports to try.
    pub http: HttpTransportChoice,
    /// The newest stateful revision to offer.
    pub legacy: Revision,
    /// Store of detected eras, and the key of this server.
    pub memory: Option<(Arc<dyn EraMemory>, String)>,
    /// Session of an earlier connection, resumed if the server still knows it.
    pub resume: Option<KeptSession>,
    /// Is told of the sessions of the connection.
    pub session_observer: Option<Arc<dyn SessionObserver>>,
    /// Bounds on the server's messages.
    pub limits: Limits,
    /// Timeouts of the connection.
    pub timeouts: Timeouts,
}

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Timeout of the era probe (`server/discover`).
    pub probe: Duration,
    /// Timeout of each handshake step.
    pub handshake: Duration,
    /// Timeouts of list requests.
    pub list: ExchangeTimeouts,
    /// Timeouts of calls, reads and prompts.
    pub call: ExchangeTimeouts,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            info: Raw::of(&serde_json::json!({ "name": "toolway", "version": env!("CARGO_PKG_VERSION") })),
            request_handler: None,
            era: EraChoice::Auto,
            both_eras: BothEras::Stateless,
            http: HttpTransportChoice::Any,
            legacy: Revision::NEWEST_LEGACY,
            memory: None,
            resume: None,
            session_observer: None,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            probe: Duration::from_secs(10),
            handshake: Duration::from_secs(60),
            list: ExchangeTimeouts::list(),
            call: ExchangeTimeouts::call(),
        }
    }
}

// === impl Peer ===

impl Peer {
    /// Connects to a server: opens the transport, detects the era and performs the handshake.
    pub async fn connect(transport: Arc<dyn Transport>, options: ConnectOptions) -> Result<Self, WireError> {
        if let Some(resumed) = Self::resume(&transport, &options).await? {
            return Ok(resumed);
        }
        let mut known = options.with_memory(|memory, key| memory.recall(key)).await.flatten();
        let mut sessions = options.recall_sessions().await;
        let (server, guard) = match attempt(&*transport, &options, known, sessions.support).await {
            // The remembered era is wrong, because the server was replaced: detect it again. (A server remembered as
            // stateless is probed in any case.)
            Err(error)
                if known.is_some_and(|known| known.era == Era::Legacy)
                    && options.era == EraChoice::Auto
                    && disproves(&error, transport.link_kind()) =>
            {
                options.with_memory(|memory, key| memory.forget(key)).await;
                known = None;
                attempt(&*transport, &options, None, SessionSupport::Unknown).await?
            }
            other => other?,
        };
        options.store_protocol(known, &server).await;
        sessions.update(&server);
        guard.router.set_accent(server.profile.revision, transport.link_kind());
        if server.profile.revision.era() == Era::Legacy {
            handshake::confirm(&*server.link, server.profile.revision, options.timeouts.handshake).await?;
        } else {
            server.link.set_revision(server.profile.revision);
        }
        let peer = Self::new(transport, server, guard, &options)?;
        *peer.inner.sessions.lock() = sessions;
        if let (Some(observer), Some(session)) = (&options.session_observer, peer.kept_session()) {
            observer.issued(session).await;
        }
        Ok(peer)
    }

    /// Resumes the session of an earlier connection, if there is one.
    async fn resume(transport: &Arc<dyn Transport>, options: &ConnectOptions) -> Result<Option<Self>, WireError> {
        let Some(kept) = options.resume.as_ref().filter(|_| options.era != EraChoice::Modern) else { return Ok(None) };
        let guard = RouterGuard::new(options);
        let server = kept_session::resume(&**transport, &guard, kept).await?;
        server.map(|server| Self::new(Arc::clone(transport), server, guard, options)).transpose()
    }

    fn new(
        transport: Arc<dyn Transport>,
        server: probe::ConnectedServer,
        guard: RouterGuard,
        options: &ConnectOptions,
    ) -> Result<Self, WireError> {
        let followed = Arc::default();
        // The result of the handshake, and what was read from it.
        let declared = 2 * server.profile.raw.as_bytes().len();
        let charge = options.limits.memory.keeping(Kept::Connection).charge(CONNECTION_COST + declared)?;
        Ok(Self {
            inner: Arc::new(Inner {
                _charge: charge,
                guard,
                transport,
                profile: server.profile,
                protocol: server.protocol,
                timeouts: options.timeouts,
                followed,
                sessions: parking_lot::Mutex::default(),
                memory: options.memory.clone(),
            }),
        })
    }

    /// Starts a request; failures are reported as the outcome of the exchange.
    pub fn open(&self, request: Request, timeouts: ExchangeTimeouts) -> Exchange {
        call::start(&self.inner.guard.router, request, timeouts)
    }

    /// Name, capabilities and instructions of the server.
    pub fn profile(&self) -> &ServerProfile {
        &self.inner.profile
    }

    /// Detected era and HTTP mode.
    pub fn protocol(&self) -> DetectedProtocol {
        self.inner.protocol
    }

    /// How long a result of the server stays valid; `None` if it does not say that.
    pub fn result_lifetime(&self, result: &Raw) -> Option<Duration> {
        self.router().accent().ok()?.result_lifetime(result)
    }

    /// Whether client capabilities are declared per request or per connection.
    pub fn capability_scope(&self) -> Result<CapabilityScope, WireError> {
        Ok(self.inner.guard.router.accent()?.capability_scope())
    }

    /// URL or command of the server.
    pub fn target(&self) -> String {
        self.inner.transport.target()
    }

    /// Session id assigned by the server, if any.
    pub fn session(&self) -> Option<String> {
        self.inner.guard.router.link().ok().and_then(|link| link.session())
    }

    /// Returns what a later connection needs to resume this session; `None` without a session.
    pub fn kept_session(&self) -> Option<KeptSession> {
        let (id, profile) = (self.session()?, self.profile());
        Some(KeptSession { id, revision: profile.revision, hello: profile.raw.clone() })
    }

    /// Returns a receiver of all notices outside requests, from now on.
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.inner.guard.router.notices.subscribe()
    }

    /// The URLs that a user must open before the server carries out a request that it refused with this error.
    pub fn required_urls(&self, error: &RpcError) -> Option<Vec<RequiredUrl>> {
        self.router().accent().ok()?.required_urls(error)
    }

    /// Subscribes to list and resource changes.
    pub async fn listen(&self, wanted: SubscriptionFilter) -> Result<UpstreamSubscription, WireError> {
        listen::listen(&self.inner.guard.router, wanted).await
    }

    /// Sets the lowest level of log messages.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), WireError> {
        let router = &self.inner.guard.router;
        if let Some(request) = router.accent()?.log_level_request(level) {
            self.answer(request, self.inner.timeouts.list).await?;
            router.session_settings.lock().log_level = Some(level);
        }
        Ok(())
    }

    /// Resolves with the reason when the connection has ended.
    pub fn closed(&self) -> BoxFuture<'static, WireError> {
        let router = Arc::clone(&self.inner.guard.router);
        let closed = router.closed.clone();
        Box::pin(async move {
            closed.cancelled().await;
            router.why_closed()
        })
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.inner.guard.router.closed.is_cancelled()
    }

    /// Closes the connection without ending its session, so that a later connection can resume it.
    pub async fn leave(&self) {
        let has_session = self.session().is_some();
        if let Ok(link) = self.router().link() {
            link.leave();
        }
        self.close().await;
        if let Some(observer) = self.router().session_observer.as_ref().filter(|_| has_session) {
            observer.left().await;
        }
    }

    /// Closes the connection: sends queued messages and deletes the session.
    pub async fn close(&self) {
        let router = &self.inner.guard.router;
        let link = router.take_link();
        router.shut_down(WireError::Ended("closed locally".to_owned()));
        if let Some(link) = link {
            close_link(&*link, router.session_observer.as_deref()).await;
        }
    }

    /// Returns a weak reference, which does not keep the connection open.
    pub fn downgrade(&self) -> WeakPeer {
        WeakPeer { inner: Arc::downgrade(&self.inner) }
    }

    pub(crate) fn router(&self) -> &Arc<Router> {
        &self.inner.guard.router
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        self.inner.timeouts
    }
}

impl WeakPeer {
    /// Returns the server if it is still connected.
    pub fn upgrade(&self) -> Option<Peer> {
        self.inner.upgrade().map(|inner| Peer { inner })
    }
}

/// Owns the router of a connection. Dropping it closes the link and fails pending requests; without it, the link and its
/// router would keep each other alive.
struct RouterGuard {
    router: Arc<Router>,
}

impl RouterGuard {
    fn new(options: &ConnectOptions) -> Self {
        let handler = options.request_handler.clone();
        let capabilities = handler.as_ref().map_or_else(ClientCapabilities::none, |handler| handler.capabilities());
        let client = ClientProfile {
            info: options.info.clone(),
            capabilities,
            legacy: options.legacy,
            handshake_timeout: options.timeouts.handshake,
        };
        Self { router: Router::new(options.limits.clone(), client, handler, options.session_observer.clone()) }
    }
}

impl Drop for RouterGuard {
    fn drop(&mut self) {
        let link = self.router.take_link();
        self.router.shut_down(WireError::Ended("closed locally".to_owned()));
        if let Some(link) = link {
            let observer = self.router.session_observer.clone();
            self.router.spawn_last(async move { close_link(&*link, observer.as_deref()).await });
        }
    }
}

/// Closes a link and deletes its session, unless it was left.
async fn close_link(link: &dyn Link, observer: Option<&dyn SessionObserver>) {
    let has_session = link.session().is_some();
    link.close().await;
    if let Some(observer) = observer.filter(|_| has_session) {
        observer.ended().await;
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("target", &self.transport.target())
            .field("revision", &self.profile.revision)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions").field("era", &self.era).finish_non_exhaustive()
    }
}

async fn attempt(
    transport: &dyn Transport,
    options: &ConnectOptions,
    known: Option<DetectedProtocol>,
    sessions: SessionSupport,
) -> Result<(probe::ConnectedServer, RouterGuard), WireError> {
    let guard = RouterGuard::new(options);
    let probe = Probe {
        router: &guard.router,
        transport,
        way: options.http,
        timeout: options.timeouts.probe,
        both_eras: options.both_eras,
        sessions,
    };
    match probe.run(options.era, known).await {
        Ok(server) => Ok((server, guard)),
        Err(error) => {
            if let Some(link) = guard.router.take_link() {
                link.close().await;
            }
            Err(error)
        }
    }
}

/// Whether an error shows that a remembered era is wrong: the server answered, but not in that era. A process may end or
/// stay silent because of a message of the wrong era; a network failure proves nothing.
fn disproves(error: &WireError, kind: LinkKind) -> bool {
    match error {
        WireError::TimedOut { .. } | WireError::Ended(_) => kind == LinkKind::Stream,
        other => probe::error_indicates_era(other),
    }
}
