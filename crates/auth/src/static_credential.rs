//! Credentials that somebody gave us: a token, a key or a password, sent with every request to one origin.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue, header::AUTHORIZATION};
use toolway_config::Secret;
use toolway_wire::{
    error::WireError,
    up::credential::{Challenge, Credentials, Next, Sending},
};
use url::{Origin, Url};

/// One header, sent to one origin. A server that refuses it is not asked again.
#[derive(Clone, Debug)]
pub struct Fixed {
    origin: Origin,
    name: HeaderName,
    value: HeaderValue,
}

/// What was given cannot be sent in a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what is configured for the header `{0}` cannot be sent in one")]
pub struct NoHeader(pub String);

impl Fixed {
    /// `Authorization: Bearer <token>`
    pub fn bearer(server: &Url, token: &Secret) -> Result<Self, NoHeader> {
        Self::new(server, AUTHORIZATION, &format!("Bearer {}", token.expose()))
    }

    /// `Authorization: Basic …`
    pub fn basic(server: &Url, username: &Secret, password: &Secret) -> Result<Self, NoHeader> {
        Self::new(server, AUTHORIZATION, &format!("Basic {}", basic(username, password).expose()))
    }

    /// A key in a header of this name.
    pub fn key(server: &Url, header: &str, key: &Secret) -> Result<Self, NoHeader> {
        let name = header.parse().map_err(|_| NoHeader(header.to_owned()))?;
        Self::new(server, name, key.expose())
    }

    fn new(server: &Url, name: HeaderName, value: &str) -> Result<Self, NoHeader> {
        let mut value = HeaderValue::from_str(value).map_err(|_| NoHeader(name.to_string()))?;
        value.set_sensitive(true);
        Ok(Self { origin: server.origin(), name, value })
    }
}

/// A name and a password as they are sent.
pub fn basic(username: &Secret, password: &Secret) -> Secret {
    Secret::new(STANDARD.encode(format!("{}:{}", username.expose(), password.expose())))
}

impl Credentials for Fixed {
    fn headers<'a>(&'a self, sending: Sending<'a>) -> BoxFuture<'a, Result<Vec<(HeaderName, HeaderValue)>, WireError>> {
        let is_theirs = sending.url.origin() == self.origin;
        let headers = is_theirs.then(|| (self.name.clone(), self.value.clone())).into_iter().collect();
        Box::pin(async { Ok(headers) })
    }

    fn challenged(&self, _challenge: Challenge) -> BoxFuture<'_, Next> {
        Box::pin(async { Next::GiveUp })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Method;
    use toolway_config::Secret;
    use toolway_wire::up::credential::{Credentials, Sending};
    use url::Url;

    use super::Fixed;

    async fn sent(fixed: &Fixed, url: &str) -> Vec<String> {
        let (url, body) = (Url::parse(url).unwrap(), Bytes::new());
        let sending = Sending { method: &Method::POST, url: &url, body: &body };
        let headers = fixed.headers(sending).await.unwrap();
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    #[tokio::test]
    async fn each_kind_is_sent_to_its_server_and_to_nobody_else() {
        let (server, secret) = (Url::parse("https://example.org/mcp").unwrap(), Secret::new);
        let bearer = Fixed::bearer(&server, &secret("t0k")).unwrap();
        assert_eq!(sent(&bearer, "https://example.org/mcp?x").await, ["authorization: Bearer t0k"]);
        assert!(sent(&bearer, "https://example.org:8443/mcp").await.is_empty(), "another port");
        assert!(sent(&bearer, "http://example.org/mcp").await.is_empty(), "another scheme");
        let basic = Fixed::basic(&server, &secret("ada"), &secret("s3cret")).unwrap();
        assert_eq!(sent(&basic, "https://example.org/").await, ["authorization: Basic YWRhOnMzY3JldA=="]);
        let key = Fixed::key(&server, "X-Api-Key", &secret("k")).unwrap();
        assert_eq!(sent(&key, "https://example.org/").await, ["x-api-key: k"]);
        assert!(!format!("{bearer:?} {basic:?} {key:?}").contains("t0k"));
        assert!(Fixed::bearer(&server, &secret("a\nb")).is_err());
    }
}
