//! The credentials port: supplies headers for each request and handles 401 and 403 responses.

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

/// Supplies the credentials of a server.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// Returns the headers for this request.
    fn headers<'a>(
        &'a self,
        request: OutgoingRequest<'a>,
    ) -> BoxFuture<'a, Result<Vec<(HeaderName, HeaderValue)>, WireError>>;

    /// Handles a refusal. A request is retried at most once for each kind of refusal: a 401, a 403, and a missing DPoP
    /// nonce.
    fn handle_challenge(&self, challenge: Challenge) -> BoxFuture<'_, ChallengeAction>;

    /// Error to report instead of the final refusal, if the cause is not the server but, for example, the authorization
    /// server. Called once for each final refusal.
    fn replacement_error(&self) -> Option<WireError> {
        None
    }

    /// Called with the headers of every response; they may contain the next DPoP nonce.
    fn observe_response(&self, _url: &Url, _headers: &HeaderMap) {}
}

/// An HTTP request that needs credentials.
#[derive(Clone, Copy)]
pub struct OutgoingRequest<'a> {
    /// HTTP method.
    pub method: &'a Method,
    /// Request URL.
    pub url: &'a Url,
    /// Request body.
    pub body: &'a Bytes,
}

/// Hides query and user info of the URL, which may contain secrets.
impl fmt::Debug for OutgoingRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, url, body } = self;
        f.debug_struct("OutgoingRequest")
            .field("method", method)
            .field("url", &display_url(url))
            .field("body", &body.len())
            .finish()
    }
}

/// A 401 or 403 response.
#[derive(Clone)]
pub struct Challenge {
    /// 401 or 403.
    pub status: StatusCode,
    /// HTTP method of the request.
    pub method: Method,
    /// Request URL.
    pub url: Url,
    /// Each `WWW-Authenticate` header.
    pub challenges: Vec<String>,
    /// The `Authorization` header that was refused, if one was sent; it may have been replaced since by another request.
    pub presented: Option<HeaderValue>,
    /// `DPoP-Nonce` for the next proof.
    pub nonce: Option<HeaderValue>,
}

impl Challenge {
    /// Whether only the DPoP nonce was missing or outdated.
    pub fn wants_nonce(&self) -> bool {
        self.nonce.is_some() && self.challenges.iter().any(|challenge| challenge.contains("use_dpop_nonce"))
    }
}

/// Hides query and user info of the URL, which may contain secrets.
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

/// What to do after a 401 or 403.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeAction {
    /// Send the request again with new headers.
    Retry,
    /// Report the refusal.
    GiveUp,
}

/// A future without headers; zero-sized, so that boxing it does not allocate.
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
        _request: OutgoingRequest<'a>,
    ) -> BoxFuture<'a, Result<Vec<(HeaderName, HeaderValue)>, WireError>> {
        Box::pin(NoHeaders)
    }

    fn handle_challenge(&self, _challenge: Challenge) -> BoxFuture<'_, ChallengeAction> {
        Box::pin(async { ChallengeAction::GiveUp })
    }
}
