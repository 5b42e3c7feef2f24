//! Tokens without a person: how each kind asks for one, once.
//!
//! Who is asked is found out elsewhere ([`crate::metadata`]), and so is what becomes of the token.

pub mod client;
pub mod configured;
pub mod enterprise;
pub mod google;
pub mod supply;
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
    token::{ClientAuth, TokenError, TokenReply, TokenRequest},
};

/// How a token is asked for.
#[derive(Debug)]
pub enum Grant {
    /// As a client that the authorization server knows.
    ClientCredentials(Client),
    /// With what the company's identity provider says about a person.
    Enterprise(Box<Enterprise>),
    /// With what the platform says about this program.
    Workload(Workload),
    /// With Google's application default credentials.
    Google(Google),
}

/// Who is asked, and what for.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// The guarded dialer of the server that the token is for.
    pub fetch: &'a dyn Fetch,
    /// The authorization server.
    pub server: &'a ServerMetadata,
    /// The resource.
    pub resource: &'a str,
    /// What the token should be good for; none are named where this is empty.
    pub scopes: &'a Scopes,
    /// Binds the token to a key.
    pub prover: Option<&'a dyn Prover>,
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// It is not known whom to ask.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// Whoever was asked gives none.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The client cannot say who it is in any way that is taken.
    #[error("{issuer} takes {taken}, and the client has {own}")]
    NoMethod {
        /// Who was to be asked.
        issuer: String,
        /// What it takes.
        taken: String,
        /// What is configured.
        own: &'static str,
    },
    /// Nobody but the server says who this is; nothing was sent.
    #[error(
        "{what} is not sent to {issuer}, which only the server names; if it is the right one, write it into oauth.issuer"
    )]
    Unnamed {
        /// What would have been sent.
        what: &'static str,
        /// Who the server names.
        issuer: String,
    },
    /// What the grant stands on is missing or for somebody else; it was not sent.
    #[error("{0}")]
    Supply(String),
    /// The identity provider gave something else.
    #[error("{endpoint} gives {found} and not an authorization for another server (ID-JAG)")]
    NotExchanged {
        /// The identity provider.
        endpoint: String,
        /// What it gave.
        found: String,
    },
}

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

// === impl Grant ===

impl Grant {
    /// Asks once. A grant that is refused is not tried again here, nor in another way.
    pub async fn ask(&self, asking: Asking<'_>) -> Result<TokenReply, GrantError> {
        match self {
            Self::ClientCredentials(client) => {
                let params = vec![("grant_type", Secret::new("client_credentials"))];
                asking.send(&client.auth(asking.server)?, params).await
            }
            Self::Enterprise(enterprise) => enterprise.ask(asking).await,
            Self::Workload(workload) => workload.ask(asking).await,
            Self::Google(google) => google.ask(asking.scopes).await,
        }
    }

    /// Whether what this stands on may go to an authorization server: one that the operator named, in one way or another.
    ///
    /// CVE-2026-104850, before the first token: a server that could name any would be given what the operator wrote.
    pub(crate) fn check_place(&self, settings: &Settings, issuer: &str) -> Result<(), GrantError> {
        match self.stake() {
            Some(what) if !settings.names_whom_to_ask() => Err(GrantError::Unnamed { what, issuer: issuer.to_owned() }),
            _ => Ok(()),
        }
    }

    /// What an authorization server is shown; nothing where it is known who that is.
    fn stake(&self) -> Option<&'static str> {
        match self {
            Self::ClientCredentials(client) => Some(match client.proof {
                ClientProof::Key { .. } => "the client's signature",
                ClientProof::Secret(_) | ClientProof::None => "the client's secret",
            }),
            Self::Enterprise(_) => Some("the company's word about a person"),
            Self::Workload(_) => Some("the assertion"),
            Self::Google(_) => None,
        }
    }

    /// The client's name, under which its tokens are kept.
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

impl Asking<'_> {
    /// A request to the authorization server for this resource and these scopes.
    async fn send(&self, client: &ClientAuth, grant: Vec<(&'static str, Secret)>) -> Result<TokenReply, GrantError> {
        let mut params = grant;
        params.push(("resource", Secret::new(self.resource)));
        params.push(("scope", Secret::new(self.scopes.to_string())));
        let request = TokenRequest { endpoint: &self.server.token_endpoint, client, params, prover: self.prover };
        Ok(request.send(self.fetch).await?)
    }

    /// The same, where a signed text is the grant.
    async fn send_assertion(&self, client: &ClientAuth, assertion: Secret) -> Result<TokenReply, GrantError> {
        self.send(client, vec![("grant_type", Secret::new(JWT_BEARER)), ("assertion", assertion)]).await
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use url::Url;

    use super::*;
    use crate::scripted::Scripted;

    pub(crate) const ENDPOINT: &str = "https://login.example/token";
    pub(crate) const TOKEN: &str = r#"{"access_token":"t0ken","token_type":"Bearer","expires_in":3600}"#;

    pub(crate) fn login() -> ServerMetadata {
        ServerMetadata::bare("https://login.example".to_owned(), Url::parse(ENDPOINT).unwrap())
    }

    pub(crate) fn stranger() -> Arc<Scripted> {
        Arc::<Scripted>::default().answer(ENDPOINT, 200, TOKEN)
    }

    /// Asks for `read` at this authorization server.
    pub(crate) async fn asked(
        grant: &Grant,
        stranger: &Scripted,
        server: &ServerMetadata,
    ) -> Result<TokenReply, GrantError> {
        let scopes = Scopes::parse("read").unwrap();
        let resource = "https://example.org/mcp";
        grant.ask(Asking { fetch: stranger, server, resource, scopes: &scopes, prover: None }).await
    }

    #[tokio::test]
    async fn a_client_asks_for_itself_with_resource_and_scopes() {
        let stranger = stranger();
        let grant = Grant::ClientCredentials(Client::with_secret("me", Secret::new("s3cret-word")));
        assert_eq!(asked(&grant, &stranger, &login()).await.unwrap().token.expose(), "t0ken");
        assert_eq!(
            stranger.form(0),
            [("grant_type", "client_credentials"), ("resource", "https://example.org/mcp"), ("scope", "read")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert_eq!(stranger.heard.lock()[0].headers()["authorization"], "Basic bWU6czNjcmV0LXdvcmQ=");
        assert!(!format!("{grant:?}").contains("s3cret"));
    }
}
