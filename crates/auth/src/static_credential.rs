//! Credentials from the configuration: a token, a key or a password, sent with every request to one origin.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue, header::AUTHORIZATION};
use toolway_config::Secret;
use toolway_wire::{
    error::WireError,
    up::credential::{Challenge, ChallengeAction, Credentials, OutgoingRequest},
};
use url::{Origin, Url};

/// One header, sent to one origin. It is not retried after a refusal.
#[derive(Clone, Debug)]
pub struct StaticCredential {
    origin: Origin,
    name: HeaderName,
    value: HeaderValue,
}

/// The configured value is not valid in a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value or name of the header `{0}` is not valid in HTTP")]
pub struct InvalidHeader(pub String);

impl StaticCredential {
    /// `Authorization: Bearer <token>`
    pub fn bearer(server: &Url, token: &Secret) -> Result<Self, InvalidHeader> {
        Self::new(server, AUTHORIZATION, &format!("Bearer {}", token.expose()))
    }

    /// `Authorization: Basic …`
    pub fn basic(server: &Url, username: &Secret, password: &Secret) -> Result<Self, InvalidHeader> {
        Self::new(server, AUTHORIZATION, &format!("Basic {}", basic(username, password).expose()))
    }

    /// A key in a header with this name.
    pub fn key(server: &Url, header: &str, key: &Secret) -> Result<Self, InvalidHeader> {
        let name = header.parse().map_err(|_| InvalidHeader(header.to_owned()))?;
        Self::new(server, name, key.expose())
    }

    fn new(server: &Url, name: HeaderName, value: &str) -> Result<Self, InvalidHeader> {
        let mut value = HeaderValue::from_str(value).map_err(|_| InvalidHeader(name.to_string()))?;
        value.set_sensitive(true);
        Ok(Self { origin: server.origin(), name, value })
    }
}

/// User name and password in base64.
pub fn basic(username: &Secret, password: &Secret) -> Secret {
    Secret::new(STANDARD.encode(format!("{}:{}", username.expose(), password.expose())))
}

impl Credentials for StaticCredential {
    fn headers<'a>(
        &'a self,
        sending: OutgoingRequest<'a>,
    ) -> BoxFuture<'a, Result<Vec<(HeaderName, HeaderValue)>, WireError>> {
        let is_theirs = sending.url.origin() == self.origin;
        let headers = is_theirs.then(|| (self.name.clone(), self.value.clone())).into_iter().collect();
        Box::pin(async { Ok(headers) })
    }

    fn handle_challenge(&self, _challenge: Challenge) -> BoxFuture<'_, ChallengeAction> {
        Box::pin(async { ChallengeAction::GiveUp })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Method;
    use toolway_config::Secret;
    use toolway_wire::up::credential::{Credentials, OutgoingRequest};
    use url::Url;

    use super::StaticCredential;

    async fn sent_headers(fixed: &StaticCredential, url: &str) -> Vec<String> {
        let (url, body) = (Url::parse(url).unwrap(), Bytes::new());
        let sending = OutgoingRequest { method: &Method::POST, url: &url, body: &body };
        let headers = fixed.headers(sending).await.unwrap();
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    #[tokio::test]
    async fn each_kind_is_sent_to_its_own_origin_only() {
        let (server, secret) = (Url::parse("https://example.org/mcp").unwrap(), Secret::new);
        let bearer = StaticCredential::bearer(&server, &secret("t0k")).unwrap();
        assert_eq!(sent_headers(&bearer, "https://example.org/mcp?x").await, ["authorization: Bearer t0k"]);
        assert!(sent_headers(&bearer, "https://example.org:8443/mcp").await.is_empty(), "another port");
        assert!(sent_headers(&bearer, "http://example.org/mcp").await.is_empty(), "another scheme");
        let basic = StaticCredential::basic(&server, &secret("ada"), &secret("s3cret")).unwrap();
        assert_eq!(sent_headers(&basic, "https://example.org/").await, ["authorization: Basic YWRhOnMzY3JldA=="]);
        let key = StaticCredential::key(&server, "X-Api-Key", &secret("k")).unwrap();
        assert_eq!(sent_headers(&key, "https://example.org/").await, ["x-api-key: k"]);
        assert!(!format!("{bearer:?} {basic:?} {key:?}").contains("t0k"));
        assert!(StaticCredential::bearer(&server, &secret("a\nb")).is_err());
    }
}
