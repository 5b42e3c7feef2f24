//! The HTTP downstream: both eras on one path, the era decided per request.
//!
//! [`guard`] checks host and origin. A response with one message is JSON; one with more messages is an event stream. The
//! status is sent with the first message. [`sessions`] keeps the sessions. Without a session, a closed connection
//! cancels the request; with one it does not.

mod body;
mod connections;
mod control;
mod guard;
mod header_timer;
mod http_sse;
mod rebuilding;
mod request_body;
mod responses;
mod serving;
mod sessions;
mod stateful;
mod stateless;
mod tls;
mod write_timeout;

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, OnceLock},
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use body::ResponseBody;
pub use connections::{PEER_PRINCIPAL, PeerConnection, TooManyConnections};
pub use guard::{GuardRefusal, HostGuard};
pub use http_sse::HttpSsePaths;
/// Body of an incoming request, and of any request that is answered.
pub use hyper::body::{Body, Incoming};
pub use request_body::{BodyError, read_body};
pub use serving::{DRAIN_TIMEOUT, Responder, WRITE_TIMEOUT, serve, serve_peers, serve_with_tls};
pub(crate) use sessions::SessionStore;
pub use tls::{ServerTls, TlsError};

use self::{
    http_sse::SseSessions,
    request_body::RequestBody,
    sessions::{NoSession, SessionRegistry},
};
use super::{
    Downstream, DownstreamOptions, Service,
    accent::{self, RequestKind},
};
use crate::{
    exchange::TimerPool,
    header as mcp,
    limit::Limits,
    message::{Envelope, MessageKind, Problem, compose},
    revision::{Era, Revision},
    seal::NoRandomness,
};

/// Options of the HTTP downstream.
#[derive(Clone, Debug)]
pub struct HttpDownstreamOptions {
    /// Options common to all downstreams.
    pub downstream: DownstreamOptions,
    /// Path of the endpoint; `None` if the embedding server has already routed the request.
    pub path: Option<String>,
    /// Paths of the HTTP+SSE transport of 2024-11-05; `None`: disabled.
    pub http_sse: Option<HttpSsePaths>,
    /// Accepted hosts and origins.
    pub guard: HostGuard,
    /// A connection whose client reads nothing for this long is closed.
    pub write_timeout: Duration,
}

/// Principal of a request, set by the embedding server as an extension of the request.
#[derive(Clone, Debug)]
pub struct Principal(pub Arc<str>);

/// A [`Service`] over HTTP.
#[derive(Debug)]
pub struct HttpDownstream {
    downstream: Arc<Downstream>,
    path: Option<String>,
    http_sse: Option<HttpSsePaths>,
    sse_sessions: Arc<SseSessions>,
    guard: HostGuard,
    write_timeout: Duration,
    sessions: SessionRegistry,
    tasks: TaskTracker,
    /// Cancels requests of sessions, which do not end with their connections.
    stop: CancellationToken,
    /// Timers for the wait for a first message; created on the runtime where they are first used.
    timers: OnceLock<TimerPool>,
}

/// The usual `Accept` value, compared first because it needs no parsing.
const USUAL_ACCEPT: &str = "application/json, text/event-stream";
/// Maximum time for a request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(120);

impl Default for HttpDownstreamOptions {
    fn default() -> Self {
        Self {
            downstream: DownstreamOptions::default(),
            path: Some("/mcp".to_owned()),
            http_sse: None,
            guard: HostGuard::loopback(),
            write_timeout: WRITE_TIMEOUT,
        }
    }
}

impl Responder for HttpDownstream {
    fn respond<'a>(
        &'a self,
        request: Request<Incoming>,
        connection: &'a PeerConnection,
    ) -> BoxFuture<'a, Response<ResponseBody>> {
        // The embedding program authenticates, if at all.
        match connection.authenticated(&Principal::of(&request)) {
            Ok(()) => Box::pin(self.respond(request)),
            Err(_) => Box::pin(async { responses::plain(StatusCode::TOO_MANY_REQUESTS, "too many connections") }),
        }
    }

    fn limits(&self) -> &Limits {
        &self.downstream.options.limits
    }

    fn drain(&self) {
        self.downstream.draining.cancel();
        self.sessions.close_streams();
        self.sse_sessions.expel(None);
    }

    fn drain_timeout(&self) -> Duration {
        self.downstream.options.drain
    }

    fn write_timeout(&self) -> Duration {
        self.write_timeout
    }

    fn finish(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.stop.cancel();
            self.tasks.close();
            self.tasks.wait().await;
        })
    }
}

impl HttpDownstream {
    /// Creates a downstream of this service.
    pub fn new(service: Arc<dyn Service>, options: HttpDownstreamOptions) -> Result<Arc<Self>, NoRandomness> {
        let store = options
            .downstream
            .shared_capacity
            .as_ref()
            .map(|capacity| Arc::clone(&capacity.sessions))
            .unwrap_or_default();
        let downstream = Downstream::new(service, options.downstream)?;
        let sessions = SessionRegistry::of(&downstream, store);
        Ok(Arc::new(Self {
            downstream,
            path: options.path,
            http_sse: options.http_sse,
            sse_sessions: Arc::default(),
            guard: options.guard,
            write_timeout: options.write_timeout,
            sessions,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            timers: OnceLock::new(),
        }))
    }

    /// Waits for the first message; `None` after the keep-alive interval, so that proxies do not close the connection.
    async fn first_message<T>(&self, saying: impl Future<Output = T>) -> Option<T> {
        self.timers.get_or_init(TimerPool::new).within(self.downstream.options.keep_alive, saying).await
    }

    /// Answers one HTTP request of the [`Principal`] in its extensions.
    pub async fn respond<B>(&self, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let principal = Principal::of(&request);
        self.respond_to(&principal, request).await
    }

    /// Answers one HTTP request of this principal.
    pub async fn respond_to<B>(&self, principal: &Arc<str>, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Err(refusal) = self.guard.admit(request.headers()) {
            return responses::plain(refusal.status, refusal.reason);
        }
        if let Some(paths) = self.http_sse.as_ref().filter(|paths| paths.contain(request.uri().path())) {
            return self.respond_http_sse(principal, request, &paths.messages).await;
        }
        if self.path.as_ref().is_some_and(|path| request.uri().path() != path) {
            return responses::plain(StatusCode::NOT_FOUND, "not found");
        }
        let headers = request.headers();
        match *request.method() {
            Method::POST if !accepts(headers, &["application/json", "text/event-stream"]) => responses::plain(
                StatusCode::NOT_ACCEPTABLE,
                "the `Accept` header must include `application/json` and `text/event-stream`",
            ),
            Method::POST => self.post(request, principal).await,
            Method::GET if !accepts(headers, &["text/event-stream"]) => {
                responses::plain(StatusCode::NOT_ACCEPTABLE, "the `Accept` header must include `text/event-stream`")
            }
            Method::GET => self.open_stream(request.headers(), principal).await,
            Method::DELETE => self.end_session(request.headers(), principal).await,
            _ => responses::not_allowed("POST, GET, DELETE"),
        }
    }

    async fn post<B>(&self, request: Request<B>, principal: &Arc<str>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, text) = match self.body(request, principal).await {
            Ok(read) => read,
            Err(refusal) => return refusal,
        };
        let limits = &self.downstream.options.limits;
        match Envelope::read(text.clone(), limits) {
            Ok(envelope) => self.take(&parts.headers, &envelope, principal).await,
            Err(problem) if problem.problem == Problem::Batch => self
                .batch(&parts.headers, &text, principal)
                .await
                .unwrap_or_else(|| responses::refusal(&problem, StatusCode::BAD_REQUEST)),
            Err(problem) => responses::refusal(&problem, StatusCode::BAD_REQUEST),
        }
    }

    /// Reads the whole body of a POST; refuses one that is not JSON, too large or too slow.
    async fn body<B>(
        &self,
        request: Request<B>,
        principal: &str,
    ) -> Result<(http::request::Parts, Bytes), Response<ResponseBody>>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // CVE-2026-33252: a cross-site form cannot send this type.
        if !is_json(request.headers()) {
            return Err(responses::plain(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the `Content-Type` must be `application/json`",
            ));
        }
        let (parts, body) = request.into_parts();
        let limits = &self.downstream.options.limits;
        let (limit, memory) =
            (limits.request_body_bytes.min(limits.message_bytes), limits.memory.of_principal(principal));
        let body = pin!(body);
        let mut reading = pin!(RequestBody::new(body).whole(limit, &memory));
        // The body nearly always arrives with the headers; then no timer is needed.
        let read = match poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await {
            Poll::Ready(read) => Ok(read),
            Poll::Pending => tokio::time::timeout(BODY_TIMEOUT, reading).await,
        };
        match read {
            Err(_) => Err(responses::plain(StatusCode::REQUEST_TIMEOUT, "the request body was not received in time")),
            Ok(Ok(body)) => Ok((parts, body)),
            Ok(Err(BodyError::TooLarge)) => {
                Err(responses::refusal(&responses::bad(Problem::TooLarge { limit }), StatusCode::PAYLOAD_TOO_LARGE))
            }
            Ok(Err(BodyError::OverBudget(error))) => {
                let error = compose::error(None, &accent::over_budget(&error));
                Err(responses::json(StatusCode::SERVICE_UNAVAILABLE, error))
            }
            Ok(Err(BodyError::Incomplete)) => {
                Err(responses::plain(StatusCode::BAD_REQUEST, "the request body is incomplete"))
            }
        }
    }

    async fn take(&self, headers: &HeaderMap, envelope: &Envelope, principal: &Arc<str>) -> Response<ResponseBody> {
        let version = headers.get(mcp::PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
        let era = version.map(|version| version.parse::<Revision>().map_or(Era::Modern, Revision::era));
        let era = era.filter(|_| self.downstream.speaks(Era::Modern));
        match (accent::request_kind(&self.downstream, envelope), envelope.kind()) {
            (RequestKind::Modern, MessageKind::Request) => self.answer_modern(headers, envelope, principal).await,
            (RequestKind::Handshake, MessageKind::Request) => self.initialize(envelope, principal).await,
            (_, MessageKind::Request) if era == Some(Era::Modern) => {
                self.answer_modern(headers, envelope, principal).await
            }
            (_, MessageKind::Notification) if era == Some(Era::Modern) => responses::empty(StatusCode::ACCEPTED),
            (_, kind) => match self.session(headers, principal).await {
                Ok(session) if kind == MessageKind::Request => self.answer_legacy(&session, envelope, headers).await,
                Ok(session) => {
                    session.take(envelope);
                    responses::empty(StatusCode::ACCEPTED)
                }
                Err(NoSession::Unavailable) => stateful::sessions_unavailable(envelope.id()),
                Err(none) => responses::json(none.status(), compose::error(envelope.id(), &none.error())),
            },
        }
    }
}

impl Principal {
    /// Principal of a request; empty if the request has none.
    fn of<B>(request: &Request<B>) -> Arc<str> {
        request.extensions().get::<Self>().map_or_else(|| Arc::from(""), |principal| Arc::clone(&principal.0))
    }
}

impl HttpSsePaths {
    fn contain(&self, path: &str) -> bool {
        path == self.stream || path == self.messages
    }
}

/// Whether the `Accept` header allows one of these media types; a missing header allows all.
fn accepts(headers: &HeaderMap, kinds: &[&str]) -> bool {
    let mut values = headers.get_all(header::ACCEPT).iter().peekable();
    let matches_range = |range: &str| {
        let range = range.split(';').next().unwrap_or_default().trim();
        let fits = |kind: &&str| match range.strip_suffix("/*") {
            Some("*") => true,
            Some(family) => kind.split('/').next().is_some_and(|own| own.eq_ignore_ascii_case(family)),
            None => range.eq_ignore_ascii_case(kind),
        };
        kinds.iter().any(fits)
    };
    let usual = |value: &HeaderValue| value == USUAL_ACCEPT;
    values.peek().is_none()
        || values.any(|value| usual(value) || value.to_str().unwrap_or_default().split(',').any(matches_range))
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    // The usual value needs no parsing.
    if value.is_some_and(|value| value.as_bytes() == b"application/json") {
        return true;
    }
    let kind = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}
