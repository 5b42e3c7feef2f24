//! Connections that are kept and used again, and requests over them.
//!
//! hyper speaks HTTP/1.1; its connection is driven by the task that waits for the reply instead of by one of its
//! own, which saves two wake-ups across threads for each call (see `docs/decisions/0004-http-client.md`). A POST is
//! never repeated once a byte of it was written. Letting go of a reply before its end closes its connection.

use std::{
    collections::HashMap,
    fmt,
    future::poll_fn,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header, uri::PathAndQuery};
use http_body_util::Full;
use hyper::{
    body::{Body, Incoming},
    client::conn::{
        TrySendError,
        http1::{self, SendRequest},
    },
};
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use url::Url;

use super::connector::{Connector, HttpOptions, Open};
use crate::{error::WireError, limit::Limits, quiet::quietly};

/// Idle connections are given up before most servers give them up.
const IDLE: Duration = Duration::from_secs(50);
/// Idle connections kept to one server.
const KEPT: usize = 64;
/// Origins from which on those that nobody uses are forgotten.
const ORIGINS: usize = 64;
/// hyper reads no less at once.
const SMALLEST_BUFFER: usize = 8 * 1024;

/// The client. Cloning is cheap; every clone shares the connections.
#[derive(Clone)]
pub struct HttpClient {
    pool: Arc<Pool>,
}

struct Pool {
    connector: Connector,
    builder: http1::Builder,
    /// The bound on a reply's head, for messages.
    header_bytes: usize,
    /// By origin; looked up once for each target. Nothing awaits under this lock.
    idle: Mutex<HashMap<String, Arc<Idle>>>,
}

/// The connections to one origin that wait for a request, and since when.
#[derive(Default)]
struct Idle {
    // Nothing awaits under this lock.
    lines: Mutex<Vec<(Instant, Line)>>,
}

/// Where requests go: read once from an address, used for each of them.
#[derive(Clone)]
pub(super) struct Target {
    uri: Uri,
    path: Uri,
    host: HeaderValue,
    idle: Arc<Idle>,
}

type Driver = Pin<Box<http1::Connection<Open, Full<Bytes>>>>;
type Answered = http::Response<Incoming>;
type Unanswered = TrySendError<Request<Full<Bytes>>>;

/// One connection.
struct Line {
    sender: SendRequest<Full<Bytes>>,
    driver: Driver,
    /// Told of whatever comes while it is idle.
    stir: Arc<Stir>,
}

/// Whether anything came over a connection since it was last looked at.
#[derive(Default)]
struct Stir(AtomicBool);

impl Wake for Stir {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// A reply, its body still under way.
pub(super) struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Option<Incoming>,
    line: Option<Line>,
    pool: Arc<Pool>,
    idle: Arc<Idle>,
}

impl HttpClient {
    /// A client with these options.
    pub fn new(options: HttpOptions, limits: &Limits) -> Self {
        let mut builder = http1::Builder::new();
        builder.max_headers(limits.header_count).max_buf_size(limits.header_bytes.max(SMALLEST_BUFFER));
        let (connector, header_bytes) = (Connector::new(options), limits.header_bytes);
        Self { pool: Arc::new(Pool { connector, builder, header_bytes, idle: Mutex::default() }) }
    }

    /// Sends a request to its target; path and host are filled in here. It is taken when a connection is there for it, and
    /// `taken` is set before that writes it.
    pub(super) async fn send(
        &self,
        target: &Target,
        request: &mut Option<Request<Full<Bytes>>>,
        taken: Option<&AtomicBool>,
    ) -> Result<Reply, WireError> {
        loop {
            let kept = target.idle.take();
            let fresh = kept.is_none();
            let mut line = match kept {
                Some(line) => line,
                // Rare and large: on the heap, so that whoever waits for a reply stays small.
                None => Box::pin(self.pool.open(target.uri.clone())).await?,
            };
            if let Some(taken) = taken {
                taken.store(true, Ordering::Relaxed);
            }
            match line.exchange(target.addressed(request)).await {
                Ok(response) => return Ok(Reply::begun(response, line, self, target)),
                // The connection was closed before a byte was written: the request is still ours.
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if !fresh => *request = Some(unsent),
                    _ => return Err(explained(&failed.into_error(), self.pool.header_bytes)),
                },
            }
        }
    }
}

impl HttpClient {
    /// The target an address names.
    pub(super) fn target(&self, url: &Url) -> Result<Target, WireError> {
        let unreachable = |reason: &str| WireError::Unreachable { target: shown(url), reason: reason.to_owned() };
        let uri: Uri = url.as_str().parse().map_err(|_| unreachable("not an address HTTP can carry"))?;
        let authority = uri.authority().ok_or_else(|| unreachable("the address has no host"))?;
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        let idle = self.pool.idle_at(format!("{}://{host}", url.scheme()));
        let host = HeaderValue::from_str(host).map_err(|_| unreachable("the host cannot be named in a header"))?;
        let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        Ok(Target { path: Uri::from(path), uri, host, idle })
    }
}

pin_project! {
    /// A request under way over a connection.
    struct Exchanging<'a, F> {
        #[pin]
        sending: F,
        driver: &'a mut Driver,
    }
}

impl<F: Future<Output = Result<Answered, Unanswered>>> Future for Exchanging<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut exchanging = self.project();
        // Only the connection tells of a reply, and it does so below. A task that is woken while it runs is run again
        // by another thread.
        let mut unwoken = Context::from_waker(Waker::noop());
        // The first look puts the request in line; then the connection works, and the second look sees the reply.
        if let Poll::Ready(sent) = exchanging.sending.as_mut().poll(&mut unwoken) {
            return Poll::Ready(sent);
        }
        // An end of the connection is seen by whoever waits for a reply over it.
        let _ended = exchanging.driver.as_mut().poll(context);
        exchanging.sending.poll(&mut unwoken)
    }
}

// === impl Target ===

impl Target {
    /// A request to it.
    fn addressed(&self, request: &mut Option<Request<Full<Bytes>>>) -> Request<Full<Bytes>> {
        let mut request = request.take().unwrap_or_default();
        *request.uri_mut() = self.path.clone();
        request.headers_mut().insert(header::HOST, self.host.clone());
        request
    }
}

// === impl Line ===

impl Line {
    /// Sends a request and drives the connection until the head of the reply is there.
    fn exchange(&mut self, request: Request<Full<Bytes>>) -> impl Future<Output = Result<Answered, Unanswered>> {
        // Nobody is kept from looking because of what else was done in the same turn: there is no other wake.
        let sending = tokio::task::unconstrained(self.sender.try_send_request(request));
        Exchanging { sending, driver: &mut self.driver }
    }

    /// Looks whether another request can go over it.
    fn is_usable(&mut self) -> bool {
        self.stir.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&self.stir));
        self.driver.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() && self.sender.is_ready()
    }

    /// Whether it still is as it was when it was last looked at; most are, and are not looked at again.
    fn is_still_usable(&mut self) -> bool {
        !self.stir.0.load(Ordering::Acquire) || self.is_usable()
    }
}

// === impl Reply ===

impl Reply {
    fn begun(response: Answered, line: Line, client: &HttpClient, target: &Target) -> Self {
        let (parts, body) = response.into_parts();
        Self {
            status: parts.status,
            headers: parts.headers,
            body: Some(body),
            line: Some(line),
            pool: Arc::clone(&client.pool),
            idle: Arc::clone(&target.idle),
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The size of the body, where it was announced.
    pub(super) fn size(&self) -> Option<u64> {
        self.body.as_ref().and_then(|body| body.size_hint().exact())
    }

    /// The next piece of the body; after the last one the connection is kept for another request.
    pub(super) async fn chunk(&mut self) -> Option<Result<Bytes, WireError>> {
        loop {
            let frame = poll_fn(|context| self.poll_frame(context)).await;
            match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Some(Ok(data)),
                    Err(_trailers) => {}
                },
                Some(Err(error)) => return Some(Err(explained(&error, self.pool.header_bytes))),
                None => {
                    self.give_back();
                    return None;
                }
            }
        }
    }

    fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, hyper::Error>>> {
        // As above: what comes is seen right after the connection has worked, and the connection works on when the next
        // piece is asked for.
        let mut unwoken = Context::from_waker(Waker::noop());
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = quietly(|| Pin::new(&mut *body).poll_frame(&mut unwoken)) {
            return Poll::Ready(frame);
        }
        if let Some(line) = &mut self.line {
            let _ended = line.driver.as_mut().poll(context);
        }
        quietly(|| Pin::new(body).poll_frame(&mut unwoken))
    }

    /// Keeps the connection for another request, if its body has come to its end. No piece is asked for to see that: one
    /// whose size was announced has ended with its last byte.
    pub(super) fn is_over(&mut self) -> bool {
        let over = self.body.as_ref().is_some_and(Body::is_end_stream);
        if over {
            self.give_back();
        }
        over
    }

    /// Closes the connection, unless it was kept already.
    pub(super) fn let_go(&mut self) {
        self.body = None;
        self.line = None;
    }

    /// One that the server has closed with its answer is not kept: nobody might look at it again for long.
    fn give_back(&mut self) {
        self.body = None;
        if let Some(mut line) = self.line.take()
            && line.is_usable()
        {
            self.idle.keep(line);
        }
    }
}

// === impl Idle ===

impl Idle {
    /// The connection used last that is still good. Looking at one may take a system call, so it is not done under the
    /// lock.
    fn take(&self) -> Option<Line> {
        loop {
            let (since, mut line) = self.lines.lock().pop()?;
            if since.elapsed() < IDLE && line.is_still_usable() {
                return Some(line);
            }
        }
    }

    fn keep(&self, line: Line) {
        let (now, mut lines) = (Instant::now(), self.lines.lock());
        // The oldest stand first.
        let late = lines.partition_point(|(since, _)| IDLE <= now.saturating_duration_since(*since));
        lines.drain(..late);
        if lines.len() < KEPT {
            lines.push((now, line));
        }
    }
}

// === impl Pool ===

impl Pool {
    /// The idle connections to an origin. Strangers name origins too: those that nobody uses are not kept for long.
    fn idle_at(&self, origin: String) -> Arc<Idle> {
        let mut known = self.idle.lock();
        if ORIGINS <= known.len() {
            known.retain(|_, idle| 1 < Arc::strong_count(idle));
        }
        Arc::clone(known.entry(origin).or_default())
    }

    async fn open(&self, uri: Uri) -> Result<Line, WireError> {
        let target = uri.host().unwrap_or_default().to_owned();
        let stream = self.connector.open(uri).await?;
        let (sender, driver) = self
            .builder
            .handshake(stream)
            .await
            .map_err(|error| WireError::Unreachable { target, reason: error.to_string() })?;
        Ok(Line { sender, driver: Box::pin(driver), stir: Arc::default() })
    }
}

/// An address as it may be shown: people put keys into its query and its user part.
pub(super) fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

fn explained(error: &hyper::Error, header_bytes: usize) -> WireError {
    if error.is_parse_too_large() {
        return WireError::TooLarge { what: "response header", limit: header_bytes };
    }
    let mut cause: &(dyn std::error::Error + 'static) = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let garbled = cause
        .downcast_ref::<io::Error>()
        .is_some_and(|error| matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput));
    if error.is_parse() || garbled {
        WireError::protocol(format!("not HTTP: {cause}"))
    } else {
        WireError::Ended(cause.to_string())
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("status", &self.status).finish_non_exhaustive()
    }
}
