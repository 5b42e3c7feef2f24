//! From a refusal to whoever signs people in: the operator's settings, then the server's word, then the oldest revision.

use url::Url;

use crate::{
    address,
    authorize::{Issuer, Said},
    challenge::Demand,
    fetch::{Fetch, FetchError},
    metadata::{MetadataError, ResourceMetadata, ServerMetadata},
    scope::Scopes,
    settings::{OldServers, Settings},
};

/// Who signs people in to a server, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// What tokens are asked for, in every request.
    pub resource: String,
    /// What the resource lists.
    pub scopes: Option<Scopes>,
    /// Who signs people in.
    pub server: ServerMetadata,
    /// What its callbacks say about it.
    pub said: Said,
}

impl Discovery {
    /// Finds out who signs people in to this server. Of several, the one that did so before is preferred.
    pub async fn of(
        fetch: &dyn Fetch,
        server: &Url,
        settings: &Settings,
        demand: &Demand,
        before: Option<&str>,
    ) -> Result<Self, MetadataError> {
        if let Some(manual) = Self::manual(server, settings) {
            return Ok(manual);
        }
        let told = demand.resource_metadata.as_deref();
        let found = match ResourceMetadata::find(fetch, server, told).await {
            Ok(found) => Some(found),
            Err(MetadataError::NoResource { .. } | MetadataError::Fetch(FetchError::Unavailable { .. }))
                if told.is_none() && settings.may_do_without() =>
            {
                None
            }
            Err(error) => return Err(error),
        };
        // The resource is known to be the server we call before anything is asked of anybody else.
        let issued = match (&settings.metadata_url, &settings.issuer, &found) {
            (Some(place), issuer, _) => ServerMetadata::at(fetch, place, issuer.as_deref()).await?,
            (None, Some(issuer), _) => ServerMetadata::find(fetch, issuer).await?,
            (None, None, Some(found)) => ServerMetadata::find(fetch, found.choose(before)).await?,
            (None, None, None) => ServerMetadata::of_old(fetch, server).await?,
        };
        let resource = found.as_ref().map_or_else(|| address::resource(server), |found| found.resource.clone());
        let said = if issued.names_itself { Said::Always } else { Said::Maybe };
        Ok(Self { resource, scopes: found.and_then(|found| found.scopes), server: settings.over(issued), said })
    }

    /// Who signs people in, as a sign-in remembers it.
    pub fn issuer(&self) -> Issuer {
        Issuer { name: self.server.issuer.clone(), said: self.said }
    }

    /// With both endpoints given, nobody is asked.
    fn manual(server: &Url, settings: &Settings) -> Option<Self> {
        let (page, token) = (settings.authorization_url.as_ref()?, settings.token_url.as_ref()?);
        let (name, said) = match &settings.issuer {
            Some(issuer) => (issuer.clone(), Said::Maybe),
            None => (address::shown(token), Said::Unknown),
        };
        let bare = ServerMetadata::bare(name, token.clone());
        let server_metadata = ServerMetadata { authorization_endpoint: Some(page.clone()), ..bare };
        Some(Self { resource: address::resource(server), scopes: None, server: server_metadata, said })
    }
}

impl ResourceMetadata {
    fn choose(&self, before: Option<&str>) -> &str {
        let known = self.issuers.iter().find(|issuer| Some(issuer.as_str()) == before);
        known.or_else(|| self.issuers.first()).map_or("", String::as_str)
    }
}

impl Settings {
    /// Whether the server need not say who signs people in.
    fn may_do_without(&self) -> bool {
        self.issuer.is_some() || self.metadata_url.is_some() || self.old_servers == OldServers::Allow
    }

    /// What was found out, with what the operator wrote over it.
    fn over(&self, found: ServerMetadata) -> ServerMetadata {
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
        authorize::Said,
        challenge::Demand,
        metadata::MetadataError,
        scripted::Scripted,
        settings::{OldServers, Settings},
    };

    const RESOURCE: &str = "https://example.org/.well-known/oauth-protected-resource/mcp";
    const LOGIN: &str = "https://login.example/.well-known/oauth-authorization-server";

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn stranger() -> Arc<Scripted> {
        let resource = r#"{"resource":"https://example.org","scopes_supported":["a"],
            "authorization_servers":["https://login.example","https://second.example"]}"#;
        let login = |issuer: &str| {
            format!(
                r#"{{"issuer":"{issuer}","authorization_endpoint":"{issuer}/authorize","token_endpoint":"{issuer}/token",
                "code_challenge_methods_supported":["S256"],"authorization_response_iss_parameter_supported":true}}"#
            )
        };
        Arc::<Scripted>::default()
            .answer(RESOURCE, 200, resource)
            .answer(LOGIN, 200, login("https://login.example"))
            .answer(&LOGIN.replace("login", "second"), 200, login("https://second.example"))
    }

    async fn found(stranger: &Scripted, settings: &Settings, before: Option<&str>) -> Result<Discovery, MetadataError> {
        Discovery::of(stranger, &url("https://example.org/mcp?key=1"), settings, &Demand::default(), before).await
    }

    #[tokio::test]
    async fn the_resource_is_asked_for_as_the_server_writes_it() {
        let found = found(&stranger(), &Settings::default(), None).await.unwrap();
        assert_eq!((found.resource.as_str(), found.said), ("https://example.org", Said::Always));
        assert_eq!(found.server.issuer, "https://login.example");
        assert!(found.scopes.unwrap().contains("a"));
    }

    #[tokio::test]
    async fn of_several_issuers_the_one_of_before_is_kept() {
        let issuer = async |before| found(&stranger(), &Settings::default(), before).await.unwrap().server.issuer;
        assert_eq!(issuer(Some("https://second.example")).await, "https://second.example");
        assert_eq!(issuer(Some("https://gone.example")).await, "https://login.example");
    }

    #[tokio::test]
    async fn with_both_endpoints_given_nobody_is_asked() {
        let settings = Settings {
            authorization_url: Some(url("https://own.example/authorize")),
            token_url: Some(url("https://own.example/token")),
            ..Settings::default()
        };
        let stranger = stranger();
        let manual = found(&stranger, &settings, None).await.unwrap();
        assert!(stranger.asked().is_empty());
        assert_eq!((manual.resource.as_str(), manual.said), ("https://example.org/mcp", Said::Unknown));
        assert_eq!(manual.server.sign_in_page().unwrap().as_str(), "https://own.example/authorize");
        let one = Settings { authorization_url: None, ..settings };
        let mixed = found(&stranger, &one, None).await.unwrap();
        assert_eq!(mixed.server.token_endpoint.as_str(), "https://own.example/token");
        assert_eq!(mixed.server.sign_in_page().unwrap().as_str(), "https://login.example/authorize");
    }

    #[tokio::test]
    async fn metadata_that_the_operator_names_wins_over_what_the_server_says() {
        let second = url(&LOGIN.replace("login", "second"));
        let settings = Settings { metadata_url: Some(second.clone()), ..Settings::default() };
        let chosen = stranger();
        assert_eq!(found(&chosen, &settings, None).await.unwrap().server.issuer, "https://second.example");
        assert_eq!(chosen.asked(), [RESOURCE, second.as_str()]);
    }

    #[tokio::test]
    async fn an_issuer_that_the_operator_names_is_the_one_whoever_the_server_names() {
        let settings = Settings { issuer: Some("https://second.example".to_owned()), ..Settings::default() };
        let said = found(&stranger(), &settings, Some("https://login.example")).await.unwrap();
        assert_eq!(
            (said.server.issuer.as_str(), said.resource.as_str()),
            ("https://second.example", "https://example.org")
        );
        let silent = Arc::<Scripted>::default().answer(
            &LOGIN.replace("login", "second"),
            200,
            r#"{"issuer":"https://second.example","token_endpoint":"https://second.example/token"}"#,
        );
        assert_eq!(found(&silent, &settings, None).await.unwrap().resource, "https://example.org/mcp");
        let elsewhere = Settings { metadata_url: Some(url(LOGIN)), ..settings.clone() };
        let wrong = found(&stranger(), &elsewhere, None).await.unwrap_err();
        assert!(matches!(wrong, MetadataError::WrongIssuer { .. }), "{wrong}");
        let ends = Some(url("https://own.example/x"));
        let manual = Settings { authorization_url: ends.clone(), token_url: ends, ..settings };
        let manual = found(&stranger(), &manual, None).await.unwrap();
        assert_eq!((manual.server.issuer.as_str(), manual.said), ("https://second.example", Said::Maybe));
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_is_of_old_only_where_the_operator_agreed() {
        let nothing = Arc::<Scripted>::default();
        let refused = found(&nothing, &Settings::default(), None).await.unwrap_err();
        assert!(matches!(refused, MetadataError::NoResource { .. }), "{refused}");
        let settings = Settings { old_servers: OldServers::Allow, ..Settings::default() };
        let old = found(&nothing, &settings, None).await.unwrap();
        assert_eq!(
            (old.server.issuer.as_str(), old.resource.as_str()),
            ("https://example.org", "https://example.org/mcp")
        );
        let told = Demand { resource_metadata: Some("https://example.org/none".to_owned()), ..Demand::default() };
        let told = Discovery::of(&*nothing, &url("https://example.org/mcp"), &settings, &told, None).await;
        assert!(told.is_err(), "it said where, and that was wrong");
    }
}
