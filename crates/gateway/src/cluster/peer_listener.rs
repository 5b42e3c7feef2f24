//! The listener for other gateways: what one of them forwards for a client, to the process that holds the call or the
//! connection.
//!
//! A request is read only after its sender has proven the key of the cluster ([`toolway_wire::peer`]). It names the member
//! that it is for; another generation refuses it instead of forwarding it, so that there is one hop at most: what arrives
//! here reaches a [`PeerService`], which answers from this process.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use toolway_host::cluster::Member;
use toolway_wire::{
    down::http::{BodyError, Incoming, PEER_PRINCIPAL, PeerConnection, Responder, ResponseBody, read_body},
    limit::Limits,
};

use super::forwarded_request::{ForwardedRequest, PATH};
use crate::{access::Unauthenticated, reply};

/// What other gateways may ask of this process.
pub trait PeerService: Send + Sync + 'static {
    /// The member that this process is now; `None` while it has none.
    fn member(&self) -> Option<Member>;

    /// Whether the client has the key that the head names, by the keys of this process.
    fn knows(&self, head: &ForwardedRequest) -> bool;

    /// Answers a request from this process. It checks the client's key itself, and forwards nothing.
    fn answer(&self, request: ForwardedRequest) -> BoxFuture<'_, Response<ResponseBody>>;
}

/// Listens for other gateways.
pub struct PeerListener {
    service: Arc<dyn PeerService>,
    limits: Limits,
}

/// Why a request of another gateway is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum PeerRefusal {
    #[error("not found")]
    NotFound,
    #[error("the head of a forwarded request is incomplete or invalid")]
    InvalidHead,
    #[error("this process is not the member that the request is for")]
    AnotherMember,
    #[error(transparent)]
    UnknownClient(Unauthenticated),
    #[error("too many connections of other gateways")]
    TooManyConnections,
    #[error("the forwarded request is too large")]
    TooLarge,
    #[error("the forwarded request was not received in time or is incomplete")]
    Incomplete,
    #[error("no memory is left for the forwarded request")]
    NoMemory,
}

/// Header of a response that refuses a request before the client's part of it was looked at.
pub(super) const REFUSED: HeaderName = HeaderName::from_static("toolway-refused");
/// Maximum time for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

impl PeerListener {
    /// Answers with this service, within these limits.
    pub fn new(service: Arc<dyn PeerService>, limits: Limits) -> Arc<Self> {
        Arc::new(Self { service, limits })
    }

    async fn receive(&self, request: Request<Incoming>) -> Result<ForwardedRequest, PeerRefusal> {
        if request.uri().path() != PATH || request.method() != Method::POST {
            return Err(PeerRefusal::NotFound);
        }
        // Before the body: it may be large, and is of no use to another member.
        let head = ForwardedRequest::from_headers(request.headers()).ok_or(PeerRefusal::InvalidHead)?;
        if self.service.member() != Some(head.to) {
            return Err(PeerRefusal::AnotherMember);
        }
        if !self.service.knows(&head) {
            return Err(PeerRefusal::UnknownClient(Unauthenticated));
        }
        let memory = self.limits.memory.of_principal(&head.caller);
        let body = read_body(request.into_body(), self.limits.request_body_bytes, &memory);
        let body = tokio::time::timeout(BODY_TIMEOUT, body).await.map_err(|_| PeerRefusal::Incomplete)?;
        let body = body.map_err(|error| match error {
            BodyError::TooLarge => PeerRefusal::TooLarge,
            BodyError::OverBudget(_) => PeerRefusal::NoMemory,
            BodyError::Incomplete => PeerRefusal::Incomplete,
        })?;
        Ok(ForwardedRequest { body, ..head })
    }
}

impl Responder for PeerListener {
    fn respond<'a>(
        &'a self,
        request: Request<Incoming>,
        connection: &'a PeerConnection,
    ) -> BoxFuture<'a, Response<ResponseBody>> {
        Box::pin(async move {
            // Proven by the handshake, after which it was not counted if there were too many.
            if connection.authenticated(&Arc::from(PEER_PRINCIPAL)).is_err() {
                return PeerRefusal::TooManyConnections.response();
            }
            match self.receive(request).await {
                Ok(request) => self.service.answer(request).await,
                Err(refusal) => {
                    tracing::warn!(peer = %connection.peer(), %refusal, "refused a request of another gateway");
                    refusal.response()
                }
            }
        })
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn finish(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

// === impl PeerRefusal ===

impl PeerRefusal {
    fn status(self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::InvalidHead | Self::Incomplete => StatusCode::BAD_REQUEST,
            Self::UnknownClient(_) => StatusCode::UNAUTHORIZED,
            Self::AnotherMember => StatusCode::MISDIRECTED_REQUEST,
            Self::TooManyConnections => StatusCode::TOO_MANY_REQUESTS,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoMemory => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn response(self) -> Response<ResponseBody> {
        if let Self::UnknownClient(problem) = self {
            return reply::unauthorized(problem.to_string());
        }
        let mut response = Response::new(ResponseBody::whole(Bytes::from(self.to_string())));
        *response.status_mut() = self.status();
        response.headers_mut().insert(REFUSED, HeaderValue::from_static("1"));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        response
    }
}

impl std::fmt::Debug for PeerListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PeerListener(..)")
    }
}
