//! The HTTP client: a connection pool and requests over it.
//!
//! A connection ([`connection`]) has no task of its own; the task that waits for the response drives it (see
//! `docs/decisions/0004-http-client.md`). A request is never repeated once a byte of it was written. Dropping a response
//! before its end closes its connection.

mod chunks;
mod connection;
mod head;

use std::{
    collections::HashMap,
    fmt,
    future::poll_fn,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, uri::PathAndQuery};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

pub(super) use self::head::write_field;
use self::{
    connection::{HttpConnection, SendFailure},
    head::{BodyLength, HeadLimits, ResponseHead},
};
use super::connector::{Connector, HttpOptions};
use crate::{
    error::WireError,
    exchange::{WriteMark, WriteStart},
    limit::Limits,
};

/// Idle connections are closed after this time, before most servers close them.
const IDLE: Duration = Duration::from_secs(50);
/// Largest number of idle connections to one origin.
const KEPT: usize = 64;
/// From this number of origins on, unused ones are dropped.
const ORIGINS: usize = 64;

/// HTTP/1.1 client. Cloning is cheap; all clones share the connections.
#[derive(Clone)]
pub struct HttpClient {
    pool: Arc<HttpPool>,
}

struct HttpPool {
    connector: Connector,
    /// Limits of response heads.
    head_limits: HeadLimits,
    /// By origin; looked up once for each target. No await under this lock.
    idle: Mutex<HashMap<String, Arc<IdleConnections>>>,
}

/// Idle connections to one origin, with the time of their last use.
#[derive(Default)]
struct IdleConnections {
    // No await under this lock.
    state: Mutex<IdleState>,
}

#[derive(Default)]
struct IdleState {
    /// The oldest come first.
    connections: Vec<(Instant, Box<HttpConnection>)>,
    /// Closes connections that are idle for too long; runs while there are any.
    sweeper: Option<AbortOnDropHandle<()>>,
}

/// Target of requests: parsed once from a URL.
#[derive(Clone)]
pub(super) struct HttpTarget {
    uri: Uri,
    path: PathAndQuery,
    host: HeaderValue,
    idle: Arc<IdleConnections>,
}

/// One request to a target.
pub(super) struct HttpRequest<'a> {
    pub(super) method: &'a Method,
    /// Encoded header fields, without `Host` and `Content-Length`.
    pub(super) fields: &'a [u8],
    pub(super) body: &'a Bytes,
    /// Set before the first byte is written.
    pub(super) mark: Option<&'a WriteMark>,
}

/// A response whose body is not read yet.
pub(super) struct HttpResponse {
    status: StatusCode,
    headers: HeaderMap,
    size: Option<u64>,
    /// Connection for the rest of the body; `None` after its end.
    connection: Option<Box<HttpConnection>>,
    idle: Arc<IdleConnections>,
}

impl HttpClient {
    /// Creates a client with these options.
    pub fn new(options: HttpOptions, limits: &Limits) -> Self {
        let head_limits = HeadLimits { bytes: limits.header_bytes, count: limits.header_count };
        Self { pool: Arc::new(HttpPool { connector: Connector::new(options), head_limits, idle: Mutex::default() }) }
    }

    /// Sends a request. `taken` is set to true before a connection writes it, and to false while a new one is opened.
    pub(super) async fn send(
        &self,
        target: &HttpTarget,
        message: HttpRequest<'_>,
        taken: Option<&AtomicBool>,
    ) -> Result<HttpResponse, WireError> {
        loop {
            let idle = target.idle.take();
            let fresh = idle.is_none();
            let set_taken = |is: bool| taken.iter().for_each(|taken| taken.store(is, Ordering::Relaxed));
            let mut connection = match idle {
                Some(connection) => connection,
                None => {
                    set_taken(false);
                    // Rare and large: boxed, so that the future of a waiting request stays small.
                    Box::pin(self.pool.open(target.uri.clone())).await?
                }
            };
            set_taken(true);
            let start = message.mark.map_or(WriteStart::Again, WriteMark::begin);
            if start == WriteStart::Refused {
                return Err(WireError::not_sent());
            }
            connection.begin(message.method, target.path.as_str(), &target.host, message.fields, message.body);
            match poll_fn(|context| connection.poll_head(context)).await {
                Ok(head) => return Ok(HttpResponse::new(head, connection, target)),
                Err(SendFailure { unsent, error }) => {
                    if let (true, WriteStart::First, Some(mark)) = (unsent, start, message.mark) {
                        mark.undo();
                    }
                    // The server closed the idle connection before a byte was written.
                    if !unsent || fresh {
                        return Err(error);
                    }
                }
            }
        }
    }
}

impl HttpClient {
    /// Parses the target of a URL.
    pub(super) fn target(&self, url: &Url) -> Result<HttpTarget, WireError> {
        let unreachable = |reason: &str| WireError::Unreachable { target: display_url(url), reason: reason.to_owned() };
        let uri: Uri = url.as_str().parse().map_err(|_| unreachable("invalid HTTP URL"))?;
        let authority = uri.authority().ok_or_else(|| unreachable("the URL has no host"))?;
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        let idle = self.pool.idle_at(format!("{}://{host}", url.scheme()));
        let host =
            HeaderValue::from_str(host).map_err(|_| unreachable("the host name is invalid in a `Host` header"))?;
        let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        Ok(HttpTarget { path, uri, host, idle })
    }
}

// === impl HttpResponse ===

impl HttpResponse {
    fn new(head: ResponseHead, connection: Box<HttpConnection>, target: &HttpTarget) -> Self {
        let ResponseHead { status, headers, body_length, .. } = head;
        let size = if let BodyLength::Sized(size) = body_length { Some(size) } else { None };
        Self { status, headers, size, connection: Some(connection), idle: Arc::clone(&target.idle) }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// `Content-Length` of the body, if given.
    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Returns the next piece of the body; after the last one the connection returns to the pool.
    pub(super) async fn chunk(&mut self) -> Option<Result<Bytes, WireError>> {
        let connection = self.connection.as_mut()?;
        let piece = poll_fn(|context| connection.poll_piece(context)).await;
        if piece.is_none() {
            self.release_connection();
        }
        piece
    }

    /// Appends the rest of a body with known length to `to`; then the connection returns to the pool.
    pub(super) async fn rest(&mut self, to: &mut BytesMut) -> Result<(), WireError> {
        if let Some(connection) = &mut self.connection {
            poll_fn(|context| connection.poll_rest(context, to)).await?;
        }
        self.release_connection();
        Ok(())
    }

    /// Whether the body has ended; if so, the connection returns to the pool. A body of known length has ended with its
    /// last byte, without another read.
    pub(super) fn is_over(&mut self) -> bool {
        let over = self.connection.as_ref().is_none_or(|connection| connection.is_over());
        if over {
            self.release_connection();
        }
        over
    }

    /// Closes the connection, unless it has returned to the pool.
    pub(super) fn close(&mut self) {
        self.connection = None;
    }

    /// Returns the connection to the pool, unless the server has closed it.
    fn release_connection(&mut self) {
        if let Some(mut connection) = self.connection.take()
            && connection.is_reusable()
        {
            self.idle.keep(connection);
        }
    }
}

// === impl IdleConnections ===

impl IdleConnections {
    /// Takes the most recently used connection that is still open. The check may need a system call, so it is done outside
    /// the lock.
    fn take(&self) -> Option<Box<HttpConnection>> {
        loop {
            let (since, mut connection) = self.state.lock().connections.pop()?;
            if since.elapsed() < IDLE && connection.is_quiet() {
                return Some(connection);
            }
        }
    }

    fn keep(self: &Arc<Self>, connection: Box<HttpConnection>) {
        let mut state = self.state.lock();
        if state.connections.len() < KEPT {
            state.connections.push((Instant::now(), connection));
        }
        // Without a runtime, for example at shutdown, the next request closes them.
        if state.sweeper.is_none()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            state.sweeper = Some(AbortOnDropHandle::new(runtime.spawn(sweep(Arc::downgrade(self)))));
        }
    }

    /// Closes connections that are idle for too long; returns the time of the next check, or `None` if none are left.
    fn close_expired(&self) -> Option<Instant> {
        let (now, mut state) = (Instant::now(), self.state.lock());
        let late = state.connections.partition_point(|(since, _)| IDLE <= now.saturating_duration_since(*since));
        state.connections.drain(..late);
        let next = state.connections.first().map(|(since, _)| *since + IDLE);
        if next.is_none() {
            state.sweeper = None;
        }
        next
    }
}

async fn sweep(idle: Weak<IdleConnections>) {
    let mut next = Some(Instant::now() + IDLE);
    while let Some(time) = next {
        tokio::time::sleep_until(time).await;
        next = idle.upgrade().and_then(|idle| idle.close_expired());
    }
}

// === impl HttpPool ===

impl HttpPool {
    /// The idle connections to an origin. Remote parties can name origins too, so unused origins are dropped.
    fn idle_at(&self, origin: String) -> Arc<IdleConnections> {
        let mut known = self.idle.lock();
        if ORIGINS <= known.len() {
            known.retain(|_, idle| 1 < Arc::strong_count(idle));
        }
        Arc::clone(known.entry(origin).or_default())
    }

    async fn open(&self, uri: Uri) -> Result<Box<HttpConnection>, WireError> {
        let stream = self.connector.open(uri).await?;
        Ok(Box::new(HttpConnection::new(stream, self.head_limits)))
    }
}

/// A URL for messages, without query and user info, which may contain secrets.
pub(super) fn display_url(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse").field("status", &self.status).finish_non_exhaustive()
    }
}
