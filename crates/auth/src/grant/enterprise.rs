//! Enterprise-managed authorization: the company's identity provider turns its word about a person into an authorization
//! for one other server (ID-JAG), and that server's authorization server turns it into a token. Nobody is asked anything.

use std::sync::Arc;

use toolway_config::Secret;
use url::Url;

use super::{
    Asking, Client, GrantError,
    supply::{self, Supply},
};
use crate::{
    address,
    credential::now,
    fetch::Fetch,
    metadata::ServerMetadata,
    token::{TokenReply, TokenRequest},
};

/// A person whom the company's identity provider knows.
#[derive(Debug)]
pub struct Enterprise {
    /// The identity provider.
    pub provider: Provider,
    /// The way to it. It is where the configuration says, whoever the server is.
    pub fetch: Arc<dyn Fetch>,
    /// Who we are there.
    pub provider_client: Client,
    /// What it said about the person.
    pub id_token: Arc<dyn Supply>,
    /// Who we are at the server's authorization server.
    pub client: Client,
}

/// Where an identity provider is.
#[derive(Clone, Debug)]
pub enum Provider {
    /// Its issuer, whose metadata says where tokens are exchanged.
    Issuer(String),
    /// Where tokens are exchanged.
    TokenUrl(Url),
}

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";

impl Enterprise {
    pub(super) async fn ask(&self, asking: Asking<'_>) -> Result<TokenReply, GrantError> {
        // What would be refused at the end is said before the provider is asked for anything.
        let client = self.client.auth(asking.server)?;
        let authorization = self.exchange(asking).await?;
        asking.send_assertion(&client, authorization).await
    }

    /// The provider's word about the person, for this authorization server and this resource and nobody else.
    async fn exchange(&self, asking: Asking<'_>) -> Result<Secret, GrantError> {
        let provider = match &self.provider {
            Provider::Issuer(issuer) => ServerMetadata::find(&*self.fetch, issuer).await?,
            Provider::TokenUrl(url) => ServerMetadata::bare(address::shown(url), url.clone()),
        };
        let id_token = supply::take("the ID token", &*self.id_token).await?;
        supply::check("the ID token", &id_token, &[&self.provider_client.id], now())?;
        let said = |text: &str| Secret::new(text);
        let request = TokenRequest {
            endpoint: &provider.token_endpoint,
            client: &self.provider_client.auth(&provider)?,
            params: vec![
                ("grant_type", said(EXCHANGE)),
                ("requested_token_type", said(ID_JAG)),
                ("audience", said(&asking.server.issuer)),
                ("resource", said(asking.resource)),
                ("scope", said(&asking.scopes.to_string())),
                ("subject_token", id_token),
                ("subject_token_type", said(ID_TOKEN)),
            ],
            prover: None,
        };
        let reply = request.send(&*self.fetch).await?;
        match reply.issued_kind.as_deref() {
            Some(ID_JAG) => Ok(reply.token),
            other => Err(GrantError::NotExchanged {
                endpoint: address::shown(&provider.token_endpoint),
                found: other.map_or("a token of no kind".to_owned(), |kind| kind.chars().take(100).collect()),
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
            tests::{asked, login, stranger},
            workload::tests::said,
        },
        scripted::Scripted,
    };

    const PROVIDER: &str = "https://company.example/token";
    const EXCHANGED: &str = r#"{"access_token":"id-jag-word","token_type":"N_A",
        "issued_token_type":"urn:ietf:params:oauth:token-type:id-jag"}"#;

    fn grant(provider: &Arc<Scripted>) -> Grant {
        Grant::Enterprise(Box::new(Enterprise {
            provider: Provider::TokenUrl(Url::parse(PROVIDER).unwrap()),
            fetch: Arc::clone(provider) as Arc<dyn Fetch>,
            provider_client: Client::public("at-company"),
            id_token: Arc::new(said(&json!({ "aud": "at-company" }))),
            client: Client::with_secret("at-login", Secret::new("s3cret-word")),
        }))
    }

    #[tokio::test]
    async fn the_providers_word_is_exchanged_twice() {
        let provider = Arc::<Scripted>::default().answer(PROVIDER, 200, EXCHANGED);
        let stranger = stranger();
        assert_eq!(asked(&grant(&provider), &stranger, &login()).await.unwrap().token.expose(), "t0ken");
        let sent = |name| provider.field(0, name).unwrap_or_default();
        assert_eq!(sent("audience"), "https://login.example");
        assert_eq!(sent("resource"), "https://example.org/mcp");
        assert_eq!(sent("client_id"), "at-company");
        assert_eq!(sent("subject_token_type"), "urn:ietf:params:oauth:token-type:id_token");
        assert!(!sent("subject_token").is_empty());
        assert_eq!(stranger.field(0, "assertion").as_deref(), Some("id-jag-word"));
        assert!(stranger.heard.lock()[0].headers().contains_key("authorization"));
        assert_eq!(stranger.field(0, "subject_token"), None, "the person's own token stays with the provider");
    }

    #[tokio::test]
    async fn the_provider_is_found_by_its_issuer() {
        let metadata = r#"{"issuer":"https://company.example","token_endpoint":"https://company.example/token"}"#;
        let provider = Arc::<Scripted>::default()
            .answer("https://company.example/.well-known/openid-configuration", 200, metadata)
            .answer(PROVIDER, 200, EXCHANGED);
        let Grant::Enterprise(mut enterprise) = grant(&provider) else { unreachable!() };
        enterprise.provider = Provider::Issuer("https://company.example".to_owned());
        asked(&Grant::Enterprise(enterprise), &stranger(), &login()).await.unwrap();
        assert_eq!(provider.asked().last().unwrap(), PROVIDER);
    }

    #[tokio::test]
    async fn another_kind_of_token_goes_nowhere() {
        let stranger = stranger();
        for body in [r#"{"access_token":"a","token_type":"Bearer"}"#, &EXCHANGED.replace("id-jag\"", "jwt\"")] {
            let provider = Arc::<Scripted>::default().answer(PROVIDER, 200, body);
            let refused = asked(&grant(&provider), &stranger, &login()).await.unwrap_err().to_string();
            assert!(refused.contains("and not an authorization for another server"), "{refused}");
        }
        assert!(stranger.asked().is_empty());
    }

    #[tokio::test]
    async fn a_token_about_somebody_elses_client_is_not_sent() {
        let provider = Arc::<Scripted>::default().answer(PROVIDER, 200, EXCHANGED);
        let Grant::Enterprise(mut enterprise) = grant(&provider) else { unreachable!() };
        enterprise.id_token = Arc::new(said(&json!({ "aud": "somebody" })));
        asked(&Grant::Enterprise(enterprise), &stranger(), &login()).await.unwrap_err();
        assert!(provider.asked().is_empty());
    }
}
