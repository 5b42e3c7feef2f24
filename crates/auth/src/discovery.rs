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
    /// Scopes that the server lists in its protected resource metadata, or as its own authorization server.
    pub scopes: Option<Scopes>,
    /// Metadata of the authorization server.
    pub server: ServerMetadata,
    /// Whether its callbacks carry `iss`.
    pub iss: IssParameter,
    /// How the authorization server was found.
    pub found_by: FoundBy,
}

/// How the authorization server of a server was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// The operator configured it.
    Configuration,
    /// The protected resource metadata of the server names it.
    ResourceMetadata,
    /// The server names none; there is metadata of one at its own origin, as in 2025-03-26.
    OwnMetadata,
    /// The server names none, and there is no metadata: the default endpoints of 2025-03-26 at its own origin. They may
    /// not exist.
    DefaultEndpoints,
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
            Err(error) if told.is_none() && settings.tolerates(&error) => None,
            Err(error) => return Err(error),
        };
        // The protected resource metadata is checked before any authorization server is contacted.
        let (issued, found_by) = match (&settings.metadata_url, &settings.issuer, &found) {
            (Some(place), issuer, _) => {
                (ServerMetadata::at(fetch, place, issuer.as_deref()).await?, FoundBy::Configuration)
            }
            (None, Some(issuer), _) => (ServerMetadata::find(fetch, issuer).await?, FoundBy::Configuration),
            (None, None, Some(found)) => {
                (ServerMetadata::find(fetch, found.choose(before)).await?, FoundBy::ResourceMetadata)
            }
            (None, None, None) => match ServerMetadata::at_own_origin(fetch, server).await? {
                Some(own) => (own, FoundBy::OwnMetadata),
                None => (ServerMetadata::default_endpoints(server), FoundBy::DefaultEndpoints),
            },
        };
        let resource = found.as_ref().map_or_else(|| address::resource(server), |found| found.resource.clone());
        let scopes = match found {
            Some(found) => found.scopes,
            // The authorization server is the server itself, so that the scopes are those of the server.
            None if found_by == FoundBy::OwnMetadata => issued.scopes.clone(),
            None => None,
        };
        let iss = if issued.sends_iss { IssParameter::Required } else { IssParameter::Optional };
        Ok(Self { resource, scopes, server: settings.override_endpoints(issued), iss, found_by })
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
        let (resource, found_by) = (address::resource(server), FoundBy::Configuration);
        Some(Self { resource, scopes: None, server: server_metadata, iss, found_by })
    }
}

impl ResourceMetadata {
    fn choose(&self, before: Option<&str>) -> &str {
        let known = self.issuers.iter().find(|issuer| Some(issuer.as_str()) == before);
        known.or_else(|| self.issuers.first()).map_or("", String::as_str)
    }
}

impl Settings {
    /// Whether sign-in is possible although protected resource metadata could not be read.
    fn tolerates(&self, error: &MetadataError) -> bool {
        let is_configured = self.issuer.is_some() || self.metadata_url.is_some();
        match error {
            MetadataError::NoResource { .. } => is_configured || self.old_servers != OldServers::Refuse,
            // The metadata may be there a moment later, and may name another authorization server.
            MetadataError::Fetch(FetchError::Unavailable { .. }) => {
                is_configured || self.old_servers == OldServers::Assume
            }
            _ => false,
        }
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

    use super::{Discovery, FoundBy};
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
    async fn server_without_metadata_is_its_own_authorization_server_unless_refused() {
        let nothing = Arc::<ScriptedFetch>::default();
        let refusing = Settings { old_servers: OldServers::Refuse, ..Settings::default() };
        let refused = discover(&nothing, &refusing, None).await.unwrap_err();
        assert!(matches!(refused, MetadataError::NoResource { .. }), "{refused}");
        let settings = Settings::default();
        let old = discover(&nothing, &settings, None).await.unwrap();
        assert_eq!(
            (old.server.issuer.as_str(), old.resource.as_str(), old.found_by),
            ("https://example.org", "https://example.org/mcp", FoundBy::DefaultEndpoints)
        );
        let own = r#"{"issuer":"https://example.org/","token_endpoint":"https://example.org/t"}"#;
        let place = "https://example.org/.well-known/oauth-authorization-server";
        let found = discover(&Arc::<ScriptedFetch>::default().answer(place, 200, own), &settings, None).await.unwrap();
        assert_eq!((found.server.issuer.as_str(), found.found_by), ("https://example.org/", FoundBy::OwnMetadata));
        let told = TokenChallenge {
            resource_metadata: Some("https://example.org/none".to_owned()),
            ..TokenChallenge::default()
        };
        let told = Discovery::find(&*nothing, &url("https://example.org/mcp"), &settings, &told, None).await;
        assert!(told.is_err(), "it named a metadata URL, and that was wrong");
    }

    #[tokio::test]
    async fn server_is_not_its_own_authorization_server_while_its_metadata_is_unavailable() {
        let busy = Arc::<ScriptedFetch>::default().answer(RESOURCE, 503, "busy");
        let refused = discover(&busy, &Settings::default(), None).await.unwrap_err();
        assert!(matches!(refused, MetadataError::Fetch(_)), "{refused}");
        let assumed = Settings { old_servers: OldServers::Assume, ..Settings::default() };
        assert_eq!(discover(&busy, &assumed, None).await.unwrap().server.issuer, "https://example.org");
    }
}
