//! Streamable HTTP transport: each message is a POST, each request has its own lane.
//!
//! Without a session, a lane is a POST and its response. With a session there are also the session id, a standing stream,
//! and resumable streams ([`session`]). HTTP+SSE is in [`event_stream`]. Active POSTs are tracked in [`lanes`], responses
//! are read in [`lane`], redirects and credentials are handled in [`request`].

mod event_stream;
mod lane;
mod lanes;
mod post_waker;
mod request;
mod session;

use std::{
    fmt,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue};
use tokio::{runtime::Handle, task::unconstrained};
use url::Url;

use self::{
    lanes::ActiveLanes,
    post_waker::PostWaker,
    request::{OutgoingHttp, SessionHeaders},
    session::UpstreamSession,
};
use super::{
    client::{HttpClient, HttpResponse, HttpTarget, display_url},
    credential::Credentials,
    transport::{HttpMode, Lane, LaneEnd, Link, LinkKind, Outbound, Sink, Transport},
};
use crate::{error::WireError, exchange::PendingIo, limit::Limits, revision::Revision};

/// Transport to a server over HTTP.
#[derive(Clone, Debug)]
pub struct HttpTransport {
    endpoint: Arc<Endpoint>,
}

/// URL, headers and credentials of a server.
pub(super) struct Endpoint {
    client: HttpClient,
    url: Url,
    /// Parsed URL; `None` if it is invalid for HTTP.
    target: Option<HttpTarget>,
    /// Sent with every request, as configured.
    headers: HeaderMap,
    credentials: Arc<dyn Credentials>,
    limits: Limits,
}

/// Link over Streamable HTTP.
struct HttpLink {
    shared: Arc<Shared>,
}

struct Shared {
    endpoint: Arc<Endpoint>,
    /// Session state; `None` in stateless mode.
    session: Option<UpstreamSession>,
    lanes: Arc<ActiveLanes>,
}

/// Requests up to this size, in bytes, are written directly to an idle connection.
const AT_ONCE: usize = 16 * 1024;
/// Timeout for deleting the session on close.
const LAST_REQUEST: Duration = Duration::from_secs(5);

// === impl HttpTransport ===

impl HttpTransport {
    /// Creates a transport to `url`.
    pub fn new(
        client: HttpClient,
        url: Url,
        headers: HeaderMap,
        credentials: Arc<dyn Credentials>,
        limits: Limits,
    ) -> Self {
        let target = client.target(&url).ok();
        let mut headers = headers;
        // Configured headers may contain keys; `Debug` must not print them.
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        Self { endpoint: Arc::new(Endpoint { client, url, target, headers, credentials, limits }) }
    }
}

impl Transport for HttpTransport {
    fn target(&self) -> String {
        display_url(&self.endpoint.url)
    }

    fn link_kind(&self) -> LinkKind {
        LinkKind::Http
    }

    fn open<'a>(&'a self, mode: HttpMode, sink: Arc<dyn Sink>) -> BoxFuture<'a, Result<Arc<dyn Link>, WireError>> {
        Box::pin(async move {
            if !matches!(self.endpoint.url.scheme(), "http" | "https") {
                let reason =
                    format!("`{}` is not a supported URL scheme; use `http` or `https`", self.endpoint.url.scheme());
                return Err(WireError::Unreachable { target: self.target(), reason });
            }
            let session = match mode {
                HttpMode::EventStream => return event_stream::open(Arc::clone(&self.endpoint), sink).await,
                HttpMode::Session => Some(UpstreamSession::default()),
                HttpMode::Stateless => None,
            };
            let lanes = ActiveLanes::new(sink, &self.endpoint.limits);
            let shared = Shared { endpoint: Arc::clone(&self.endpoint), session, lanes };
            Ok(Arc::new(HttpLink { shared: Arc::new(shared) }) as Arc<dyn Link>)
        })
    }
}

impl Endpoint {
    /// A message to send, charged to the byte budget until it is dropped, unless it is small.
    fn charged(&self, message: Bytes) -> Result<Bytes, WireError> {
        if message.len() <= AT_ONCE {
            return Ok(message);
        }
        let charge = self.limits.memory.charge(message.len())?;
        Ok(Arc::new(charge).attach(message))
    }
}

// === impl HttpLink ===

impl Link for HttpLink {
    fn send(&self, mut outbound: Outbound) -> Result<(), WireError> {
        outbound.message = self.shared.endpoint.charged(outbound.message)?;
        let (shared, request) = (Arc::clone(&self.shared), outbound.request);
        self.shared.lanes.begin(request, Box::pin(async move { Some(shared.post(outbound).await) }))
    }

    /// Writes a small request to an idle connection directly, and reads a single response body in the waiting task.
    /// Everything else gets its own task.
    fn start(&self, outbound: Outbound) -> Result<Option<PendingIo>, WireError> {
        let small = outbound.message.len() <= AT_ONCE && Handle::try_current().is_ok();
        let Some(request) = outbound.request.filter(|_| small) else {
            return self.send(outbound).map(|()| None);
        };
        self.shared.lanes.check()?;
        let (shared, post_waker) = (Arc::clone(&self.shared), Arc::new(PostWaker::default()));
        let mut lane = Box::pin({
            let post_waker = Arc::clone(&post_waker);
            async move {
                if let Some(end) = shared.post_in_place(request, outbound, &post_waker).await {
                    shared.lanes.sink().on_lane_end(request, end);
                }
            }
        });
        let waker = Waker::from(Arc::clone(&post_waker));
        // Written regardless of tokio's cooperative budget.
        match pin!(unconstrained(lane.as_mut())).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => Ok(None),
            Poll::Pending if post_waker.taken.load(Ordering::Relaxed) => {
                Ok(Some(PendingIo::started(lane, post_waker, waker)))
            }
            Poll::Pending => {
                post_waker.detached.store(true, Ordering::Relaxed);
                let lane = async move {
                    lane.await;
                    None
                };
                self.shared.lanes.begin(Some(request), Box::pin(lane)).map(|()| None)
            }
        }
    }

    fn deliver(&self, outbound: Outbound) -> BoxFuture<'_, Result<(), WireError>> {
        Box::pin(async move {
            match self.shared.post(outbound).await {
                LaneEnd::Accepted | LaneEnd::Over => Ok(()),
                end => Err(super::handshake::lane_error(end)),
            }
        })
    }

    fn marks_writes(&self) -> bool {
        true
    }

    fn abandon(&self, request: u64) {
        self.shared.lanes.abandon(request);
    }

    fn begin_handshake(&self) {
        if let Some(session) = &self.shared.session {
            session.begin_handshake();
        }
    }

    fn resume(&self, session: &str, revision: Revision) -> bool {
        let (Some(own), Ok(id)) = (&self.shared.session, HeaderValue::from_str(session)) else { return false };
        own.resume(id, revision);
        true
    }

    fn leave(&self) {
        if let Some(session) = &self.shared.session {
            session.leave();
        }
    }

    fn set_revision(&self, revision: Revision) {
        if let Some(session) = &self.shared.session {
            session.set_revision(revision);
        }
    }

    fn open_standing_stream(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(session) = &self.shared.session {
                session.open_standing_stream(&self.shared).await;
            }
        })
    }

    fn session(&self) -> Option<String> {
        self.shared.session.as_ref().and_then(UpstreamSession::id)
    }

    fn has_lost_session(&self) -> bool {
        self.shared.session.as_ref().is_some_and(UpstreamSession::is_lost)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.lanes.close();
            if let Some(session) = &self.shared.session {
                // After the timeout the session stays on the server.
                drop(tokio::time::timeout(LAST_REQUEST, session.delete(&self.shared.endpoint)).await);
            }
        })
    }
}

impl Shared {
    /// POSTs one message and reads its lane to the end.
    async fn post(self: &Arc<Self>, outbound: Outbound) -> LaneEnd {
        let session_headers = self.session_headers();
        let outgoing =
            OutgoingHttp::post(&outbound.headers, &session_headers, outbound.message).with_mark(outbound.mark.as_ref());
        let mut response = match self.endpoint.send(outgoing).await {
            Ok(response) => response,
            Err(error) => return LaneEnd::Failed(error),
        };
        match outbound.request {
            None => lane::read_acknowledgement(&mut response, &self.endpoint.limits).await,
            Some(request) => self.read(request, session_headers.session.as_ref(), &mut response).await,
        }
    }

    /// POSTs a request; a single response body is read here, any other lane continues in its own task.
    async fn post_in_place(
        self: &Arc<Self>,
        request: u64,
        outbound: Outbound,
        post_waker: &PostWaker,
    ) -> Option<LaneEnd> {
        let session_headers = self.session_headers();
        let outgoing = OutgoingHttp::post(&outbound.headers, &session_headers, outbound.message)
            .with_taken_flag(&post_waker.taken)
            .with_mark(outbound.mark.as_ref());
        let mut response = match self.endpoint.send(outgoing).await {
            Ok(response) => response,
            Err(error) => return Some(LaneEnd::Failed(error)),
        };
        // A lane with its own task is already registered and must not be started again.
        if post_waker.detached.load(Ordering::Relaxed) || lane::is_one_body(&response) {
            return Some(self.read(request, session_headers.session.as_ref(), &mut response).await);
        }
        let shared = Arc::clone(self);
        let rest = async move { Some(shared.read(request, session_headers.session.as_ref(), &mut response).await) };
        self.lanes.begin(Some(request), Box::pin(rest)).err().map(LaneEnd::Failed)
    }

    /// Session headers for the next POST.
    fn session_headers(&self) -> SessionHeaders {
        self.session.as_ref().map(UpstreamSession::session_headers).unwrap_or_default()
    }

    async fn read(
        self: &Arc<Self>,
        request: u64,
        session: Option<&HeaderValue>,
        response: &mut HttpResponse,
    ) -> LaneEnd {
        match (&self.session, session) {
            (Some(own), Some(used)) if response.status() == http::StatusCode::NOT_FOUND => {
                return Box::pin(self.session_gone(own, used, response)).await;
            }
            // Sent without a session id while the session was lost.
            (Some(own), None) if own.is_lost() && response.status() == http::StatusCode::BAD_REQUEST => {
                return LaneEnd::SessionGone;
            }
            // Only the handshake, which has no session id, can return one.
            (Some(own), None) => own.store_id(response.headers()),
            _ => {}
        }
        match lane::read(self.lanes.sink(), Lane::Of(request), response, &self.endpoint.limits).await {
            lane::LaneOutcome::Lane(end) => end,
            lane::LaneOutcome::Broken(broken) => match &self.session {
                Some(own) => {
                    response.close();
                    Box::pin(own.resume_stream(self, request, session, broken)).await
                }
                None => broken.into_lane_end(),
            },
        }
    }

    /// Handles a 404: the session is lost, unless the body is a JSON-RPC `method not found`.
    async fn session_gone(&self, own: &UpstreamSession, used: &HeaderValue, response: &mut HttpResponse) -> LaneEnd {
        match lane::read_acknowledgement(response, &self.endpoint.limits).await {
            LaneEnd::Status { body, .. } if method_not_found(&body) => {
                LaneEnd::Status { status: http::StatusCode::NOT_FOUND, body }
            }
            _ => {
                own.forget(used);
                LaneEnd::SessionGone
            }
        }
    }
}

fn method_not_found(body: &Bytes) -> bool {
    super::handshake::json_rpc_error(body)
        .is_some_and(|error| error.code() == crate::message::RpcError::METHOD_NOT_FOUND)
}

impl Endpoint {
    /// Whether `other` is on the same origin.
    fn same_origin(&self, other: &Url) -> bool {
        self.url.origin() == other.origin()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.keys().map(http::HeaderName::as_str).collect();
        f.debug_struct("Endpoint")
            .field("url", &display_url(&self.url))
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLink").field("url", &display_url(&self.shared.endpoint.url)).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use http::HeaderMap;

    use super::{AT_ONCE, HttpTransport};
    use crate::{
        budget::MemoryBudget,
        limit::Limits,
        up::{client::HttpClient, connector::HttpOptions, credential::NoCredentials},
    };

    #[test]
    fn large_message_is_charged_until_it_is_written() {
        let memory = MemoryBudget::new(4 * AT_ONCE);
        let limits = Limits { memory: memory.of_server("slow"), ..Limits::default() };
        let client = HttpClient::new(HttpOptions::default(), &limits);
        let url = "http://localhost/mcp".parse().unwrap();
        let endpoint = HttpTransport::new(client, url, HeaderMap::new(), Arc::new(NoCredentials), limits).endpoint;
        let message = |size: usize| Bytes::from(vec![b'x'; size]);
        let first = endpoint.charged(message(AT_ONCE + 1)).unwrap();
        let refused = endpoint.charged(message(AT_ONCE + 1)).unwrap_err();
        assert_eq!(refused.code(), "over_budget", "{refused}");
        let _small = endpoint.charged(message(AT_ONCE)).unwrap();
        assert_eq!(memory.used(), AT_ONCE + 1);
        drop(first);
        assert_eq!(memory.used(), 0);
    }
}
