//! Connections that are kept and used again, and requests over them.
//!
//! A connection ([`connection`]) is driven by the task that waits for the reply and has nothing that runs by itself (see
//! `docs/decisions/0004-http-client.md`). A POST is never repeated once a byte of it was written. Letting go of a reply
//! before its end closes its connection.

mod chunks;
mod head;
mod connection;

use std::{
    collections::HashMap,
    fmt,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, uri::PathAndQuery};
use parking_lot::Mutex;
use url::Url;

pub(super) use self::head::write_field;
use self::{
    head::{HeadLimits, BodyLength, ResponseHead},
    connection::{SendFailure, HttpConnection},
};
use super::connector::{Connector, HttpOptions};
use crate::{error::WireError, limit::Limits};

/// IdleConnections connections are given up before most servers give them up.
const IDLE: Duration = Duration::from_secs(50);
/// IdleConnections connections kept to one server.
const KEPT: usize = 64;
/// Origins from which on those that nobody uses are forgotten.
const ORIGINS: usize = 64;

/// The client. Cloning is cheap; every clone shares the connections.
#[derive(Clone)]
pub struct HttpClient {
    pool: Arc<Pool>,
}

struct Pool {
    connector: Connector,
    /// What the head of a reply may take.
    bound: HeadLimits,
    /// By origin; looked up once for each target. Nothing awaits under this lock.
    idle: Mutex<HashMap<String, Arc<IdleConnections>>>,
}

/// The connections to one origin that wait for a request, and since when.
#[derive(Default)]
struct IdleConnections {
    // Nothing awaits under this lock.
    connections: Mutex<Vec<(Instant, Box<HttpConnection>)>>,
}

/// Where requests go: read once from an address, used for each of them.
#[derive(Clone)]
pub(super) struct HttpTarget {
    uri: Uri,
    path: PathAndQuery,
    host: HeaderValue,
    idle: Arc<IdleConnections>,
}

/// What is sent to a target.
pub(super) struct HttpRequest<'a> {
    pub(super) method: &'a Method,
    /// Its headers as they are written, but for host and size.
    pub(super) fields: &'a [u8],
    pub(super) body: &'a Bytes,
}

/// A reply, its body still under way.
pub(super) struct HttpResponse {
    status: StatusCode,
    headers: HeaderMap,
    size: Option<u64>,
    /// Where the rest comes from; none when all has come.
    connection: Option<Box<HttpConnection>>,
    idle: Arc<IdleConnections>,
}

impl HttpClient {
    /// A client with these options.
    pub fn new(options: HttpOptions, limits: &Limits) -> Self {
        let bound = HeadLimits { bytes: limits.header_bytes, count: limits.header_count };
        Self { pool: Arc::new(Pool { connector: Connector::new(options), bound, idle: Mutex::default() }) }
    }

    /// Sends a message to its target. `taken` is set before a connection writes it.
    pub(super) async fn send(
        &self,
        target: &HttpTarget,
        message: HttpRequest<'_>,
        taken: Option<&AtomicBool>,
    ) -> Result<HttpResponse, WireError> {
        loop {
            let kept = target.idle.take();
            let fresh = kept.is_none();
            let is_taken = |is: bool| taken.iter().for_each(|taken| taken.store(is, Ordering::Relaxed));
            let mut connection = match kept {
                Some(connection) => connection,
                None => {
                    is_taken(false);
                    // Rare and large: on the heap, so that whoever waits for a reply stays small.
                    Box::pin(self.pool.open(target.uri.clone())).await?
                }
            };
            is_taken(true);
            connection.begin(message.method, target.path.as_str(), &target.host, message.fields, message.body);
            match poll_fn(|context| connection.poll_head(context)).await {
                Ok(head) => return Ok(HttpResponse::new(head, connection, target)),
                // The connection was closed before a byte was written.
                Err(SendFailure { unsent: true, .. }) if !fresh => {}
                Err(SendFailure { error, .. }) => return Err(error),
            }
        }
    }
}

impl HttpClient {
    /// The target an address names.
    pub(super) fn target(&self, url: &Url) -> Result<HttpTarget, WireError> {
        let unreachable = |reason: &str| WireError::Unreachable { target: display_url(url), reason: reason.to_owned() };
        let uri: Uri = url.as_str().parse().map_err(|_| unreachable("not an address HTTP can carry"))?;
        let authority = uri.authority().ok_or_else(|| unreachable("the address has no host"))?;
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        let idle = self.pool.idle_at(format!("{}://{host}", url.scheme()));
        let host = HeaderValue::from_str(host).map_err(|_| unreachable("the host cannot be named in a header"))?;
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

    /// The size of the body, where it was announced.
    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }

    /// The next piece of the body; after the last one the connection is kept for another request.
    pub(super) async fn chunk(&mut self) -> Option<Result<Bytes, WireError>> {
        let connection = self.connection.as_mut()?;
        let piece = poll_fn(|context| connection.poll_piece(context)).await;
        if piece.is_none() {
            self.release_connection();
        }
        piece
    }

    /// The rest of a body whose size was announced, behind what is there; then the connection is kept for another request.
    pub(super) async fn rest(&mut self, to: &mut BytesMut) -> Result<(), WireError> {
        if let Some(connection) = &mut self.connection {
            poll_fn(|context| connection.poll_rest(context, to)).await?;
        }
        self.release_connection();
        Ok(())
    }

    /// Keeps the connection for another request, if its body has come to its end. No piece is asked for to see that:
    /// one whose size was announced has ended with its last byte.
    pub(super) fn is_over(&mut self) -> bool {
        let over = self.connection.as_ref().is_none_or(|connection| connection.is_over());
        if over {
            self.release_connection();
        }
        over
    }

    /// Closes the connection, unless it was kept already.
    pub(super) fn close(&mut self) {
        self.connection = None;
    }

    /// One that the server has closed with its answer is not kept: nobody might look at it again for long.
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
    /// The connection used last that is still good. Looking at one may take a system call, so it is not done under the
    /// lock.
    fn take(&self) -> Option<Box<HttpConnection>> {
        loop {
            let (since, mut connection) = self.connections.lock().pop()?;
            if since.elapsed() < IDLE && connection.is_quiet() {
                return Some(connection);
            }
        }
    }

    fn keep(&self, connection: Box<HttpConnection>) {
        let (now, mut connections) = (Instant::now(), self.connections.lock());
        // The oldest stand first.
        let late = connections.partition_point(|(since, _)| IDLE <= now.saturating_duration_since(*since));
        connections.drain(..late);
        if connections.len() < KEPT {
            connections.push((now, connection));
        }
    }
}

// === impl Pool ===

impl Pool {
    /// The idle connections to an origin. Strangers name origins too: those that nobody uses are not kept for long.
    fn idle_at(&self, origin: String) -> Arc<IdleConnections> {
        let mut known = self.idle.lock();
        if ORIGINS <= known.len() {
            known.retain(|_, idle| 1 < Arc::strong_count(idle));
        }
        Arc::clone(known.entry(origin).or_default())
    }

    async fn open(&self, uri: Uri) -> Result<Box<HttpConnection>, WireError> {
        let stream = self.connector.open(uri).await?;
        Ok(Box::new(HttpConnection::new(stream, self.bound)))
    }
}

/// An address as it may be display_url: people put keys into its query and its user part.
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
