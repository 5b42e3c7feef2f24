//! Connections that are kept and used again, and requests over them.
//!
//! A connection ([`line`]) is driven by the task that waits for the reply and has nothing that runs by itself (see
//! `docs/decisions/0004-http-client.md`). A POST is never repeated once a byte of it was written. Letting go of a reply
//! before its end closes its connection.

mod chunks;
mod head;
mod line;

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

pub(super) use self::head::field;
use self::{
    head::{Bound, Extent, Head},
    line::{Failure, Line},
};
use super::connector::{Connector, HttpOptions};
use crate::{error::WireError, limit::Limits};

/// Idle connections are given up before most servers give them up.
const IDLE: Duration = Duration::from_secs(50);
/// Idle connections kept to one server.
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
    bound: Bound,
    /// By origin; looked up once for each target. Nothing awaits under this lock.
    idle: Mutex<HashMap<String, Arc<Idle>>>,
}

/// The connections to one origin that wait for a request, and since when.
#[derive(Default)]
struct Idle {
    // Nothing awaits under this lock.
    lines: Mutex<Vec<(Instant, Box<Line>)>>,
}

/// Where requests go: read once from an address, used for each of them.
#[derive(Clone)]
pub(super) struct Target {
    uri: Uri,
    path: PathAndQuery,
    host: HeaderValue,
    idle: Arc<Idle>,
}

/// What is sent to a target.
pub(super) struct Message<'a> {
    pub(super) method: &'a Method,
    /// Its headers as they are written, but for host and size.
    pub(super) fields: &'a [u8],
    pub(super) body: &'a Bytes,
}

/// A reply, its body still under way.
pub(super) struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    size: Option<u64>,
    /// Where the rest comes from; none when all has come.
    line: Option<Box<Line>>,
    idle: Arc<Idle>,
}

impl HttpClient {
    /// A client with these options.
    pub fn new(options: HttpOptions, limits: &Limits) -> Self {
        let bound = Bound { bytes: limits.header_bytes, count: limits.header_count };
        Self { pool: Arc::new(Pool { connector: Connector::new(options), bound, idle: Mutex::default() }) }
    }

    /// Sends a message to its target. `taken` is set before a connection writes it.
    pub(super) async fn send(
        &self,
        target: &Target,
        message: Message<'_>,
        taken: Option<&AtomicBool>,
    ) -> Result<Reply, WireError> {
        loop {
            let kept = target.idle.take();
            let fresh = kept.is_none();
            let is_taken = |is: bool| taken.iter().for_each(|taken| taken.store(is, Ordering::Relaxed));
            let mut line = match kept {
                Some(line) => line,
                None => {
                    is_taken(false);
                    // Rare and large: on the heap, so that whoever waits for a reply stays small.
                    Box::pin(self.pool.open(target.uri.clone())).await?
                }
            };
            is_taken(true);
            line.begin(message.method, target.path.as_str(), &target.host, message.fields, message.body);
            match poll_fn(|context| line.poll_head(context)).await {
                Ok(head) => return Ok(Reply::begun(head, line, target)),
                // The connection was closed before a byte was written.
                Err(Failure { unsent: true, .. }) if !fresh => {}
                Err(Failure { error, .. }) => return Err(error),
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
        Ok(Target { path, uri, host, idle })
    }
}

// === impl Reply ===

impl Reply {
    fn begun(head: Head, line: Box<Line>, target: &Target) -> Self {
        let Head { status, headers, extent, .. } = head;
        let size = if let Extent::Sized(size) = extent { Some(size) } else { None };
        Self { status, headers, size, line: Some(line), idle: Arc::clone(&target.idle) }
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
        let line = self.line.as_mut()?;
        let piece = poll_fn(|context| line.poll_piece(context)).await;
        if piece.is_none() {
            self.give_back();
        }
        piece
    }

    /// The rest of a body whose size was announced, behind what is there; then the connection is kept for another request.
    pub(super) async fn rest(&mut self, to: &mut BytesMut) -> Result<(), WireError> {
        if let Some(line) = &mut self.line {
            poll_fn(|context| line.poll_rest(context, to)).await?;
        }
        self.give_back();
        Ok(())
    }

    /// Keeps the connection for another request, if its body has come to its end. No piece is asked for to see that:
    /// one whose size was announced has ended with its last byte.
    pub(super) fn is_over(&mut self) -> bool {
        let over = self.line.as_ref().is_none_or(|line| line.is_over());
        if over {
            self.give_back();
        }
        over
    }

    /// Closes the connection, unless it was kept already.
    pub(super) fn let_go(&mut self) {
        self.line = None;
    }

    /// One that the server has closed with its answer is not kept: nobody might look at it again for long.
    fn give_back(&mut self) {
        if let Some(mut line) = self.line.take()
            && line.is_free()
        {
            self.idle.keep(line);
        }
    }
}

// === impl Idle ===

impl Idle {
    /// The connection used last that is still good. Looking at one may take a system call, so it is not done under the
    /// lock.
    fn take(&self) -> Option<Box<Line>> {
        loop {
            let (since, mut line) = self.lines.lock().pop()?;
            if since.elapsed() < IDLE && line.is_quiet() {
                return Some(line);
            }
        }
    }

    fn keep(&self, line: Box<Line>) {
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

    async fn open(&self, uri: Uri) -> Result<Box<Line>, WireError> {
        let stream = self.connector.open(uri).await?;
        Ok(Box::new(Line::new(stream, self.bound)))
    }
}

/// An address as it may be shown: people put keys into its query and its user part.
pub(super) fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
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
