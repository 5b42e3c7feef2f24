//! A client that the operator registered, and how it authenticates.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolway_config::Secret;

use super::GrantError;
use crate::{
    address,
    credential::now,
    jwt::{self, Algorithm, Header, SigningKey},
    metadata::ServerMetadata,
    token::ClientAuth,
};

/// A client of an authorization server.
#[derive(Clone, Debug)]
pub struct Client {
    /// Client id.
    pub id: String,
    /// How the client authenticates.
    pub proof: ClientProof,
}

/// How a client authenticates.
#[derive(Clone, Debug)]
pub enum ClientProof {
    /// Public client without a secret.
    None,
    /// Secret in a header or in the body, whichever the authorization server accepts.
    Secret(Secret),
    /// Signed assertion (`private_key_jwt`).
    Key {
        /// Private key.
        key: Arc<SigningKey>,
        /// Signature algorithm; `None` selects one that both sides support.
        algorithm: Option<Algorithm>,
    },
}

/// Lists of an authorization server are truncated to this many characters in messages.
const MAX_SHOWN: usize = 200;
/// Lifetime of an assertion in seconds: one request, with tolerance for clock differences.
const ASSERTION_LIFETIME: u64 = 120;

impl Client {
    /// A public client.
    pub fn public(id: impl Into<String>) -> Self {
        Self { id: id.into(), proof: ClientProof::None }
    }

    /// A client with a secret.
    pub fn with_secret(id: impl Into<String>, secret: Secret) -> Self {
        Self { id: id.into(), proof: ClientProof::Secret(secret) }
    }

    /// A client with a private key in PEM.
    pub fn with_key(id: impl Into<String>, pem: &Secret, algorithm: Option<Algorithm>) -> Result<Self, GrantError> {
        let key = Arc::new(SigningKey::from_pem(pem)?);
        // Reports a mismatch before any request is sent.
        key.choose(algorithm, &[])?;
        Ok(Self { id: id.into(), proof: ClientProof::Key { key, algorithm } })
    }

    /// Client authentication in a method that this authorization server accepts.
    pub(super) fn auth(&self, server: &ServerMetadata) -> Result<ClientAuth, GrantError> {
        let id = self.id.clone();
        let takes = |method: &str| server.auth_methods.as_ref().is_none_or(|all| all.iter().any(|one| one == method));
        match &self.proof {
            ClientProof::None if takes("none") => Ok(ClientAuth::Public { id }),
            ClientProof::None => Err(no_method(server, "no secret")),
            ClientProof::Secret(secret) if takes("client_secret_basic") => {
                Ok(ClientAuth::Basic { id, secret: secret.clone() })
            }
            ClientProof::Secret(secret) if takes("client_secret_post") => {
                Ok(ClientAuth::Post { id, secret: secret.clone() })
            }
            ClientProof::Secret(_) => Err(no_method(server, "a secret")),
            ClientProof::Key { key, algorithm } if takes("private_key_jwt") => {
                let algorithm = key.choose(*algorithm, server.auth_algorithms.as_deref().unwrap_or_default())?;
                Ok(ClientAuth::Assertion { assertion: self.assertion(key, algorithm, &server.issuer)?, id })
            }
            ClientProof::Key { .. } => Err(no_method(server, "a private key")),
        }
    }

    /// A new assertion for each request and for this authorization server only.
    fn assertion(&self, key: &SigningKey, algorithm: Algorithm, issuer: &str) -> Result<Secret, GrantError> {
        let mut claims = Map::new();
        let mut claim = |name: &str, value: Value| claims.insert(name.to_owned(), value);
        claim("iss", self.id.as_str().into());
        claim("sub", self.id.as_str().into());
        claim("aud", issuer.into());
        claim("iat", now().into());
        claim("exp", (now() + ASSERTION_LIFETIME).into());
        claim("jti", jwt::fresh_id()?.into());
        Ok(jwt::sign(key, algorithm, &Header { kind: Some("JWT"), ..Header::default() }, &claims)?)
    }
}

fn no_method(server: &ServerMetadata, own: &'static str) -> GrantError {
    let taken = server.auth_methods.as_deref().unwrap_or_default();
    let taken = taken.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(" or ");
    let taken = address::sanitize(&taken, MAX_SHOWN);
    GrantError::NoMethod { issuer: server.issuer.clone(), taken, own }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use serde_json::{Value, json};
    use toolway_config::Secret;

    use super::{Client, now};
    use crate::{
        grant::{
            Grant, GrantError,
            tests::{login, remote, request_token},
        },
        jwt::{Algorithm, tests::P256},
        metadata::ServerMetadata,
    };

    fn taking(methods: &[&str], algorithms: &[&str]) -> ServerMetadata {
        let owned = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect());
        ServerMetadata { auth_methods: owned(methods), auth_algorithms: owned(algorithms), ..login() }
    }

    #[tokio::test]
    async fn secret_is_sent_with_an_accepted_method() {
        let remote = remote();
        let client = Client::with_secret("me", Secret::new("s3cret-word"));
        let grant = Grant::ClientCredentials(client);
        request_token(&grant, &remote, &taking(&["client_secret_post"], &[])).await.unwrap();
        assert_eq!(remote.field(0, "client_secret").as_deref(), Some("s3cret-word"));
        let refused = request_token(&grant, &remote, &taking(&["private_key_jwt", "none"], &[])).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "`https://login.example` accepts client authentication with private_key_jwt or none, but the client is \
             configured with a secret"
        );
        assert_eq!(remote.urls().len(), 1, "nothing was sent there");
    }

    #[tokio::test]
    async fn assertion_is_for_the_issuer_and_new_each_time() {
        let remote = remote();
        let client = Client::with_key("me", &Secret::new(P256), None).unwrap();
        let grant = Grant::ClientCredentials(client);
        let server = taking(&["private_key_jwt"], &["RS256", "ES256"]);
        for _ in 0..2 {
            request_token(&grant, &remote, &server).await.unwrap();
        }
        let claims = |place| -> Value {
            let assertion = remote.field(place, "client_assertion").unwrap();
            let claims = URL_SAFE_NO_PAD.decode(assertion.split('.').nth(1).unwrap()).unwrap();
            serde_json::from_slice(&claims).unwrap()
        };
        let (first, second) = (claims(0), claims(1));
        assert_eq!(
            (&first["iss"], &first["sub"], &first["aud"]),
            (&json!("me"), &json!("me"), &json!("https://login.example"))
        );
        let left = first["exp"].as_u64().unwrap() - now();
        assert!((60..=300).contains(&left), "{left}");
        assert_ne!(first["jti"], second["jti"]);
    }

    #[tokio::test]
    async fn key_mismatch_is_reported_before_anything_is_sent() {
        let (remote, key) = (remote(), Secret::new(P256));
        assert!(matches!(Client::with_key("me", &key, Some(Algorithm::Rs256)), Err(GrantError::Key(_))));
        let grant = Grant::ClientCredentials(Client::with_key("me", &key, None).unwrap());
        let refused = request_token(&grant, &remote, &taking(&["private_key_jwt"], &["RS256"])).await.unwrap_err();
        assert_eq!(refused.to_string(), "the private key signs with ES256, not with RS256");
        assert!(remote.urls().is_empty());
    }
}
