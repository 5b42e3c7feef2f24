//! The console on one address: checks of each request, pages, the API, live events, and shutdown.

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use tokio::net::TcpListener;
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};
use toolway_agent::ConversationModels;
use toolway_host::{
    Host,
    record::{RecordChanges, Records},
};
use toolway_wire::{
    budget::Kept,
    down::{
        self,
        http::{Incoming, PeerConnection, Responder, ResponseBody, ServerTls},
    },
    limit::Limits,
    seal::{self, NoRandomness},
};

pub use crate::access::Lifetimes;
use crate::{
    access::{Access, NewSession, Session},
    api,
    backend::ConsoleBackend,
    drafts::Drafts,
    error::ApiError,
    feed::{self, StreamCount},
    guard::{ExactGuard, OriginNeed},
    pages,
    records::ConsoleRecords,
    reply,
    ring::EventRing,
    runs::Runs,
    turns::Turns,
    watches::Watches,
};

/// Connections of signed-in browsers.
const MAX_CONNECTIONS: usize = 128;
/// Largest request body in bytes.
pub(crate) const MAX_BODY_BYTES: usize = 1024 * 1024;
/// Time for requests in progress to finish at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// The principal to which connections and bodies are charged.
const PRINCIPAL: &str = "console";

/// Options of a console.
#[derive(Clone, Debug, Default)]
pub struct ConsoleOptions {
    /// How long a sign-in lasts.
    pub lifetimes: Lifetimes,
    /// Limits on requests, with the byte budget that bodies are charged to.
    pub limits: Limits,
    /// Recorded calls and conversations; `None`: neither is shown, and there is no chat.
    pub records: Option<ConsoleRecords>,
    /// Models of its conversations, as the sampler of the host knows them.
    pub models: ConversationModels,
    /// Certificate, key and names; `None`: plain HTTP, for loopback addresses.
    pub tls: Option<ConsoleTls>,
}

/// How a console is served to other machines.
#[derive(Clone, Debug)]
pub struct ConsoleTls {
    /// Certificate and key.
    pub tls: Arc<ServerTls>,
    /// Host names under which browsers reach it; the first is that of links.
    pub hosts: Vec<String>,
}

/// The web console of a host.
pub struct Console {
    pub(crate) host: Host,
    pub(crate) backend: Arc<dyn ConsoleBackend>,
    pub(crate) records: Option<Arc<dyn Records>>,
    pub(crate) changes: Option<Arc<dyn RecordChanges>>,
    pub(crate) ring: EventRing,
    pub(crate) turns: Turns,
    pub(crate) drafts: Drafts,
    pub(crate) runs: Runs,
    pub(crate) watches: Watches,
    pub(crate) streams: StreamCount,
    /// Commands to servers that a page started and does not wait for.
    pub(crate) commands: TaskTracker,
    pub(crate) limits: Limits,
    /// Cancelled when shutdown begins; ends event streams.
    pub(crate) draining: CancellationToken,
    access: Access,
    guard: ExactGuard,
    address: SocketAddr,
    tls: Option<ConsoleTls>,
    principal: Arc<str>,
    /// Cookies do not distinguish ports, so the name does. Only the API needs it, so that pages of other ports do not get
    /// it.
    cookie: String,
}

/// A request after all checks.
pub(crate) struct SignedIn {
    pub(crate) session: Session,
    /// Whether the request has the CSRF token of the session.
    pub(crate) has_csrf: bool,
}

impl Console {
    /// A console for a listener at this address. Needs a runtime.
    pub fn new(
        host: Host,
        backend: Arc<dyn ConsoleBackend>,
        options: ConsoleOptions,
        address: SocketAddr,
    ) -> Result<Arc<Self>, NoRandomness> {
        let limits = Limits {
            connections: MAX_CONNECTIONS,
            request_body_bytes: MAX_BODY_BYTES,
            memory: options.limits.memory.of_principal(PRINCIPAL),
            ..options.limits
        };
        let ring = EventRing::new(seal::random_token()?, limits.memory.clone());
        let streams = StreamCount::default();
        Ok(Arc::new(Self {
            turns: Turns::new(
                host.clone(),
                Arc::clone(&backend),
                ring.clone(),
                options.records.clone(),
                options.models,
                &limits.memory,
            ),
            drafts: Drafts::new(limits.memory.keeping(Kept::Conversation)),
            runs: Runs::new(host.clone(), ring.clone(), &limits.memory),
            watches: Watches::new(host.clone(), ring.clone(), streams.clone()),
            host,
            backend,
            changes: options.records.as_ref().map(|records| Arc::clone(&records.changes)),
            records: options.records.map(|records| records.records),
            ring,
            streams,
            commands: TaskTracker::new(),
            limits,
            draining: CancellationToken::new(),
            access: Access::new(options.lifetimes),
            guard: match &options.tls {
                None => ExactGuard::of(address),
                Some(ConsoleTls { hosts, .. }) => ExactGuard::over_tls(address, hosts),
            },
            tls: options.tls,
            address,
            principal: PRINCIPAL.into(),
            cookie: format!("toolway_console_{}", address.port()),
        }))
    }

    /// A link that signs one browser in, once.
    pub fn link(&self) -> Result<String, NoRandomness> {
        Ok(format!("{}login?token={}", self.url(), self.access.issue()?))
    }

    /// The address of its first page. It signs no browser in.
    pub fn url(&self) -> String {
        let Some(ConsoleTls { hosts, .. }) = &self.tls else { return format!("http://{}/", self.address) };
        match hosts.first() {
            Some(host) => format!("https://{host}:{}/", self.address.port()),
            None => format!("https://{}/", self.address),
        }
    }

    /// Serves until `stop` is cancelled. Chat turns in progress are cancelled and awaited.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: CancellationToken) -> io::Result<()> {
        let following = feed::run(self.host.clone(), self.ring.clone(), self.streams.clone());
        let runtime = tokio::runtime::Handle::current();
        let _feed = AbortOnDropHandle::new(runtime.spawn(following));
        let console = Arc::clone(&self);
        let _turns = AbortOnDropHandle::new(runtime.spawn(async move { console.turns.follow_tasks().await }));
        let tls = self.tls.as_ref().map(|tls| Arc::clone(&tls.tls));
        down::http::serve_with_tls(listener, tls, self, stop).await
    }

    async fn answer(&self, request: Request<Incoming>, connection: &PeerConnection) -> Response<ResponseBody> {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let need = if reads { OriginNeed::IfPresent } else { OriginNeed::Required };
        // Before anything else: a page of another origin must not spend a token.
        if let Err(reason) = self.guard.check(request.headers(), need) {
            return reply::text(StatusCode::FORBIDDEN, reason);
        }
        let path = request.uri().path();
        if path == "/api" || path.starts_with("/api/") {
            let answered = match self.admit(&request, connection, reads) {
                Ok(signed_in) => api::answer(self, signed_in, request).await,
                Err(error) => Err(error),
            };
            return answered.unwrap_or_else(|error| reply::error(&error));
        }
        match (request.method(), path) {
            (&Method::GET, "/login") => self.sign_in(request.uri().query().unwrap_or_default()),
            _ if !reads => reply::text(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD"),
            _ => pages::find(path).unwrap_or_else(|| reply::text(StatusCode::NOT_FOUND, "not found")),
        }
    }

    /// Exchanges a one-time token for a cookie.
    fn sign_in(&self, query: &str) -> Response<ResponseBody> {
        let token = url::form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "token");
        let token = token.map(|(_, token)| token.into_owned()).unwrap_or_default();
        let NewSession { cookie, csrf } = match self.access.exchange(&token) {
            Ok(Some(session)) => session,
            Ok(None) => return pages::invalid_link(),
            Err(error) => return reply::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        };
        let seconds = self.access.session_lifetime().as_secs();
        let secure = if self.tls.is_some() { "; Secure" } else { "" };
        let cookie =
            format!("{}={cookie}; Path=/api/; Max-Age={seconds}; SameSite=Strict; HttpOnly{secure}", self.cookie);
        // The page keeps the token in storage of its own origin, which other ports cannot read.
        let mut response = reply::see_other(&format!("/#key={csrf}"));
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        response
    }

    /// Checks cookie, origin and CSRF token of a request to the API.
    fn admit(
        &self,
        request: &Request<Incoming>,
        connection: &PeerConnection,
        reads: bool,
    ) -> Result<SignedIn, ApiError> {
        let headers = request.headers();
        if ExactGuard::is_foreign_fetch(headers) {
            return Err(ApiError::new(StatusCode::FORBIDDEN, "foreign", "another page sent this request"));
        }
        let session = self.session(headers).ok_or_else(ApiError::signed_out)?;
        let too_many = |error: down::http::TooManyConnections| {
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_connections", error.to_string())
        };
        connection.authenticated(&self.principal).map_err(too_many)?;
        let csrf = headers.get("x-toolway-csrf").and_then(|csrf| csrf.to_str().ok());
        let has_csrf = csrf.is_some_and(|csrf| session.is_csrf(csrf));
        if !reads && !has_csrf {
            let error = ApiError::new(StatusCode::FORBIDDEN, "csrf", "the CSRF token is missing or wrong");
            return Err(error.hint("reload the page, or run `toolway console` for a new link"));
        }
        Ok(SignedIn { session, has_csrf })
    }

    fn session(&self, headers: &HeaderMap) -> Option<Session> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find_map(|(name, value)| self.access.session(value).filter(|_| name == self.cookie))
    }
}

impl Responder for Console {
    fn respond<'a>(
        &'a self,
        request: Request<Incoming>,
        connection: &'a PeerConnection,
    ) -> BoxFuture<'a, Response<ResponseBody>> {
        Box::pin(self.answer(request, connection))
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn drain(&self) {
        self.draining.cancel();
        self.turns.stop();
        self.runs.stop();
        self.watches.stop();
    }

    fn drain_timeout(&self) -> Duration {
        DRAIN_TIMEOUT
    }

    fn finish(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.commands.close();
            // A command waits for its server, which may take long; the host ends it at shutdown.
            let commands = tokio::time::timeout(DRAIN_TIMEOUT, self.commands.wait());
            let _ended = tokio::join!(commands, self.turns.wait(), self.runs.wait(), self.watches.wait());
        })
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").field("address", &self.address).finish_non_exhaustive()
    }
}
