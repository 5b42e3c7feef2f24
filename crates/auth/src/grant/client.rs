//! A client that the operator registered, and how it says who it is.

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
    /// Its id.
    pub id: String,
    /// How it shows that it is the one.
    pub proof: ClientProof,
}

/// How a client shows that it is the one.
#[derive(Clone, Debug)]
pub enum ClientProof {
    /// It does not.
    None,
    /// With a secret, in a header or in the body, as the authorization server takes it.
    Secret(Secret),
    /// With a signature (`private_key_jwt`).
    Key {
        /// The private key.
        key: Arc<SigningKey>,
        /// How it signs; what both sides know where it is not said.
        algorithm: Option<Algorithm>,
    },
}

/// What an authorization server lists is cut here in messages.
const MAX_SHOWN: usize = 200;
/// An assertion is good for one request, and for the clocks to differ.
const LASTS: u64 = 120;

impl Client {
    /// One that has only an id.
    pub fn public(id: impl Into<String>) -> Self {
        Self { id: id.into(), proof: ClientProof::None }
    }

    /// One with a secret.
    pub fn with_secret(id: impl Into<String>, secret: Secret) -> Self {
        Self { id: id.into(), proof: ClientProof::Secret(secret) }
    }

    /// One with a private key, as PEM.
    pub fn with_key(id: impl Into<String>, pem: &Secret, algorithm: Option<Algorithm>) -> Result<Self, GrantError> {
        let key = Arc::new(SigningKey::from_pem(pem)?);
        // Said before anybody is asked.
        key.choose(algorithm, &[])?;
        Ok(Self { id: id.into(), proof: ClientProof::Key { key, algorithm } })
    }

    /// Who it is, said in a way that this authorization server takes.
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

    /// A new one for each request, for this authorization server and no other.
    fn assertion(&self, key: &SigningKey, algorithm: Algorithm, issuer: &str) -> Result<Secret, GrantError> {
        let mut claims = Map::new();
        let mut claim = |name: &str, value: Value| claims.insert(name.to_owned(), value);
        claim("iss", self.id.as_str().into());
        claim("sub", self.id.as_str().into());
        claim("aud", issuer.into());
        claim("iat", now().into());
        claim("exp", (now() + LASTS).into());
        claim("jti", jwt::fresh_id()?.into());
        Ok(jwt::sign(key, algorithm, &Header { kind: Some("JWT"), ..Header::default() }, &claims)?)
    }
}

fn no_method(server: &ServerMetadata, own: &'static str) -> GrantError {
    let taken = server.auth_methods.as_deref().unwrap_or_default();
    let taken = taken.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(" or ");
    let taken = address::told(&taken, MAX_SHOWN);
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
            tests::{asked, login, stranger},
        },
        jwt::{Algorithm, tests::P256},
        metadata::ServerMetadata,
    };

    fn taking(methods: &[&str], algorithms: &[&str]) -> ServerMetadata {
        let owned = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect());
        ServerMetadata { auth_methods: owned(methods), auth_algorithms: owned(algorithms), ..login() }
    }

    #[tokio::test]
    async fn a_secret_is_said_in_the_way_that_is_taken() {
        let stranger = stranger();
        let client = Client::with_secret("me", Secret::new("s3cret-word"));
        let grant = Grant::ClientCredentials(client);
        asked(&grant, &stranger, &taking(&["client_secret_post"], &[])).await.unwrap();
        assert_eq!(stranger.field(0, "client_secret").as_deref(), Some("s3cret-word"));
        let refused = asked(&grant, &stranger, &taking(&["private_key_jwt", "none"], &[])).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "https://login.example takes private_key_jwt or none, and the client has a secret"
        );
        assert_eq!(stranger.asked().len(), 1, "nothing was sent there");
    }

    #[tokio::test]
    async fn an_assertion_is_for_the_issuer_and_new_each_time() {
        let stranger = stranger();
        let client = Client::with_key("me", &Secret::new(P256), None).unwrap();
        let grant = Grant::ClientCredentials(client);
        let server = taking(&["private_key_jwt"], &["RS256", "ES256"]);
        for _ in 0..2 {
            asked(&grant, &stranger, &server).await.unwrap();
        }
        let claims = |place| -> Value {
            let assertion = stranger.field(place, "client_assertion").unwrap();
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
    async fn a_key_of_another_kind_is_said_before_anything_is_sent() {
        let (stranger, key) = (stranger(), Secret::new(P256));
        assert!(matches!(Client::with_key("me", &key, Some(Algorithm::Rs256)), Err(GrantError::Key(_))));
        let grant = Grant::ClientCredentials(Client::with_key("me", &key, None).unwrap());
        let refused = asked(&grant, &stranger, &taking(&["private_key_jwt"], &["RS256"])).await.unwrap_err();
        assert_eq!(refused.to_string(), "the private key signs with ES256, not with RS256");
        assert!(stranger.asked().is_empty());
    }
}
