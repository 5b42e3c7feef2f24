//! One request to a token endpoint: any grant, any way to say who the client is, one reply read within bounds.
//!
//! What is sent is secret, and so is what comes back; an error names the endpoint and what it said, and never a value
//! that was sent. The grants themselves are put together by their own files; how a reply becomes a credential is in
//! [`crate::credential`].

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
    scope::{BadScopes, Scopes},
};

/// A request for a token.
#[derive(Debug)]
pub struct TokenRequest<'a> {
    /// Where it goes.
    pub endpoint: &'a Url,
    /// Who asks.
    pub client: &'a ClientAuth,
    /// The grant and its parameters; one that is empty is left out.
    pub params: Vec<(&'static str, Secret)>,
    /// Proves that a key is ours, where the token is to be bound to it.
    pub prover: Option<&'a dyn Prover>,
}

/// How a client says who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// It does not: the grant says it all.
    Anonymous,
    /// By its id alone (`none`).
    Public {
        /// The client.
        id: String,
    },
    /// With a secret in a header (`client_secret_basic`).
    Basic {
        /// The client.
        id: String,
        /// Its secret.
        secret: Secret,
    },
    /// With a secret in the body (`client_secret_post`).
    Post {
        /// The client.
        id: String,
        /// Its secret.
        secret: Secret,
    },
    /// With a signed assertion (`private_key_jwt`), made for this request.
    Assertion {
        /// The client.
        id: String,
        /// The signed text.
        assertion: Secret,
    },
}

/// What a token endpoint gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenReply {
    /// The token.
    pub token: Secret,
    /// Its kind, as said: `Bearer`, `DPoP`, `N_A`.
    pub kind: String,
    /// How long it lasts from now, where said.
    pub lasts: Option<Duration>,
    /// What the next one is got with, where given.
    pub refresh: Option<Secret>,
    /// What it is good for, where that differs from what was asked for.
    pub scopes: Option<Scopes>,
    /// What sort of token a token exchange gave, where said.
    pub issued_kind: Option<String>,
    /// Who signed in, where said.
    pub id_token: Option<Secret>,
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The endpoint cannot be reached, or may not be.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// It said no.
    #[error("{endpoint} refuses: {code}{}", description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Refused {
        /// Who said it.
        endpoint: String,
        /// The word of the specification: `invalid_grant`, `invalid_client` …
        code: String,
        /// What it added, cut short.
        description: Option<String>,
    },
    /// What it said is not the reply of a token endpoint.
    #[error("{endpoint} gives no token: {problem}")]
    Malformed {
        /// Who said it.
        endpoint: String,
        /// What is wrong.
        problem: String,
    },
    /// No proof can be made.
    #[error(transparent)]
    Proof(#[from] ProofError),
}

/// A longer reply is no token.
pub const MAX_REPLY: usize = 256 * 1024;
/// What an endpoint says about a refusal is cut here.
const MAX_SAID: usize = 300;
/// A shorter text is not looked for in what an endpoint says.
const TELLING: usize = 6;
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

// === impl TokenRequest ===

impl TokenRequest<'_> {
    /// Sends it and reads the reply. Where a proof lacked a nonce, it is sent once more with a new one.
    pub async fn send(&self, fetch: &dyn Fetch) -> Result<TokenReply, TokenError> {
        match self.send_once(fetch).await {
            Err(TokenError::Refused { code, .. }) if code == "use_dpop_nonce" && self.prover.is_some() => {
                self.send_once(fetch).await
            }
            done => done,
        }
    }

    async fn send_once(&self, fetch: &dyn Fetch) -> Result<TokenReply, TokenError> {
        let response = fetch.fetch(self.http()?).await?;
        if let Some(prover) = self.prover {
            prover.heard(self.endpoint, response.headers());
        }
        self.read(&response)
    }

    fn http(&self) -> Result<Request<Bytes>, TokenError> {
        let mut request = Request::new(Bytes::from(self.body()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() =
            self.endpoint.as_str().parse().map_err(|_| self.malformed("its address cannot be carried by HTTP"))?;
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
            ClientAuth::Anonymous | ClientAuth::Basic { .. } => {}
            ClientAuth::Public { id } => {
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

    fn read(&self, response: &Response<Bytes>) -> Result<TokenReply, TokenError> {
        let body = response.body();
        if MAX_REPLY < body.len() {
            return Err(self.malformed(format!("it answers with more than {MAX_REPLY} bytes")));
        }
        if response.status() == StatusCode::OK {
            // The reader's own words could quote a token.
            let reply: Reply = serde_json::from_slice(body).map_err(|_| self.malformed("it answers something else"))?;
            return reply.checked().map_err(|problem| self.malformed(problem));
        }
        if let Some(unavailable) = FetchError::unavailable(self.endpoint, response.status()) {
            return Err(unavailable.into());
        }
        match serde_json::from_slice::<Refusal>(body) {
            Ok(refusal) if refusal.error == "temporarily_unavailable" => {
                let (target, status) = (address::shown(self.endpoint), response.status().as_u16());
                Err(FetchError::Unavailable { target, status }.into())
            }
            Ok(refusal) => Err(TokenError::Refused {
                endpoint: address::shown(self.endpoint),
                code: self.without_secrets(&refusal.error),
                description: refusal.error_description.map(|text| self.without_secrets(&text)),
            }),
            Err(_) => Err(self.malformed(format!("it answers with HTTP {}", response.status().as_u16()))),
        }
    }

    fn malformed(&self, problem: impl Into<String>) -> TokenError {
        TokenError::Malformed { endpoint: address::shown(self.endpoint), problem: problem.into() }
    }

    /// What an endpoint says, in one short line, without anything that was sent to it, in whichever spelling.
    fn without_secrets(&self, said: &str) -> String {
        let mut line: String = said.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        for secret in self.spellings().iter().filter(|secret| TELLING <= secret.len()) {
            line = line.replace(secret.as_str(), "[hidden]");
        }
        line.chars().take(MAX_SAID).collect::<String>().trim().to_owned()
    }

    /// Each secret that was sent, as it is and as it was encoded on its way.
    fn spellings(&self) -> Vec<String> {
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
    /// The client's id, where it has one.
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
    /// Whether it was refused with this word.
    pub fn is(&self, word: &str) -> bool {
        matches!(self, Self::Refused { code, .. } if code == word)
    }
}

#[derive(Deserialize)]
struct Reply {
    access_token: String,
    token_type: String,
    expires_in: Option<Seconds>,
    refresh_token: Option<String>,
    scope: Option<String>,
    issued_token_type: Option<String>,
    id_token: Option<String>,
}

/// Some servers write the number as a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seconds {
    Number(f64),
    Text(String),
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
    error_description: Option<String>,
}

impl Reply {
    fn checked(self) -> Result<TokenReply, String> {
        let fits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !fits(&self.access_token) || !fits(&self.token_type) {
            return Err("the token has letters that a header cannot carry".to_owned());
        }
        let scopes = self.scope.as_deref().map(Scopes::parse).transpose().map_err(|bad: BadScopes| bad.to_string())?;
        let secret = |text: Option<String>| text.filter(|text| !text.is_empty()).map(Secret::new);
        Ok(TokenReply {
            token: Secret::new(self.access_token),
            kind: self.token_type,
            lasts: self.expires_in.and_then(Seconds::whole),
            refresh: secret(self.refresh_token),
            scopes: scopes.filter(|scopes| !scopes.is_empty()),
            issued_kind: self.issued_token_type,
            id_token: secret(self.id_token),
        })
    }
}

impl Seconds {
    /// None where it says nothing sensible.
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
