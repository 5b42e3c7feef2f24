//! Enterprise-managed authorization: the company's identity provider exchanges an ID token for an identity assertion
//! (ID-JAG), and the authorization server of the MCP server exchanges that for an access token. No user interaction is
//! needed.

use std::sync::Arc;

use toolway_config::Secret;
use url::Url;

use super::{
    Client, GrantError, GrantRequest,
    assertion::{self, AssertionSource},
};
use crate::{
    address,
    credential::now,
    fetch::Fetch,
    metadata::ServerMetadata,
    token::{TokenRequest, TokenResponse},
};

/// A user who is known to the company's identity provider.
#[derive(Debug)]
pub struct Enterprise {
    /// Identity provider.
    pub provider: Provider,
    /// Dialer to the identity provider, which is taken from the configuration.
    pub fetch: Arc<dyn Fetch>,
    /// Our client at the identity provider.
    pub provider_client: Client,
    /// Source of the user's ID token.
    pub id_token: Arc<dyn AssertionSource>,
    /// Our client at the authorization server of the MCP server.
    pub client: Client,
}

/// Location of an identity provider.
#[derive(Clone, Debug)]
pub enum Provider {
    /// Issuer identifier; its metadata names the token endpoint.
    Issuer(String),
    /// Token endpoint.
    TokenUrl(Url),
}

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";

impl Enterprise {
    pub(super) async fn request_token(&self, grant_request: GrantRequest<'_>) -> Result<TokenResponse, GrantError> {
        // Reports an unusable client before the identity provider is contacted.
        let client = self.client.auth(grant_request.server)?;
        let authorization = self.exchange(grant_request).await?;
        grant_request.send_assertion(&client, authorization).await
    }

    /// Requests an ID-JAG for this authorization server and this resource.
    async fn exchange(&self, grant_request: GrantRequest<'_>) -> Result<Secret, GrantError> {
        let provider = match &self.provider {
            Provider::Issuer(issuer) => ServerMetadata::find(&*self.fetch, issuer).await?,
            Provider::TokenUrl(url) => ServerMetadata::bare(address::redacted(url), url.clone()),
        };
        let id_token = assertion::take("the ID token", &*self.id_token).await?;
        assertion::check("the ID token", &id_token, &[&self.provider_client.id], now())?;
        let secret = |text: &str| Secret::new(text);
        let request = TokenRequest {
            endpoint: &provider.token_endpoint,
            client: &self.provider_client.auth(&provider)?,
            params: vec![
                ("grant_type", secret(EXCHANGE)),
                ("requested_token_type", secret(ID_JAG)),
                ("audience", secret(&grant_request.server.issuer)),
                ("resource", secret(grant_request.resource)),
                ("scope", secret(&grant_request.scopes.to_string())),
                ("subject_token", id_token),
                ("subject_token_type", secret(ID_TOKEN)),
            ],
            prover: None,
        };
        let reply = request.send(&*self.fetch).await?;
        match reply.issued_kind.as_deref() {
            Some(ID_JAG) => Ok(reply.token),
            other => Err(GrantError::UnexpectedToken {
                endpoint: address::redacted(&provider.token_endpoint),
                found: other.map_or("a token without a type".to_owned(), |kind| kind.chars().take(100).collect()),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use toolway_config::Secret;
    use url::Url;

    use super::{Enterprise, Provider};
    use crate::{
        fetch::Fetch,
        grant::{
            Client, Grant,
            tests::{login, remote, request_token},
            workload::tests::unsigned_jwt,
        },
        scripted::ScriptedFetch,
    };

    const PROVIDER: &str = "https://company.example/token";
    const EXCHANGED: &str = r#"{"access_token":"id-jag-word","token_type":"N_A",
        "issued_token_type":"urn:ietf:params:oauth:token-type:id-jag"}"#;

    fn grant(provider: &Arc<ScriptedFetch>) -> Grant {
        Grant::Enterprise(Box::new(Enterprise {
            provider: Provider::TokenUrl(Url::parse(PROVIDER).unwrap()),
            fetch: Arc::clone(provider) as Arc<dyn Fetch>,
            provider_client: Client::public("at-company"),
            id_token: Arc::new(unsigned_jwt(&json!({ "aud": "at-company" }))),
            client: Client::with_secret("at-login", Secret::new("s3cret-word")),
        }))
    }

    #[tokio::test]
    async fn id_token_is_exchanged_for_an_id_jag_and_then_for_a_token() {
        let provider = Arc::<ScriptedFetch>::default().answer(PROVIDER, 200, EXCHANGED);
        let remote = remote();
        assert_eq!(request_token(&grant(&provider), &remote, &login()).await.unwrap().token.expose(), "t0ken");
        let sent = |name| provider.field(0, name).unwrap_or_default();
        assert_eq!(sent("audience"), "https://login.example");
        assert_eq!(sent("resource"), "https://example.org/mcp");
        assert_eq!(sent("client_id"), "at-company");
        assert_eq!(sent("subject_token_type"), "urn:ietf:params:oauth:token-type:id_token");
        assert!(!sent("subject_token").is_empty());
        assert_eq!(remote.field(0, "assertion").as_deref(), Some("id-jag-word"));
        assert!(remote.requests.lock()[0].headers().contains_key("authorization"));
        assert_eq!(remote.field(0, "subject_token"), None, "the ID token is sent to the provider only");
    }

    #[tokio::test]
    async fn provider_is_found_by_its_issuer() {
        let metadata = r#"{"issuer":"https://company.example","token_endpoint":"https://company.example/token"}"#;
        let provider = Arc::<ScriptedFetch>::default()
            .answer("https://company.example/.well-known/openid-configuration", 200, metadata)
            .answer(PROVIDER, 200, EXCHANGED);
        let Grant::Enterprise(mut enterprise) = grant(&provider) else { unreachable!() };
        enterprise.provider = Provider::Issuer("https://company.example".to_owned());
        request_token(&Grant::Enterprise(enterprise), &remote(), &login()).await.unwrap();
        assert_eq!(provider.urls().last().unwrap(), PROVIDER);
    }

    #[tokio::test]
    async fn other_token_types_are_refused() {
        let remote = remote();
        for body in [r#"{"access_token":"a","token_type":"Bearer"}"#, &EXCHANGED.replace("id-jag\"", "jwt\"")] {
            let provider = Arc::<ScriptedFetch>::default().answer(PROVIDER, 200, body);
            let refused = request_token(&grant(&provider), &remote, &login()).await.unwrap_err().to_string();
            assert!(refused.contains("instead of an identity assertion"), "{refused}");
        }
        assert!(remote.urls().is_empty());
    }

    #[tokio::test]
    async fn id_token_for_another_client_is_not_sent() {
        let provider = Arc::<ScriptedFetch>::default().answer(PROVIDER, 200, EXCHANGED);
        let Grant::Enterprise(mut enterprise) = grant(&provider) else { unreachable!() };
        enterprise.id_token = Arc::new(unsigned_jwt(&json!({ "aud": "other" })));
        request_token(&Grant::Enterprise(enterprise), &remote(), &login()).await.unwrap_err();
        assert!(provider.urls().is_empty());
    }
}
