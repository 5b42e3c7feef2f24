//! Stored credentials and their keys: principal, issuer, client and resource.
//!
//! A credential holds the client registration with its secret and, while the sign-in is valid, the tokens. It is stored
//! as one JSON text inside a [`Secret`]; [`form`] defines that text.

pub(crate) mod form;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolway_config::Secret;
use url::Url;

use self::form::StoredCredential;
use crate::{
    address,
    scope::Scopes,
    token::{ClientAuth, TokenResponse},
    vault::{Vault, VaultError},
};

/// Key of a credential.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CredentialKey {
    /// Principal, with the profile if a user has several accounts at one server.
    pub principal: String,
    /// Issuer identifier of the authorization server.
    pub issuer: String,
    /// Client id.
    pub client: String,
    /// Resource that the tokens are for.
    pub resource: String,
}

/// A client registration and its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Key of the server that the credential was obtained for; it is sent to no other.
    pub server: String,
    /// Token endpoint that issues and refreshes the tokens.
    pub token_endpoint: Url,
    /// Client registration.
    pub client: Registration,
    /// `None` after the authorization server rejected them.
    pub tokens: Option<Tokens>,
    /// DPoP key of the tokens, if they are bound to one.
    pub proof_key: Option<Secret>,
}

/// A client as its authorization server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Client id.
    pub id: String,
    /// Client secret, if there is one.
    pub secret: Option<Secret>,
    /// Client authentication method at the token endpoint.
    pub method: AuthMethod,
    /// Origin of the registration.
    pub source: RegistrationSource,
    /// Redirect URL that was registered.
    pub redirect: Option<String>,
    /// Expiry of the secret, in seconds since 1970; `None` if it does not expire.
    pub secret_expires_at: Option<u64>,
}

/// Client authentication method at a token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthMethod {
    /// Public client without a secret.
    #[serde(rename = "none")]
    None,
    /// Secret in the `Authorization` header.
    #[serde(rename = "client_secret_basic")]
    Basic,
    /// Secret in the request body.
    #[serde(rename = "client_secret_post")]
    Post,
}

/// Origin of a client registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RegistrationSource {
    /// Configured by the operator.
    Configured,
    /// The client id is the URL of a client metadata document.
    Document,
    /// Dynamic client registration.
    Dynamic,
    /// Configured by the operator for a grant without a user.
    Unattended,
}

/// Tokens, and the scopes that they cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Access token.
    pub access: Secret,
    /// How the access token is presented.
    pub kind: TokenKind,
    /// Expiry, in seconds since 1970; `None` if the authorization server did not state it.
    pub expires_at: Option<u64>,
    /// Refresh token.
    pub refresh: Option<Secret>,
    /// Scopes that were requested, in all rounds together.
    pub requested: Scopes,
    /// Scopes that were granted; `None` if the authorization server did not state them.
    pub granted: Option<Scopes>,
    /// Time of the token response, in seconds since 1970.
    pub obtained_at: u64,
}

/// How an access token is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenKind {
    /// Bearer token.
    Bearer,
    /// Token bound to a key, sent with a DPoP proof.
    DPoP,
}

/// A token is refreshed this long before it expires, so that it does not expire in transit.
pub const SKEW: Duration = Duration::from_secs(30);

/// Why a credential cannot be loaded, stored or used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The vault failed.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The stored text is not a valid credential.
    #[error("the stored credential for `{resource}` is invalid; sign in again")]
    Unreadable {
        /// Resource that the credential is for.
        resource: String,
    },
    /// A refresh returned a token that is no longer bound to the DPoP key, or the reverse.
    #[error("the authorization server returned a token of another type than before")]
    KindChanged,
    /// Unsupported token type.
    #[error("the authorization server issued a token of the unsupported type `{0}`")]
    UnknownKind(String),
}

// === impl Credential ===

impl Credential {
    /// Loads the credential under this key.
    pub async fn load(vault: &dyn Vault, key: &CredentialKey) -> Result<Option<Self>, CredentialError> {
        vault.load(key).await?.map(|kept| Self::from_stored(&kept, key)).transpose()
    }

    /// Stores the credential under this key.
    pub async fn store(&self, vault: &dyn Vault, key: &CredentialKey) -> Result<(), VaultError> {
        vault.store(key, self.to_stored()).await
    }

    /// The newest credential of this principal for a server; without tokens, the newest registration.
    ///
    /// Only credentials for exactly this server count: another server at the same origin may have another owner.
    pub async fn find(
        vault: &dyn Vault,
        principal: &str,
        server: &str,
    ) -> Result<Option<(CredentialKey, Self)>, CredentialError> {
        Ok(Self::all(vault, principal, server).await?.pop())
    }

    /// All credentials of this principal for a server, from any issuer, the newest tokens last.
    pub async fn all(
        vault: &dyn Vault,
        principal: &str,
        server: &str,
    ) -> Result<Vec<(CredentialKey, Self)>, CredentialError> {
        let theirs = vault.all().await?.into_iter().filter(|(key, _)| key.principal == principal);
        let mut found = Self::of_server(theirs, server);
        found.sort_by_key(|(_, credential)| credential.tokens.as_ref().map(|tokens| tokens.obtained_at));
        Ok(found)
    }

    /// Principals that have tokens for a server.
    pub async fn holders(vault: &dyn Vault, server: &Url) -> Result<Vec<String>, CredentialError> {
        let kept = Self::of_server(vault.all().await?.into_iter(), &address::identity(server));
        let with_tokens = kept.into_iter().filter(|(_, credential)| credential.tokens.is_some());
        Ok(with_tokens.map(|(key, _)| key.principal).collect())
    }

    /// Ignores entries that are invalid or hold something else.
    fn of_server(kept: impl Iterator<Item = (CredentialKey, Secret)>, server: &str) -> Vec<(CredentialKey, Self)> {
        let opened =
            kept.filter_map(|(key, kept)| Self::from_stored(&kept, &key).ok().map(|credential| (key, credential)));
        opened.filter(|(_, credential)| credential.server == server).collect()
    }

    /// Whether a user signed in for it, as opposed to a grant without a user.
    pub fn is_interactive(&self) -> bool {
        self.client.source != RegistrationSource::Unattended
    }

    /// The text that is stored in the vault.
    pub fn to_stored(&self) -> Secret {
        // Serializing strings and numbers cannot fail.
        Secret::new(serde_json::to_string(&StoredCredential::of(self)).unwrap_or_default())
    }

    /// Parses the text that was stored in the vault.
    pub fn from_stored(kept: &Secret, key: &CredentialKey) -> Result<Self, CredentialError> {
        let form = serde_json::from_str::<StoredCredential>(kept.expose()).ok();
        form.and_then(StoredCredential::credential)
            .ok_or_else(|| CredentialError::Unreadable { resource: key.resource.clone() })
    }
}

// === impl Registration ===

impl Registration {
    /// Client authentication for token requests.
    pub fn auth(&self) -> ClientAuth {
        let id = self.id.clone();
        match (self.method, &self.secret) {
            (AuthMethod::Basic, Some(secret)) => ClientAuth::Basic { id, secret: secret.clone() },
            (AuthMethod::Post, Some(secret)) => ClientAuth::Post { id, secret: secret.clone() },
            (AuthMethod::None, _) | (_, None) => ClientAuth::Public { id },
        }
    }

    /// Whether the client secret has expired.
    pub fn is_expired(&self, now: u64) -> bool {
        self.secret_expires_at.is_some_and(|ends| ends <= now)
    }
}

// === impl AuthMethod ===

impl AuthMethod {
    /// Name in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
        }
    }

    /// Method with this name in the specification.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::None, Self::Basic, Self::Post].into_iter().find(|method| method.name() == name)
    }
}

// === impl Tokens ===

impl Tokens {
    /// Tokens of a token response to a request for these scopes.
    pub fn from_response(reply: TokenResponse, requested: Scopes, now: u64) -> Result<Self, CredentialError> {
        let kind = match reply.kind.to_ascii_lowercase().as_str() {
            "bearer" => TokenKind::Bearer,
            "dpop" => TokenKind::DPoP,
            _ => return Err(CredentialError::UnknownKind(reply.kind.chars().take(40).collect())),
        };
        Ok(Self {
            access: reply.token,
            kind,
            expires_at: reply.expires_in.map(|expires_in| now.saturating_add(expires_in.as_secs())),
            refresh: reply.refresh,
            requested,
            granted: reply.scopes,
            obtained_at: now,
        })
    }

    /// Tokens of a refresh response; what the response omits is kept.
    pub fn refreshed(&self, reply: TokenResponse, now: u64) -> Result<Self, CredentialError> {
        let next = Self::from_response(reply, self.requested.clone(), now)?;
        if next.kind != self.kind {
            return Err(CredentialError::KindChanged);
        }
        let refresh = next.refresh.or_else(|| self.refresh.clone());
        let granted = next.granted.or_else(|| self.granted.clone());
        Ok(Self { refresh, granted, ..next })
    }

    /// Whether the access token expires within [`SKEW`], or, if it is short-lived, within half of its lifetime.
    pub fn expires_soon(&self, now: u64) -> bool {
        let early = |ends: u64| SKEW.as_secs().min(ends.saturating_sub(self.obtained_at).div_ceil(2));
        self.expires_at.is_some_and(|ends| ends <= now.saturating_add(early(ends)))
    }

    /// Whether the access token has expired.
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|ends| ends <= now)
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toolway_config::Secret;

    use super::{AuthMethod, Credential, CredentialKey, Registration, RegistrationSource, TokenKind, Tokens};
    use crate::{
        scope::Scopes,
        token::{ClientAuth, TokenResponse},
        vault::{MemoryVault, Vault as _},
    };

    fn reply(token: &str) -> TokenResponse {
        TokenResponse {
            token: Secret::new(token),
            kind: "bearer".to_owned(),
            expires_in: Some(Duration::from_secs(60)),
            refresh: Some(Secret::new("r3fresh")),
            scopes: None,
            issued_kind: None,
            id_token: None,
        }
    }

    fn registration() -> Registration {
        Registration {
            id: "client-1".to_owned(),
            secret: Some(Secret::new("s3cret")),
            method: AuthMethod::Post,
            source: RegistrationSource::Dynamic,
            redirect: Some("http://127.0.0.1:1/callback".to_owned()),
            secret_expires_at: None,
        }
    }

    fn credential(server: &str, now: u64) -> Credential {
        let tokens = Tokens::from_response(reply("t0ken"), Scopes::parse("a b").unwrap(), now).unwrap();
        Credential {
            server: server.to_owned(),
            token_endpoint: "https://login.example/token".parse().unwrap(),
            client: registration(),
            tokens: Some(tokens),
            proof_key: Some(Secret::new("k3y")),
        }
    }

    fn key(principal: &str, issuer: &str) -> CredentialKey {
        CredentialKey {
            principal: principal.to_owned(),
            issuer: issuer.to_owned(),
            client: "client-1".to_owned(),
            resource: "https://example.org".to_owned(),
        }
    }

    #[test]
    fn stored_credential_round_trips_and_is_not_printed() {
        let (kept, key) = (credential("https://example.org/mcp", 5), key("ada", "https://login.example"));
        assert_eq!(Credential::from_stored(&kept.to_stored(), &key).unwrap(), kept);
        let printed = format!("{kept:?} {:?}", kept.to_stored());
        for secret in ["t0ken", "r3fresh", "s3cret", "k3y"] {
            assert!(!printed.contains(secret), "{secret}");
            assert!(kept.to_stored().expose().contains(secret), "{secret}");
        }
    }

    #[test]
    fn invalid_stored_text_is_reported_without_its_content() {
        let later =
            credential("https://example.org/mcp", 5).to_stored().expose().replace("\"version\":1", "\"version\":2");
        for text in ["", "{}", "t0ken", &later] {
            let failed = Credential::from_stored(&Secret::new(text), &key("ada", "https://login.example")).unwrap_err();
            assert_eq!(failed.to_string(), "the stored credential for `https://example.org` is invalid; sign in again");
        }
    }

    #[tokio::test]
    async fn newest_credential_of_the_same_principal_and_server_is_found() {
        let (vault, server) = (MemoryVault::default(), "https://example.org/mcp");
        let find = async |who| Credential::find(&vault, who, server).await.unwrap().map(|(key, _)| key.issuer);
        credential(server, 1).store(&vault, &key("ada", "https://old.example")).await.unwrap();
        credential(server, 2).store(&vault, &key("ada", "https://new.example")).await.unwrap();
        credential("https://example.org/other", 3).store(&vault, &key("ada", "https://else.example")).await.unwrap();
        vault.store(&key("ada", "https://broken.example"), Secret::new("x")).await.unwrap();
        assert_eq!(find("ada").await.as_deref(), Some("https://new.example"));
        assert_eq!(find("eve").await, None);
    }

    #[test]
    fn token_is_refreshed_before_it_expires_and_keeps_omitted_values() {
        let tokens = credential("https://example.org/mcp", 1000).tokens.unwrap();
        assert!(
            !tokens.expires_soon(1029)
                && tokens.expires_soon(1030)
                && !tokens.is_expired(1059)
                && tokens.is_expired(1060)
        );
        let short = TokenResponse { expires_in: Some(Duration::from_secs(10)), ..reply("t1") };
        let short = Tokens::from_response(short, Scopes::default(), 1000).unwrap();
        assert!(!short.expires_soon(1004) && short.expires_soon(1005), "not refreshed for each request");
        let next = tokens.refreshed(TokenResponse { refresh: None, expires_in: None, ..reply("t2") }, 1030).unwrap();
        assert_eq!((next.access.expose(), next.refresh.as_ref().unwrap().expose()), ("t2", "r3fresh"));
        assert_eq!((next.requested.to_string(), next.kind), ("a b".to_owned(), TokenKind::Bearer));
        assert!(!next.is_expired(u64::MAX), "no expiry was given");
        let strange = TokenResponse { kind: "mac".to_owned(), ..reply("t3") };
        assert!(tokens.refreshed(strange, 1030).is_err());
    }

    #[test]
    fn client_authenticates_as_registered() {
        let post = registration();
        assert_eq!(post.auth(), ClientAuth::Post { id: post.id.clone(), secret: Secret::new("s3cret") });
        let public = Registration { secret: None, ..post.clone() };
        assert_eq!(public.auth(), ClientAuth::Public { id: "client-1".to_owned() });
        assert!(Registration { secret_expires_at: Some(9), ..post.clone() }.is_expired(9));
        assert!(!post.is_expired(u64::MAX));
    }
}
