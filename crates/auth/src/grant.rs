//! Grants without a user: how each kind requests a token, once.
//!
//! [`crate::discovery`] finds the authorization server, and [`crate::unattended`] stores the token.

pub mod assertion;
pub mod client;
pub mod configured;
pub mod enterprise;
pub mod google;
pub mod workload;

use toolway_config::Secret;

pub use self::{
    client::{Client, ClientProof},
    enterprise::Enterprise,
    google::Google,
    workload::Workload,
};
use crate::{
    fetch::Fetch,
    jwt::KeyError,
    metadata::{MetadataError, ServerMetadata},
    proof::Prover,
    scope::Scopes,
    settings::Settings,
    token::{ClientAuth, TokenError, TokenRequest, TokenResponse},
};

/// How a token is requested.
#[derive(Debug)]
pub enum Grant {
    /// OAuth client credentials of a registered client.
    ClientCredentials(Client),
    /// ID token of the company's identity provider (ID-JAG).
    Enterprise(Box<Enterprise>),
    /// Assertion of the platform that runs this program.
    Workload(Workload),
    /// Google's application default credentials.
    Google(Google),
}

/// Target and scopes of a token request.
#[derive(Clone, Copy, Debug)]
pub struct GrantRequest<'a> {
    /// Guarded dialer of the server that the token is for.
    pub fetch: &'a dyn Fetch,
    /// Metadata of the authorization server.
    pub server: &'a ServerMetadata,
    /// Resource that the token is for.
    pub resource: &'a str,
    /// Requested scopes; the parameter is omitted if this is empty.
    pub scopes: &'a Scopes,
    /// DPoP key to bind the token to.
    pub prover: Option<&'a dyn Prover>,
}

/// Why a grant brought no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The authorization server is unknown.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The token request failed.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The private key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The authorization server accepts none of the configured authentication methods.
    #[error("`{issuer}` accepts client authentication with {taken}, but the client is configured with {own}")]
    NoMethod {
        /// Issuer identifier.
        issuer: String,
        /// Accepted methods.
        taken: String,
        /// Configured method.
        own: &'static str,
    },
    /// Only the server names this issuer; nothing was sent.
    #[error(
        "{what} was not sent to `{issuer}`: only the server names this issuer; if it is correct, set `oauth.issuer`"
    )]
    IssuerNotConfigured {
        /// What would have been sent.
        what: &'static str,
        /// Issuer that the server names.
        issuer: String,
    },
    /// Configured input is missing, invalid or meant for another recipient; nothing was sent.
    #[error("{0}")]
    Configuration(String),
    /// The identity provider returned another type of token.
    #[error("`{endpoint}` returned {found} instead of an identity assertion authorization grant (ID-JAG)")]
    UnexpectedToken {
        /// Token endpoint of the identity provider.
        endpoint: String,
        /// Type of the returned token.
        found: String,
    },
}

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

// === impl Grant ===

impl Grant {
    /// Requests a token once. A refused grant is neither repeated nor replaced by another one.
    pub async fn request_token(&self, grant_request: GrantRequest<'_>) -> Result<TokenResponse, GrantError> {
        match self {
            Self::ClientCredentials(client) => {
                let params = vec![("grant_type", Secret::new("client_credentials"))];
                grant_request.send(&client.auth(grant_request.server)?, params).await
            }
            Self::Enterprise(enterprise) => enterprise.request_token(grant_request).await,
            Self::Workload(workload) => workload.request_token(grant_request).await,
            Self::Google(google) => google.request_token(grant_request.scopes).await,
        }
    }

    /// Refuses to send operator-supplied input to an authorization server that the operator did not configure.
    ///
    /// CVE-2026-104850, before the first token: a server could name any authorization server and receive it.
    pub(crate) fn check_issuer_named(&self, settings: &Settings, issuer: &str) -> Result<(), GrantError> {
        match self.sensitive_input() {
            Some(what) if !settings.names_authorization_server() => {
                Err(GrantError::IssuerNotConfigured { what, issuer: issuer.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// What this grant discloses to the authorization server; `None` if its issuer is fixed.
    fn sensitive_input(&self) -> Option<&'static str> {
        match self {
            Self::ClientCredentials(client) => Some(match client.proof {
                ClientProof::Key { .. } => "the client assertion",
                ClientProof::Secret(_) | ClientProof::None => "the client secret",
            }),
            Self::Enterprise(_) => Some("the identity assertion"),
            Self::Workload(_) => Some("the assertion"),
            Self::Google(_) => None,
        }
    }

    /// Client id under which tokens are stored.
    pub fn client(&self) -> &str {
        match self {
            Self::ClientCredentials(client) => &client.id,
            Self::Enterprise(enterprise) => &enterprise.client.id,
            Self::Workload(workload) => workload.client.as_deref().unwrap_or("workload"),
            Self::Google(_) => "google",
        }
    }
}

// === impl Asking ===

impl GrantRequest<'_> {
    /// Sends a token request for this resource and these scopes.
    async fn send(&self, client: &ClientAuth, grant: Vec<(&'static str, Secret)>) -> Result<TokenResponse, GrantError> {
        let mut params = grant;
        params.push(("resource", Secret::new(self.resource)));
        params.push(("scope", Secret::new(self.scopes.to_string())));
        let request = TokenRequest { endpoint: &self.server.token_endpoint, client, params, prover: self.prover };
        Ok(request.send(self.fetch).await?)
    }

    /// The same, with a JWT bearer assertion as the grant.
    async fn send_assertion(&self, client: &ClientAuth, assertion: Secret) -> Result<TokenResponse, GrantError> {
        self.send(client, vec![("grant_type", Secret::new(JWT_BEARER)), ("assertion", assertion)]).await
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use url::Url;

    use super::*;
    use crate::scripted::ScriptedFetch;

    pub(crate) const ENDPOINT: &str = "https://login.example/token";
    pub(crate) const TOKEN: &str = r#"{"access_token":"t0ken","token_type":"Bearer","expires_in":3600}"#;

    pub(crate) fn login() -> ServerMetadata {
        ServerMetadata::bare("https://login.example".to_owned(), Url::parse(ENDPOINT).unwrap())
    }

    pub(crate) fn remote() -> Arc<ScriptedFetch> {
        Arc::<ScriptedFetch>::default().answer(ENDPOINT, 200, TOKEN)
    }

    /// Requests a token for `read` from this authorization server.
    pub(crate) async fn request_token(
        grant: &Grant,
        remote: &ScriptedFetch,
        server: &ServerMetadata,
    ) -> Result<TokenResponse, GrantError> {
        let scopes = Scopes::parse("read").unwrap();
        let resource = "https://example.org/mcp";
        grant.request_token(GrantRequest { fetch: remote, server, resource, scopes: &scopes, prover: None }).await
    }

    #[tokio::test]
    async fn client_credentials_request_names_resource_and_scopes() {
        let remote = remote();
        let grant = Grant::ClientCredentials(Client::with_secret("me", Secret::new("s3cret-word")));
        assert_eq!(request_token(&grant, &remote, &login()).await.unwrap().token.expose(), "t0ken");
        assert_eq!(
            remote.form(0),
            [
                ("grant_type", "client_credentials"),
                ("resource", "https://example.org/mcp"),
                ("scope", "read"),
                ("client_id", "me")
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert_eq!(remote.requests.lock()[0].headers()["authorization"], "Basic bWU6czNjcmV0LXdvcmQ=");
        assert!(!format!("{grant:?}").contains("s3cret"));
    }
}
