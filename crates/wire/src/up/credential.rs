//! Credentials as a port: asked for headers before each request, told of each refusal.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use url::Url;

use super::client::display_url;
use crate::error::WireError;

/// Knows what a server wants to see.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// Headers for this request.
    fn headers<'a>(&'a self, sending: OutgoingRequest<'a>) -> BoxFuture<'a, Result<Vec<(HeaderName, HeaderValue)>, WireError>>;

    /// The server refused; may be answered "again" once for each kind of refusal of a request: a 401, a 403, and one
    /// that only a nonce was missing for.
    fn handle_challenge(&self, challenge: Challenge) -> BoxFuture<'_, ChallengeAction>;

    /// What is said in the place of a refusal that was given up, where it is not the server that has to be asked again.
    fn replacement_error(&self) -> Option<WireError> {
        None
    }

    /// The server answered with these headers; what it wants to see next may be among them.
    fn observe_response(&self, _url: &Url, _headers: &HeaderMap) {}
}

/// A request that is about to be sent.
#[derive(Clone, Copy)]
pub struct OutgoingRequest<'a> {
    /// What is asked.
    pub method: &'a Method,
    /// Where.
    pub url: &'a Url,
    /// What is sent with it.
    pub body: &'a Bytes,
}

/// People put keys into the query and before the host.
impl fmt::Debug for OutgoingRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, url, body } = self;
        f.debug_struct("OutgoingRequest").field("method", method).field("url", &display_url(url)).field("body", &body.len()).finish()
    }
}

/// A 401 or 403.
#[derive(Clone)]
pub struct Challenge {
    /// Which of the two.
    pub status: StatusCode,
    /// What was asked.
    pub method: Method,
    /// Where.
    pub url: Url,
    /// Each `WWW-Authenticate` header.
    pub challenges: Vec<String>,
    /// The `Authorization` header that was refused, where one was sent: another request may have got a better one since.
    pub presented: Option<HeaderValue>,
    /// The `DPoP-Nonce` that the next proof has to contain.
    pub nonce: Option<HeaderValue>,
}

impl Challenge {
    /// Whether it was refused for nothing but the nonce of its proof.
    pub fn wants_nonce(&self) -> bool {
        self.nonce.is_some() && self.challenges.iter().any(|challenge| challenge.contains("use_dpop_nonce"))
    }
}

/// People put keys into the query and before the host.
impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenge")
            .field("status", &self.status)
            .field("method", &self.method)
            .field("url", &display_url(&self.url))
            .field("challenges", &self.challenges)
            .finish()
    }
}

/// What to do after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeAction {
    /// Send it again with new headers.
    Retry,
    /// Give up.
    GiveUp,
}

/// Nothing to wait for: without size, a box of it is not on the heap.
struct NoHeaders;

impl Future for NoHeaders {
    type Output = Result<Vec<(HeaderName, HeaderValue)>, WireError>;

    fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(Vec::new()))
    }
}

/// No credentials at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCredentials;

impl Credentials for NoCredentials {
    fn headers<'a>(
        &'a self,
        _sending: OutgoingRequest<'a>,
    ) -> BoxFuture<'a, Result<Vec<(HeaderName, HeaderValue)>, WireError>> {
        Box::pin(NoHeaders)
    }

    fn handle_challenge(&self, _challenge: Challenge) -> BoxFuture<'_, ChallengeAction> {
        Box::pin(async { ChallengeAction::GiveUp })
    }
}
