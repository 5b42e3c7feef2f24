//! A server as we reach it, whatever its era and however it is reached.
//!
//! [`Peer::connect`] opens a [`Transport`], finds out which era the server speaks and shakes hands. From then on
//! [`Peer::open`] turns a request into an [`Exchange`], and nothing above this downstream knows a year: the accents
//! (`legacy`, `modern`) are chosen once and speak for themselves.

mod accent;
mod call;
pub mod client;
pub mod connector;
pub mod credential;
pub mod fetch;
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
mod router;
pub mod stdio;
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
pub use kept_session::KeptSession;
pub use listen::UpstreamSubscription;
pub use methods::{Listing, CompletionTarget};
pub use probe::{EraChoice, EraMemory, DetectedProtocol, HttpTransportChoice};
pub use tasks::PeerTasks;

use self::{
    handshake::ClientProfile,
    probe::Probe,
    router::Router,
    transport::{LinkKind, Transport},
};
use crate::{
    error::WireError,
    exchange::{ServerRequestHandler, Exchange, LogLevel, Request, ExchangeTimeouts},
    json::Raw,
    limit::Limits,
    message::ClientCapabilities,
    notice::{Notice, Wanted},
    revision::{Era, Revision},
};

/// A server, connected. Cloning is cheap; the connection ends with the last clone.
#[derive(Clone, Debug)]
pub struct Peer {
    inner: Arc<Inner>,
}

/// A server that is connected only as long as somebody else holds it.
#[derive(Clone, Debug)]
pub struct WeakPeer {
    inner: Weak<Inner>,
}

struct Inner {
    opening: RouterGuard,
    transport: Arc<dyn Transport>,
    profile: ServerProfile,
    found: DetectedProtocol,
    terms: Timeouts,
    followed: Arc<tasks::FollowedTasks>,
}

/// How to connect.
pub struct ConnectOptions {
    /// What we say of ourselves: `{name, version, …}`.
    pub info: Raw,
    /// Who answers questions; without one nothing is declared and nothing can be asked.
    pub asks: Option<Arc<dyn ServerRequestHandler>>,
    /// Which era to speak.
    pub era: EraChoice,
    /// Which of the transports over HTTP may be tried.
    pub http: HttpTransportChoice,
    /// The newest stateful revision to offer.
    pub legacy: Revision,
    /// Where the era of servers is kept, and under which key this one's.
    pub memory: Option<(Arc<dyn EraMemory>, String)>,
    /// The session of an earlier connection, to go on in where the server still knows it.
    pub resume: Option<KeptSession>,
    /// The bounds.
    pub limits: Limits,
    /// The clocks.
    pub timeouts: Timeouts,
}

/// The clocks of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For an answer to the question about the era.
    pub probe: Duration,
    /// For the handshake.
    pub handshake: Duration,
    /// For listings.
    pub list: ExchangeTimeouts,
    /// For calls, reads and prompts.
    pub call: ExchangeTimeouts,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            info: Raw::of(&serde_json::json!({ "name": "toolway", "version": env!("CARGO_PKG_VERSION") })),
            asks: None,
            era: EraChoice::Auto,
            http: HttpTransportChoice::Any,
            legacy: Revision::NEWEST_LEGACY,
            memory: None,
            resume: None,
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

impl ConnectOptions {
    /// Does something with the memory, where there is one; it may take its time, and no other task waits for it.
    async fn remembered<T: Send + 'static>(
        &self,
        act: impl FnOnce(&dyn EraMemory, &str) -> T + Send + 'static,
    ) -> Option<T> {
        let (memory, key) = self.memory.clone()?;
        tokio::task::spawn_blocking(move || act(&*memory, &key)).await.ok()
    }
}

// === impl Peer ===

impl Peer {
    /// Opens the way to a server and shakes hands with it.
    pub async fn connect(transport: Arc<dyn Transport>, options: ConnectOptions) -> Result<Self, WireError> {
        if let Some(resumed) = Self::resume(&transport, &options).await? {
            return Ok(resumed);
        }
        let known = options.remembered(|memory, key| memory.recall(key)).await.flatten();
        let (met, opening) = match attempt(&*transport, &options, known).await {
            // What was remembered is wrong: the server was replaced. Find out again. (One that was said to be stateless
            // was asked anyway.)
            Err(error)
                if known.is_some_and(|known| known.era == Era::Legacy)
                    && options.era == EraChoice::Auto
                    && disproves(&error, transport.link_kind()) =>
            {
                options.remembered(|memory, key| memory.forget(key)).await;
                attempt(&*transport, &options, None).await?
            }
            other => other?,
        };
        let found = met.found;
        options.remembered(move |memory, key| memory.remember(key, found)).await;
        opening.router.set_accent(met.profile.revision, transport.link_kind());
        if met.profile.revision.era() == Era::Legacy {
            handshake::confirm(&*met.link, met.profile.revision, options.timeouts.handshake).await?;
        } else {
            met.link.set_revision(met.profile.revision);
        }
        Ok(Self::of(transport, met, opening, options.timeouts))
    }

    /// Goes on in the session of an earlier connection, where there is one.
    async fn resume(transport: &Arc<dyn Transport>, options: &ConnectOptions) -> Result<Option<Self>, WireError> {
        let Some(kept) = options.resume.as_ref().filter(|_| options.era != EraChoice::Modern) else { return Ok(None) };
        let opening = RouterGuard::new(options);
        let met = kept_session::resume(&**transport, &opening, kept).await?;
        Ok(met.map(|met| Self::of(Arc::clone(transport), met, opening, options.timeouts)))
    }

    fn of(transport: Arc<dyn Transport>, met: probe::ConnectedServer, opening: RouterGuard, terms: Timeouts) -> Self {
        let followed = Arc::default();
        Self { inner: Arc::new(Inner { opening, transport, profile: met.profile, found: met.found, terms, followed }) }
    }

    /// Begins a request; whatever happens, happens in the exchange.
    pub fn open(&self, request: Request, terms: ExchangeTimeouts) -> Exchange {
        call::start(&self.inner.opening.router, request, terms)
    }

    /// What the server says of itself.
    pub fn profile(&self) -> &ServerProfile {
        &self.inner.profile
    }

    /// What was found out about it.
    pub fn protocol(&self) -> DetectedProtocol {
        self.inner.found
    }

    /// When it is told what a caller's side can be asked.
    pub fn capability_scope(&self) -> Result<CapabilityScope, WireError> {
        Ok(self.inner.opening.router.accent()?.capability_scope())
    }

    /// The address or command.
    pub fn target(&self) -> String {
        self.inner.transport.target()
    }

    /// The session it opened for us, if any.
    pub fn session(&self) -> Option<String> {
        self.inner.opening.router.link().ok().and_then(|link| link.session())
    }

    /// What a later connection needs to go on in this session; nothing where there is none.
    pub fn kept_session(&self) -> Option<KeptSession> {
        let (id, profile) = (self.session()?, self.profile());
        Some(KeptSession { id, revision: profile.revision, hello: profile.raw.clone() })
    }

    /// Everything that concerns no request, from now on.
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.inner.opening.router.notices.subscribe()
    }

    /// Subscribes to changes.
    pub async fn listen(&self, wanted: Wanted) -> Result<UpstreamSubscription, WireError> {
        listen::listen(&self.inner.opening.router, wanted).await
    }

    /// From now on, logs from this level up are wanted.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), WireError> {
        let router = &self.inner.opening.router;
        if let Some(request) = router.accent()?.log_level_request(level) {
            self.answer(request, self.inner.terms.list).await?;
            router.session_settings.lock().log_level = Some(level);
        }
        Ok(())
    }

    /// Resolves when the connection is gone; says why.
    pub fn closed(&self) -> BoxFuture<'static, WireError> {
        let router = Arc::clone(&self.inner.opening.router);
        let closed = router.closed.clone();
        Box::pin(async move {
            closed.cancelled().await;
            router.why_closed()
        })
    }

    /// Whether the connection is gone.
    pub fn is_closed(&self) -> bool {
        self.inner.opening.router.closed.is_cancelled()
    }

    /// Ends the connection and leaves its session to a later one.
    pub async fn leave(&self) {
        if let Ok(link) = self.router().link() {
            link.leave();
        }
        self.close().await;
    }

    /// Ends the connection in good order: what is in line is sent, the session is given back.
    pub async fn close(&self) {
        let link = self.inner.opening.router.take_link();
        self.inner.opening.router.shut_down(WireError::Ended("closed by us".to_owned()));
        if let Some(link) = link {
            link.close().await;
        }
    }

    /// The same, without keeping it connected.
    pub fn downgrade(&self) -> WeakPeer {
        WeakPeer { inner: Arc::downgrade(&self.inner) }
    }

    pub(crate) fn router(&self) -> &Arc<Router> {
        &self.inner.opening.router
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        self.inner.terms
    }
}

impl WeakPeer {
    /// The server, where somebody still holds it.
    pub fn upgrade(&self) -> Option<Peer> {
        self.inner.upgrade().map(|inner| Peer { inner })
    }
}

/// A server's traffic, from the first word on. Let go of at any point, it closes the link and ends what waits: the link
/// and its router hold each other.
struct RouterGuard {
    router: Arc<Router>,
}

impl RouterGuard {
    fn new(options: &ConnectOptions) -> Self {
        let capabilities = options.asks.as_ref().map_or_else(ClientCapabilities::none, |asks| asks.capabilities());
        let client = ClientProfile {
            info: options.info.clone(),
            capabilities,
            legacy: options.legacy,
            patience: options.timeouts.handshake,
        };
        Self { router: Router::new(options.limits.clone(), client, options.asks.clone()) }
    }
}

impl Drop for RouterGuard {
    fn drop(&mut self) {
        let link = self.router.take_link();
        self.router.shut_down(WireError::Ended("closed by us".to_owned()));
        if let Some(link) = link {
            self.router.spawn_last(async move { link.close().await });
        }
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
) -> Result<(probe::ConnectedServer, RouterGuard), WireError> {
    let opening = RouterGuard::new(options);
    let probe = Probe { router: &opening.router, transport, way: options.http, patience: options.timeouts.probe };
    match probe.run(options.era, known).await {
        Ok(met) => Ok((met, opening)),
        Err(error) => {
            if let Some(link) = opening.router.take_link() {
                link.close().await;
            }
            Err(error)
        }
    }
}

/// Errors that show that a remembered era is not the server's: it answered, but not in that era. A process that ends
/// or is silent may do so because of what it was told; a broken network says nothing.
fn disproves(error: &WireError, kind: LinkKind) -> bool {
    match error {
        WireError::TimedOut { .. } | WireError::Ended(_) => kind == LinkKind::Stream,
        other => probe::error_indicates_era(other),
    }
}
