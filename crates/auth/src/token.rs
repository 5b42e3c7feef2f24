//! One request to a token endpoint: any grant, any client authentication, one bounded response.
//!
//! Request and response are secret; errors name the endpoint and its error texts, but never a value that was sent. The
//! grants are built by their own modules; [`crate::credential`] converts responses into credentials.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use serde::Deserialize;
use toolway_config::Secret;
use url::{Url, form_urlencoded};

use crate::{
    address,
    fetch::{Fetch, FetchError},
    proof::{DPOP, ProofError, Prover},
    scope::{InvalidScopes, Scopes},
};

/// A token request.
#[derive(Debug)]
pub struct TokenRequest<'a> {
    /// Token endpoint.
    pub endpoint: &'a Url,
    /// Client authentication.
    pub client: &'a ClientAuth,
    /// Grant and its parameters; empty ones are omitted.
    pub params: Vec<(&'static str, Secret)>,
    /// DPoP key to bind the token to.
    pub prover: Option<&'a dyn Prover>,
}

/// Client authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// None: the grant identifies the client.
    Anonymous,
    /// Client id only (`none`).
    Public {
        /// Client id.
        id: String,
    },
    /// Secret in a header (`client_secret_basic`).
    Basic {
        /// Client id.
        id: String,
        /// Client secret.
        secret: Secret,
    },
    /// Secret in the body (`client_secret_post`).
    Post {
        /// Client id.
        id: String,
        /// Client secret.
        secret: Secret,
    },
    /// Signed assertion (`private_key_jwt`), created for this request.
    Assertion {
        /// Client id.
        id: String,
        /// Signed JWT.
        assertion: Secret,
    },
}

/// Response of a token endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenResponse {
    /// Access token.
    pub token: Secret,
    /// Token type, as written: `Bearer`, `DPoP`, `N_A`.
    pub kind: String,
    /// Lifetime from now, if stated.
    pub expires_in: Option<Duration>,
    /// Refresh token, if issued.
    pub refresh: Option<Secret>,
    /// Granted scopes, if they differ from the requested ones.
    pub scopes: Option<Scopes>,
    /// `issued_token_type` of a token exchange, if stated.
    pub issued_kind: Option<String>,
    /// ID token, if issued.
    pub id_token: Option<Secret>,
}

/// Why a token request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The request failed or was refused by the dialer.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The token endpoint returned an error.
    #[error(
        "token request to `{endpoint}` refused: `{code}`{}",
        description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default()
    )]
    Refused {
        /// Token endpoint.
        endpoint: String,
        /// Error code of the specification: `invalid_grant`, `invalid_client` …
        code: String,
        /// Error description, truncated and without secrets.
        description: Option<String>,
    },
    /// The response is not a token response.
    #[error("invalid token response from `{endpoint}`: {problem}")]
    Malformed {
        /// Token endpoint.
        endpoint: String,
        /// What is wrong.
        problem: String,
    },
    /// The DPoP proof cannot be created.
    #[error(transparent)]
    Proof(#[from] ProofError),
}

/// Maximum length of a token response in bytes.
pub const MAX_REPLY: usize = 256 * 1024;
/// Remote error texts are truncated to this many characters.
const MAX_REMOTE_TEXT: usize = 300;
/// Sent values shorter than this are not redacted in error texts.
const MIN_REDACTED_LENGTH: usize = 6;
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

// === impl TokenRequest ===

impl TokenRequest<'_> {
    /// Sends the request and parses the response. If the server requires a DPoP nonce, it is sent once more.
    pub async fn send(&self, fetch: &dyn Fetch) -> Result<TokenResponse, TokenError> {
        match self.send_once(fetch).await {
            Err(TokenError::Refused { code, .. }) if code == "use_dpop_nonce" && self.prover.is_some() => {
                self.send_once(fetch).await
            }
            done => done,
        }
    }

    async fn send_once(&self, fetch: &dyn Fetch) -> Result<TokenResponse, TokenError> {
        let response = fetch.fetch(self.http()?).await?;
        if let Some(prover) = self.prover {
            prover.record_nonce(self.endpoint, response.headers());
        }
        self.read(&response)
    }

    fn http(&self) -> Result<Request<Bytes>, TokenError> {
        let mut request = Request::new(Bytes::from(self.body()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.as_str().parse().map_err(|_| self.malformed("the URL is invalid"))?;
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let ClientAuth::Basic { id, secret } = self.client {
            headers.insert(header::AUTHORIZATION, basic(id, secret));
        }
        if let Some(prover) = self.prover {
            headers.insert(DPOP, prover.proof(&Method::POST, self.endpoint, None)?);
        }
        Ok(request)
    }

    fn body(&self) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        let params = self.params.iter().map(|(name, value)| (*name, value.expose()));
        form.extend_pairs(params.filter(|(_, value)| !value.is_empty()));
        match self.client {
            ClientAuth::Anonymous => {}
            // With `client_secret_basic` the body may name the client too (RFC 6749, 3.2.1), and the authorization
            // servers of the Python SDK and FastMCP require it.
            ClientAuth::Public { id } | ClientAuth::Basic { id, .. } => {
                form.append_pair("client_id", id);
            }
            ClientAuth::Post { id, secret } => {
                form.append_pair("client_id", id).append_pair("client_secret", secret.expose());
            }
            ClientAuth::Assertion { id, assertion } => {
                form.append_pair("client_id", id)
                    .append_pair("client_assertion_type", ASSERTION_TYPE)
                    .append_pair("client_assertion", assertion.expose());
            }
        }
        form.finish()
    }

    fn read(&self, response: &Response<Bytes>) -> Result<TokenResponse, TokenError> {
        let body = response.body();
        if MAX_REPLY < body.len() {
            return Err(self.malformed(format!("the response exceeds {MAX_REPLY} bytes")));
        }
        if response.status() == StatusCode::OK {
            // The parser's message could quote a token.
            let reply: TokenBody =
                serde_json::from_slice(body).map_err(|_| self.malformed("it is not a token response"))?;
            return reply.checked().map_err(|problem| self.malformed(problem));
        }
        if let Some(unavailable) = FetchError::unavailable(self.endpoint, response.status()) {
            return Err(unavailable.into());
        }
        match serde_json::from_slice::<TokenRefusal>(body) {
            Ok(refusal) if refusal.error == "temporarily_unavailable" => {
                let (target, status) = (address::redacted(self.endpoint), response.status().as_u16());
                Err(FetchError::Unavailable { target, status }.into())
            }
            Ok(refusal) => Err(TokenError::Refused {
                endpoint: address::redacted(self.endpoint),
                code: self.redact(&refusal.error),
                description: refusal.error_description.map(|text| self.redact(&text)),
            }),
            Err(_) => Err(self.malformed(format!("HTTP {}", response.status().as_u16()))),
        }
    }

    fn malformed(&self, problem: impl Into<String>) -> TokenError {
        TokenError::Malformed { endpoint: address::redacted(self.endpoint), problem: problem.into() }
    }

    /// Removes control characters and all values that were sent, in any encoding, and truncates the text.
    fn redact(&self, said: &str) -> String {
        let mut line: String = said.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        for secret in self.sent_secrets().iter().filter(|secret| MIN_REDACTED_LENGTH <= secret.len()) {
            line = line.replace(secret.as_str(), "[hidden]");
        }
        line.chars().take(MAX_REMOTE_TEXT).collect::<String>().trim().to_owned()
    }

    /// Each secret that was sent, plain and encoded.
    fn sent_secrets(&self) -> Vec<String> {
        let (client, pair) = match self.client {
            ClientAuth::Basic { id, secret } => (Some(secret), Some(basic_pair(id, secret))),
            ClientAuth::Post { secret, .. } => (Some(secret), None),
            ClientAuth::Assertion { assertion, .. } => (Some(assertion), None),
            ClientAuth::Anonymous | ClientAuth::Public { .. } => (None, None),
        };
        let open = ["grant_type", "resource", "scope", "redirect_uri", "audience"];
        let sent = self.params.iter().filter(|(name, _)| !open.contains(name)).map(|(_, value)| value).chain(client);
        sent.map(Secret::expose).flat_map(|secret| [secret.to_owned(), form_encoded(secret)]).chain(pair).collect()
    }
}

fn form_encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// RFC 6749, 2.3.1: both are form-encoded before they are joined.
fn basic_pair(id: &str, secret: &Secret) -> String {
    STANDARD.encode(format!("{}:{}", form_encoded(id), form_encoded(secret.expose())))
}

fn basic(id: &str, secret: &Secret) -> HeaderValue {
    let pair = basic_pair(id, secret);
    let mut value =
        HeaderValue::from_str(&format!("Basic {pair}")).unwrap_or_else(|_| HeaderValue::from_static("Basic"));
    value.set_sensitive(true);
    value
}

// === impl ClientAuth ===

impl ClientAuth {
    /// Client id, if there is one.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Anonymous => None,
            Self::Public { id } | Self::Basic { id, .. } | Self::Post { id, .. } | Self::Assertion { id, .. } => {
                Some(id)
            }
        }
    }
}

// === impl TokenError ===

impl TokenError {
    /// Whether the token endpoint refused the request with this error code.
    pub fn has_code(&self, expected: &str) -> bool {
        matches!(self, Self::Refused { code, .. } if code == expected)
    }
}

#[derive(Deserialize)]
struct TokenBody {
    access_token: String,
    token_type: String,
    expires_in: Option<Seconds>,
    refresh_token: Option<String>,
    scope: Option<String>,
    issued_token_type: Option<String>,
    id_token: Option<String>,
}

/// Some servers send the number as a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seconds {
    Number(f64),
    Text(String),
}

#[derive(Deserialize)]
struct TokenRefusal {
    error: String,
    error_description: Option<String>,
}

impl TokenBody {
    fn checked(self) -> Result<TokenResponse, String> {
        let fits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !fits(&self.access_token) || !fits(&self.token_type) {
            return Err("the token contains characters that are not valid in a header".to_owned());
        }
        let scopes =
            self.scope.as_deref().map(Scopes::parse).transpose().map_err(|bad: InvalidScopes| bad.to_string())?;
        let secret = |text: Option<String>| text.filter(|text| !text.is_empty()).map(Secret::new);
        Ok(TokenResponse {
            token: Secret::new(self.access_token),
            kind: self.token_type,
            expires_in: self.expires_in.and_then(Seconds::whole),
            refresh: secret(self.refresh_token),
            scopes: scopes.filter(|scopes| !scopes.is_empty()),
            issued_kind: self.issued_token_type,
            id_token: secret(self.id_token),
        })
    }
}

impl Seconds {
    /// Returns `None` for negative and invalid values.
    fn whole(self) -> Option<Duration> {
        let seconds = match self {
            Self::Number(seconds) => seconds,
            Self::Text(text) => text.parse().ok()?,
        };
        Duration::try_from_secs_f64(seconds).ok()
    }
}

#[cfg(test)]
mod tests;
