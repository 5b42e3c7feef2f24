//! Credentials as a port: asked for headers before each request, told of each refusal.

use std::fmt;

use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use url::Url;

use super::client::shown;
use crate::error::WireError;

/// Knows what a server wants to see.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// Headers for this request.
    fn headers<'a>(
        &'a self,
        method: &'a Method,
        url: &'a Url,
    ) -> BoxFuture<'a, Result<Vec<(HeaderName, HeaderValue)>, WireError>>;

    /// The server refused; may be answered "again" once for each request.
    fn challenged(&self, challenge: Challenge) -> BoxFuture<'_, Next>;
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

/// People put keys into the query and before the host.
impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenge")
            .field("status", &self.status)
            .field("method", &self.method)
            .field("url", &shown(&self.url))
            .field("challenges", &self.challenges)
            .finish()
    }
}

/// What to do after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send it again with new headers.
    Again,
    /// Give up.
    GiveUp,
}

/// No credentials at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCredentials;

impl Credentials for NoCredentials {
    fn headers<'a>(
        &'a self,
        _method: &'a Method,
        _url: &'a Url,
    ) -> BoxFuture<'a, Result<Vec<(HeaderName, HeaderValue)>, WireError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn challenged(&self, _challenge: Challenge) -> BoxFuture<'_, Next> {
        Box::pin(async { Next::GiveUp })
    }
}
