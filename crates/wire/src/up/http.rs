//! Servers over Streamable HTTP: each message its own POST, each request its own lane.
//!
//! Without a session a lane is a POST and its reply. With one there are also the session id, a standing stream, and
//! streams that are taken up again where they broke ([`session`]). The two endpoints of the oldest revision are in
//! [`event_stream`]. What is said is the accents' business; redirects and credentials are decided in [`request`].

mod event_stream;
mod lane;
mod request;
mod session;

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, header};
use parking_lot::Mutex;
use tokio::{runtime::Handle, task::AbortHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use url::Url;

use self::{request::Headers, session::Session};
use super::{
    client::{HttpClient, Reply, Target, shown},
    credential::Credentials,
    transport::{Lane, LaneEnd, Link, Manner, Outbound, Shape, Sink, Transport},
};
use crate::{
    error::{Clock, WireError},
    header as mcp,
    limit::Limits,
    revision::Revision,
};

/// The way to a server over HTTP.
#[derive(Clone, Debug)]
pub struct HttpTransport {
    endpoint: Arc<Endpoint>,
}

/// Where a server is and how it is addressed.
pub(super) struct Endpoint {
    client: HttpClient,
    url: Url,
    /// What the address comes to; none where HTTP cannot carry it.
    target: Option<Target>,
    /// Sent with every request, as configured.
    headers: HeaderMap,
    credentials: Arc<dyn Credentials>,
    limits: Limits,
}

/// An open way over Streamable HTTP.
struct HttpLink {
    shared: Arc<Shared>,
}

struct Shared {
    endpoint: Arc<Endpoint>,
    sink: Arc<dyn Sink>,
    /// With a session, or none.
    session: Option<Session>,
    // Nothing awaits under this lock.
    lanes: Mutex<HashMap<u64, Option<AbortHandle>>>,
    tasks: TaskTracker,
    runtime: Handle,
    closed: CancellationToken,
}

/// How long a server may take to take a message that wants no answer; what wants one has clocks of its own.
const TAKEN: Duration = Duration::from_secs(30);
/// How long the server may take to give a session back.
const LAST_REQUEST: Duration = Duration::from_secs(5);

// === impl HttpTransport ===

impl HttpTransport {
    /// A way to `url`.
    pub fn new(
        client: HttpClient,
        url: Url,
        headers: HeaderMap,
        credentials: Arc<dyn Credentials>,
        limits: Limits,
    ) -> Self {
        let target = Target::of(&url).ok();
        let mut headers = headers;
        // Headers are how people configure keys: none of them prints itself.
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        Self { endpoint: Arc::new(Endpoint { client, url, target, headers, credentials, limits }) }
    }
}

impl Transport for HttpTransport {
    fn target(&self) -> String {
        shown(&self.endpoint.url)
    }

    fn shape(&self) -> Shape {
        Shape::Http
    }

    fn open<'a>(&'a self, manner: Manner, sink: Arc<dyn Sink>) -> BoxFuture<'a, Result<Arc<dyn Link>, WireError>> {
        Box::pin(async move {
            if !matches!(self.endpoint.url.scheme(), "http" | "https") {
                let reason = format!("`{}` is neither http nor https", self.endpoint.url.scheme());
                return Err(WireError::Unreachable { target: self.target(), reason });
            }
            let session = match manner {
                Manner::EventStream => return event_stream::open(Arc::clone(&self.endpoint), sink).await,
                Manner::Session => Some(Session::default()),
                Manner::Stateless => None,
            };
            let shared = Shared {
                endpoint: Arc::clone(&self.endpoint),
                sink,
                session,
                lanes: Mutex::default(),
                tasks: TaskTracker::new(),
                runtime: Handle::current(),
                closed: CancellationToken::new(),
            };
            Ok(Arc::new(HttpLink { shared: Arc::new(shared) }) as Arc<dyn Link>)
        })
    }
}

// === impl HttpLink ===

impl Link for HttpLink {
    fn send(&self, outbound: Outbound) -> Result<(), WireError> {
        if self.shared.closed.is_cancelled() {
            return Err(WireError::Ended("closed by us".to_owned()));
        }
        // Requests are counted where they are made; what a server makes us say is counted here.
        let most = self.shared.endpoint.limits.concurrent_requests.saturating_mul(2);
        if outbound.request.is_none() && most <= self.shared.tasks.len() {
            return Err(WireError::Overloaded { limit: most });
        }
        let shared = Arc::clone(&self.shared);
        let request = outbound.request;
        let work = async move {
            let end = taken(request, shared.post(outbound)).await;
            shared.finish(request, end);
        };
        // The place is taken first, for the lane may be finished, or abandoned, before its task is known here.
        if let Some(request) = request {
            self.shared.lanes.lock().insert(request, None);
        }
        let task = self.shared.tasks.spawn_on(work, &self.shared.runtime).abort_handle();
        if let Some(request) = request {
            match self.shared.lanes.lock().get_mut(&request) {
                Some(place) => *place = Some(task),
                None => task.abort(),
            }
        }
        Ok(())
    }

    fn deliver(&self, outbound: Outbound) -> BoxFuture<'_, Result<(), WireError>> {
        Box::pin(async move {
            match self.shared.post(outbound).await {
                LaneEnd::Accepted | LaneEnd::Over => Ok(()),
                end => Err(super::handshake::lane_error(end)),
            }
        })
    }

    fn abandon(&self, request: u64) {
        let lane = self.shared.lanes.lock().remove(&request);
        if let Some(Some(task)) = lane {
            task.abort();
        }
    }

    fn settle(&self, revision: Revision) {
        if let Some(session) = &self.shared.session {
            session.settle(revision);
        }
    }

    fn stand(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(session) = &self.shared.session {
                session.stand(&self.shared).await;
            }
        })
    }

    fn session(&self) -> Option<String> {
        self.shared.session.as_ref().and_then(Session::id)
    }

    fn has_lost_session(&self) -> bool {
        self.shared.session.as_ref().is_some_and(Session::is_lost)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.closed.cancel();
            let lanes: Vec<AbortHandle> = self.shared.lanes.lock().drain().filter_map(|(_, lane)| lane).collect();
            lanes.iter().for_each(AbortHandle::abort);
            if let Some(session) = &self.shared.session {
                // A server that does not take its session back in time keeps it.
                drop(tokio::time::timeout(LAST_REQUEST, session.give_back(&self.shared.endpoint)).await);
            }
        })
    }
}

impl Shared {
    /// POSTs one message and reads its lane to the end.
    async fn post(self: &Arc<Self>, outbound: Outbound) -> LaneEnd {
        let mut headers = outbound.headers;
        headers.push((header::CONTENT_TYPE, HeaderValue::from_static("application/json")));
        headers.push((header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream")));
        let session = self.session.as_ref().and_then(|session| session.mark(&mut headers));
        let response = match self.endpoint.send(Method::POST, &headers, outbound.message).await {
            Ok(response) => response,
            Err(error) => return LaneEnd::Failed(error),
        };
        match outbound.request {
            None => lane::acknowledged(response, &self.endpoint.limits).await,
            Some(request) => self.read(request, session, response).await,
        }
    }

    async fn read(self: &Arc<Self>, request: u64, session: Option<String>, response: Reply) -> LaneEnd {
        match (&self.session, session) {
            (Some(own), Some(used)) if response.status() == http::StatusCode::NOT_FOUND => {
                return Box::pin(self.session_gone(own, &used, response)).await;
            }
            // Sent while the session was being lost, and refused for want of one.
            (Some(own), None) if own.is_lost() && response.status() == http::StatusCode::BAD_REQUEST => {
                return LaneEnd::SessionGone;
            }
            // Only a request without a session can bring one: the handshake.
            (Some(own), None) => own.learn(response.headers()),
            _ => {}
        }
        match lane::read(&*self.sink, Lane::Of(request), response, &self.endpoint.limits).await {
            lane::End::Lane(end) => end,
            lane::End::Broken(broken) => match &self.session {
                Some(own) => Box::pin(own.take_up(self, request, broken)).await,
                None => broken.for_good(),
            },
        }
    }

    /// A 404 means that the session is gone, unless it carries an answer of the server's own.
    async fn session_gone(&self, own: &Session, used: &str, response: Reply) -> LaneEnd {
        match lane::acknowledged(response, &self.endpoint.limits).await {
            LaneEnd::Status { body, .. } if method_not_found(&body) => {
                LaneEnd::Status { status: http::StatusCode::NOT_FOUND, body }
            }
            _ => {
                own.forget(used);
                LaneEnd::SessionGone
            }
        }
    }

    fn finish(&self, request: Option<u64>, end: LaneEnd) {
        let Some(request) = request else {
            if let LaneEnd::Failed(error) = end {
                tracing::debug!(%error, "a message did not reach the server");
            }
            return;
        };
        self.lanes.lock().remove(&request);
        self.sink.lane_ended(request, end);
    }
}

/// The end of a POST, within its time where nobody else has an eye on the clock.
async fn taken(request: Option<u64>, post: impl Future<Output = LaneEnd>) -> LaneEnd {
    if request.is_some() {
        return post.await;
    }
    let late = |_| LaneEnd::Failed(WireError::TimedOut { clock: Clock::Idle, limit: TAKEN });
    tokio::time::timeout(TAKEN, post).await.unwrap_or_else(late)
}

fn method_not_found(body: &bytes::Bytes) -> bool {
    super::handshake::json_rpc_error(body)
        .is_some_and(|error| error.code() == crate::message::RpcError::METHOD_NOT_FOUND)
}

impl Endpoint {
    /// Whether `other` is on the same origin.
    fn same_origin(&self, other: &Url) -> bool {
        self.url.origin() == other.origin()
    }
}

/// Adds the revision a session agreed on, where that revision wants it said.
fn mark_revision(headers: &mut Headers, revision: Option<Revision>) {
    if let Some(revision) = revision.filter(|revision| revision.has_version_header()) {
        headers.push((mcp::PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str())));
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.keys().map(http::HeaderName::as_str).collect();
        f.debug_struct("Endpoint").field("url", &shown(&self.url)).field("headers", &headers).finish_non_exhaustive()
    }
}

impl fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLink").field("url", &shown(&self.shared.endpoint.url)).finish_non_exhaustive()
    }
}
