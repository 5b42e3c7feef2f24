//! Finds the authorization server of an MCP server: configuration first, then the metadata of the server, then the
//! rules of 2025-03-26.

use url::Url;

use crate::{
    address,
    authorize::{IssParameter, Issuer},
    challenge::TokenChallenge,
    fetch::{Fetch, FetchError},
    metadata::{MetadataError, ResourceMetadata, ServerMetadata},
    scope::Scopes,
    settings::{OldServers, Settings},
};

/// Authorization server and resource of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// Value of the `resource` parameter of all requests.
    pub resource: String,
    /// Scopes that the protected resource metadata lists.
    pub scopes: Option<Scopes>,
    /// Metadata of the authorization server.
    pub server: ServerMetadata,
    /// Whether its callbacks carry `iss`.
    pub iss: IssParameter,
}

impl Discovery {
    /// Finds the authorization server of this server. Of several, the one that was used before is preferred.
    pub async fn find(
        fetch: &dyn Fetch,
        server: &Url,
        settings: &Settings,
        demand: &TokenChallenge,
        before: Option<&str>,
    ) -> Result<Self, MetadataError> {
        if let Some(manual) = Self::manual(server, settings) {
            return Ok(manual);
        }
        let told = demand.resource_metadata.as_deref();
        let found = match ResourceMetadata::find(fetch, server, told).await {
            Ok(found) => Some(found),
            Err(MetadataError::NoResource { .. } | MetadataError::Fetch(FetchError::Unavailable { .. }))
                if told.is_none() && settings.allows_missing_resource_metadata() =>
            {
                None
            }
            Err(error) => return Err(error),
        };
        // The protected resource metadata is checked before any authorization server is contacted.
        let issued = match (&settings.metadata_url, &settings.issuer, &found) {
            (Some(place), issuer, _) => ServerMetadata::at(fetch, place, issuer.as_deref()).await?,
            (None, Some(issuer), _) => ServerMetadata::find(fetch, issuer).await?,
            (None, None, Some(found)) => ServerMetadata::find(fetch, found.choose(before)).await?,
            (None, None, None) => ServerMetadata::legacy(fetch, server).await?,
        };
        let resource = found.as_ref().map_or_else(|| address::resource(server), |found| found.resource.clone());
        let iss = if issued.sends_iss { IssParameter::Required } else { IssParameter::Optional };
        Ok(Self {
            resource,
            scopes: found.and_then(|found| found.scopes),
            server: settings.override_endpoints(issued),
            iss,
        })
    }

    /// The issuer, as a pending sign-in stores it.
    pub fn issuer(&self) -> Issuer {
        Issuer { name: self.server.issuer.clone(), iss: self.iss }
    }

    /// With both endpoints configured, nothing is fetched.
    fn manual(server: &Url, settings: &Settings) -> Option<Self> {
        let (page, token) = (settings.authorization_url.as_ref()?, settings.token_url.as_ref()?);
        let (name, iss) = match &settings.issuer {
            Some(issuer) => (issuer.clone(), IssParameter::Optional),
            None => (address::redacted(token), IssParameter::Unchecked),
        };
        let bare = ServerMetadata::bare(name, token.clone());
        let server_metadata = ServerMetadata { authorization_endpoint: Some(page.clone()), ..bare };
        Some(Self { resource: address::resource(server), scopes: None, server: server_metadata, iss })
    }
}

impl ResourceMetadata {
    fn choose(&self, before: Option<&str>) -> &str {
        let known = self.issuers.iter().find(|issuer| Some(issuer.as_str()) == before);
        known.or_else(|| self.issuers.first()).map_or("", String::as_str)
    }
}

impl Settings {
    /// Whether sign-in is possible without protected resource metadata.
    fn allows_missing_resource_metadata(&self) -> bool {
        self.issuer.is_some() || self.metadata_url.is_some() || self.old_servers == OldServers::Allow
    }

    /// The discovered metadata with the endpoints that the operator configured.
    fn override_endpoints(&self, found: ServerMetadata) -> ServerMetadata {
        ServerMetadata {
            authorization_endpoint: self.authorization_url.clone().or(found.authorization_endpoint),
            token_endpoint: self.token_url.clone().unwrap_or(found.token_endpoint),
            ..found
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use url::Url;

    use super::Discovery;
    use crate::{
        authorize::IssParameter,
        challenge::TokenChallenge,
        metadata::MetadataError,
        scripted::ScriptedFetch,
        settings::{OldServers, Settings},
    };

    const RESOURCE: &str = "https://example.org/.well-known/oauth-protected-resource/mcp";
    const LOGIN: &str = "https://login.example/.well-known/oauth-authorization-server";

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn remote() -> Arc<ScriptedFetch> {
        let resource = r#"{"resource":"https://example.org","scopes_supported":["a"],
            "authorization_servers":["https://login.example","https://second.example"]}"#;
        let login = |issuer: &str| {
            format!(
                r#"{{"issuer":"{issuer}","authorization_endpoint":"{issuer}/authorize","token_endpoint":"{issuer}/token",
                "code_challenge_methods_supported":["S256"],"authorization_response_iss_parameter_supported":true}}"#
            )
        };
        Arc::<ScriptedFetch>::default()
            .answer(RESOURCE, 200, resource)
            .answer(LOGIN, 200, login("https://login.example"))
            .answer(&LOGIN.replace("login", "second"), 200, login("https://second.example"))
    }

    async fn discover(
        remote: &ScriptedFetch,
        settings: &Settings,
        before: Option<&str>,
    ) -> Result<Discovery, MetadataError> {
        Discovery::find(remote, &url("https://example.org/mcp?key=1"), settings, &TokenChallenge::default(), before)
            .await
    }

    #[tokio::test]
    async fn resource_is_named_as_the_server_writes_it() {
        let found = discover(&remote(), &Settings::default(), None).await.unwrap();
        assert_eq!((found.resource.as_str(), found.iss), ("https://example.org", IssParameter::Required));
        assert_eq!(found.server.issuer, "https://login.example");
        assert!(found.scopes.unwrap().contains("a"));
    }

    #[tokio::test]
    async fn previous_issuer_is_preferred_among_several() {
        let issuer = async |before| discover(&remote(), &Settings::default(), before).await.unwrap().server.issuer;
        assert_eq!(issuer(Some("https://second.example")).await, "https://second.example");
        assert_eq!(issuer(Some("https://gone.example")).await, "https://login.example");
    }

    #[tokio::test]
    async fn nothing_is_fetched_if_both_endpoints_are_configured() {
        let settings = Settings {
            authorization_url: Some(url("https://own.example/authorize")),
            token_url: Some(url("https://own.example/token")),
            ..Settings::default()
        };
        let remote = remote();
        let manual = discover(&remote, &settings, None).await.unwrap();
        assert!(remote.urls().is_empty());
        assert_eq!((manual.resource.as_str(), manual.iss), ("https://example.org/mcp", IssParameter::Unchecked));
        assert_eq!(manual.server.sign_in_page().unwrap().as_str(), "https://own.example/authorize");
        let one = Settings { authorization_url: None, ..settings };
        let mixed = discover(&remote, &one, None).await.unwrap();
        assert_eq!(mixed.server.token_endpoint.as_str(), "https://own.example/token");
        assert_eq!(mixed.server.sign_in_page().unwrap().as_str(), "https://login.example/authorize");
    }

    #[tokio::test]
    async fn configured_metadata_url_overrides_the_server() {
        let second = url(&LOGIN.replace("login", "second"));
        let settings = Settings { metadata_url: Some(second.clone()), ..Settings::default() };
        let chosen = remote();
        assert_eq!(discover(&chosen, &settings, None).await.unwrap().server.issuer, "https://second.example");
        assert_eq!(chosen.urls(), [RESOURCE, second.as_str()]);
    }

    #[tokio::test]
    async fn configured_issuer_overrides_the_server() {
        let settings = Settings { issuer: Some("https://second.example".to_owned()), ..Settings::default() };
        let said = discover(&remote(), &settings, Some("https://login.example")).await.unwrap();
        assert_eq!(
            (said.server.issuer.as_str(), said.resource.as_str()),
            ("https://second.example", "https://example.org")
        );
        let silent = Arc::<ScriptedFetch>::default().answer(
            &LOGIN.replace("login", "second"),
            200,
            r#"{"issuer":"https://second.example","token_endpoint":"https://second.example/token"}"#,
        );
        assert_eq!(discover(&silent, &settings, None).await.unwrap().resource, "https://example.org/mcp");
        let elsewhere = Settings { metadata_url: Some(url(LOGIN)), ..settings.clone() };
        let wrong = discover(&remote(), &elsewhere, None).await.unwrap_err();
        assert!(matches!(wrong, MetadataError::WrongIssuer { .. }), "{wrong}");
        let ends = Some(url("https://own.example/x"));
        let manual = Settings { authorization_url: ends.clone(), token_url: ends, ..settings };
        let manual = discover(&remote(), &manual, None).await.unwrap();
        assert_eq!((manual.server.issuer.as_str(), manual.iss), ("https://second.example", IssParameter::Optional));
    }

    #[tokio::test]
    async fn server_without_metadata_is_legacy_only_if_the_operator_allows_it() {
        let nothing = Arc::<ScriptedFetch>::default();
        let refused = discover(&nothing, &Settings::default(), None).await.unwrap_err();
        assert!(matches!(refused, MetadataError::NoResource { .. }), "{refused}");
        let settings = Settings { old_servers: OldServers::Allow, ..Settings::default() };
        let old = discover(&nothing, &settings, None).await.unwrap();
        assert_eq!(
            (old.server.issuer.as_str(), old.resource.as_str()),
            ("https://example.org", "https://example.org/mcp")
        );
        let told = TokenChallenge {
            resource_metadata: Some("https://example.org/none".to_owned()),
            ..TokenChallenge::default()
        };
        let told = Discovery::find(&*nothing, &url("https://example.org/mcp"), &settings, &told, None).await;
        assert!(told.is_err(), "it named a metadata URL, and that was wrong");
    }
}
