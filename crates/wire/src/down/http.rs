//! The HTTP downstream: both eras on one path, the era decided per request.
//!
//! A request is let in by [`guard`], answered with JSON when there is one message and with a stream as soon as there
//! is more; the status is committed only with the first message. Sessions are kept in [`sessions`]. Without a
//! session a closed connection cancels the request; with one it does not.

mod body;
mod guard;
mod head_clock;
mod oversight;
mod patient;
mod reply;
mod serving;
mod sessions;
mod stateful;
mod stateless;
mod taken;
mod two_paths;

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
use hyper::body::Body;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use body::ResponseBody;
pub use guard::HostGuard;
/// The body of a request as it comes in.
pub use hyper::body::Incoming;
pub use serving::{DRAIN_TIME, Responder, WRITE_TIME, serve};
pub(crate) use sessions::SessionRoom;
pub use two_paths::TwoPaths;

use self::{
    sessions::Sessions,
    taken::{NotWhole, Taken},
    two_paths::Conversations,
};
use super::{
    Downstream, DownstreamOptions, Service,
    accent::{self, Declared},
};
use crate::{
    exchange::TimerPool,
    header as mcp,
    limit::Limits,
    message::{Envelope, Kind, Problem, compose},
    revision::{Era, Revision},
    seal::NoRandomness,
};

/// How the HTTP downstream behaves.
#[derive(Clone, Debug)]
pub struct HttpDownstreamOptions {
    /// What every downstream has.
    pub downstream: DownstreamOptions,
    /// The one path; none where whoever stands in front has looked at it already.
    pub path: Option<String>,
    /// Where the transport of 2024-11-05 is reached; nowhere unless somebody asks for it.
    pub two_paths: Option<TwoPaths>,
    /// Who may come in.
    pub guard: HostGuard,
    /// A connection whose reader takes nothing for this long is closed.
    pub write_time: Duration,
}

/// Who a request is from, as whoever stands in front of the downstream found out; an extension of the request.
#[derive(Clone, Debug)]
pub struct Principal(pub Arc<str>);

/// A service over HTTP.
#[derive(Debug)]
pub struct HttpDownstream {
    downstream: Arc<Downstream>,
    path: Option<String>,
    two_paths: Option<TwoPaths>,
    conversations: Arc<Conversations>,
    guard: HostGuard,
    write_time: Duration,
    sessions: Sessions,
    tasks: TaskTracker,
    /// Ends the requests of sessions, which do not end with their connections.
    stop: CancellationToken,
    /// For whoever waits for a first message; made where they wait.
    timers: OnceLock<TimerPool>,
}

/// What nearly every client accepts: both kinds there are, so that it need not be taken apart.
const USUAL_ACCEPT: &str = "application/json, text/event-stream";
/// A caller that takes longer to send its body is not one.
const BODY_TIME: Duration = Duration::from_secs(120);

impl Default for HttpDownstreamOptions {
    fn default() -> Self {
        Self {
            downstream: DownstreamOptions::default(),
            path: Some("/mcp".to_owned()),
            two_paths: None,
            guard: HostGuard::loopback(),
            write_time: WRITE_TIME,
        }
    }
}

impl Responder for HttpDownstream {
    fn respond(&self, request: Request<Incoming>) -> BoxFuture<'_, Response<ResponseBody>> {
        Box::pin(self.respond(request))
    }

    fn limits(&self) -> &Limits {
        &self.downstream.options.limits
    }

    fn drain(&self) {
        self.downstream.draining.cancel();
        self.sessions.rest();
        self.conversations.end_all();
    }

    fn drain_time(&self) -> Duration {
        self.downstream.options.drain
    }

    fn write_time(&self) -> Duration {
        self.write_time
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
    /// A downstream of this service.
    pub fn new(service: Arc<dyn Service>, options: HttpDownstreamOptions) -> Result<Arc<Self>, NoRandomness> {
        let room = options.downstream.premises.as_ref().map(|premises| Arc::clone(&premises.sessions)).unwrap_or_default();
        let downstream = Downstream::new(service, options.downstream)?;
        let sessions = Sessions::of(&downstream, room);
        Ok(Arc::new(Self {
            downstream,
            path: options.path,
            two_paths: options.two_paths,
            conversations: Arc::default(),
            guard: options.guard,
            write_time: options.write_time,
            sessions,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            timers: OnceLock::new(),
        }))
    }

    /// The first message of an answer; none yet where somebody on the way may take the silence for the end.
    async fn first_word<T>(&self, saying: impl Future<Output = T>) -> Option<T> {
        self.timers.get_or_init(TimerPool::new).within(self.downstream.options.keep_alive, saying).await
    }

    /// Answers one HTTP request.
    pub async fn respond<B>(&self, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let principal = Principal::of(&request);
        self.respond_to(&principal, request).await
    }

    /// Answers one HTTP request of whoever this is.
    pub async fn respond_to<B>(&self, principal: &Arc<str>, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Err(reason) = self.guard.admit(request.headers()) {
            return reply::plain(StatusCode::FORBIDDEN, reason);
        }
        if let Some(paths) = self.two_paths.as_ref().filter(|paths| paths.have(request.uri().path())) {
            return self.respond_on_two_paths(principal, request, &paths.messages).await;
        }
        if self.path.as_ref().is_some_and(|path| request.uri().path() != path) {
            return reply::plain(StatusCode::NOT_FOUND, "nothing here");
        }
        let headers = request.headers();
        match *request.method() {
            Method::POST if !accepts(headers, &["application/json", "text/event-stream"]) => {
                reply::plain(StatusCode::NOT_ACCEPTABLE, "accept application/json and text/event-stream")
            }
            Method::POST => self.post(request, principal).await,
            Method::GET if !accepts(headers, &["text/event-stream"]) => {
                reply::plain(StatusCode::NOT_ACCEPTABLE, "this is a stream: accept text/event-stream")
            }
            Method::GET => self.stand(request.headers(), principal),
            Method::DELETE => self.end_session(request.headers(), principal),
            _ => reply::not_allowed("POST, GET, DELETE"),
        }
    }

    async fn post<B>(&self, request: Request<B>, principal: &Arc<str>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, text) = match self.body(request).await {
            Ok(read) => read,
            Err(refusal) => return refusal,
        };
        let limits = &self.downstream.options.limits;
        match Envelope::read(text.clone(), limits) {
            Ok(envelope) => self.take(&parts.headers, &envelope, principal).await,
            Err(problem) if problem.problem == Problem::Batch => self
                .batch(&parts.headers, &text, principal)
                .await
                .unwrap_or_else(|| reply::refusal(&problem, StatusCode::BAD_REQUEST)),
            Err(problem) => reply::refusal(&problem, StatusCode::BAD_REQUEST),
        }
    }

    /// The body of a POST, whole; refused where it is not JSON, too large or too slow.
    async fn body<B>(&self, request: Request<B>) -> Result<(http::request::Parts, Bytes), Response<ResponseBody>>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // CVE-2026-33252: a cross-site form cannot send this type.
        if !is_json(request.headers()) {
            return Err(reply::plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json"));
        }
        let (parts, body) = request.into_parts();
        let limit = self.downstream.options.limits.message_bytes;
        let body = pin!(body);
        let mut reading = pin!(Taken::new(body).whole(limit));
        // Nearly always it came with the head, and nobody has to look at a clock.
        let read = match poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await {
            Poll::Ready(read) => Ok(read),
            Poll::Pending => tokio::time::timeout(BODY_TIME, reading).await,
        };
        match read {
            Err(_) => Err(reply::plain(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
            Ok(Ok(body)) => Ok((parts, body)),
            Ok(Err(NotWhole::TooLarge)) => {
                Err(reply::refusal(&reply::bad(Problem::TooLarge { limit }), StatusCode::PAYLOAD_TOO_LARGE))
            }
            Ok(Err(NotWhole::BrokeOff)) => Err(reply::plain(StatusCode::BAD_REQUEST, "the body broke off")),
        }
    }

    async fn take(&self, headers: &HeaderMap, envelope: &Envelope, principal: &Arc<str>) -> Response<ResponseBody> {
        let version = headers.get(mcp::PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
        let era = version.map(|version| version.parse::<Revision>().map_or(Era::Modern, Revision::era));
        let era = era.filter(|_| self.downstream.speaks(Era::Modern));
        match (accent::declared(&self.downstream, envelope), envelope.kind()) {
            (Declared::Modern, Kind::Request) => self.answer_modern(headers, envelope, principal).await,
            (Declared::Handshake, Kind::Request) => self.initialize(envelope, principal),
            (_, Kind::Request) if era == Some(Era::Modern) => self.answer_modern(headers, envelope, principal).await,
            (_, Kind::Notification) if era == Some(Era::Modern) => reply::empty(StatusCode::ACCEPTED),
            (_, kind) => match self.sessions.find(&self.downstream, headers, principal) {
                Ok(session) if kind == Kind::Request => self.answer_legacy(&session, envelope).await,
                Ok(session) => {
                    session.take(envelope);
                    reply::empty(StatusCode::ACCEPTED)
                }
                Err(none) => reply::json(none.status(), compose::error(envelope.id(), &none.error())),
            },
        }
    }
}

impl Principal {
    /// Whoever a request is from; nobody in particular where nobody asked.
    fn of<B>(request: &Request<B>) -> Arc<str> {
        request.extensions().get::<Self>().map_or_else(|| Arc::from(""), |who| Arc::clone(&who.0))
    }
}

impl TwoPaths {
    fn have(&self, path: &str) -> bool {
        path == self.stream || path == self.messages
    }
}

/// Whether one of these kinds is welcome. Whoever says nothing takes what comes.
fn accepts(headers: &HeaderMap, kinds: &[&str]) -> bool {
    let mut said = headers.get_all(header::ACCEPT).iter().peekable();
    let welcome = |range: &str| {
        let range = range.split(';').next().unwrap_or_default().trim();
        let fits = |kind: &&str| match range.strip_suffix("/*") {
            Some("*") => true,
            Some(family) => kind.split('/').next().is_some_and(|own| own.eq_ignore_ascii_case(family)),
            None => range.eq_ignore_ascii_case(kind),
        };
        kinds.iter().any(fits)
    };
    let usual = |value: &HeaderValue| value == USUAL_ACCEPT;
    said.peek().is_none()
        || said.any(|value| usual(value) || value.to_str().unwrap_or_default().split(',').any(welcome))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}
