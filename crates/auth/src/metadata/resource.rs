//! Who signs people in to a server, by its own word (RFC 9728).

use serde::Deserialize;
use url::Url;

use super::{MetadataError, at_origin, first, parsed, quoted, shown_all, unreadable};
use crate::{
    address::{self, shown},
    fetch::Fetch,
    scope::Scopes,
};

/// What a server says about who signs people in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceMetadata {
    /// What it calls itself; asked for as `resource`, exactly as it is written here.
    pub resource: String,
    /// Who signs people in, at least one.
    pub issuers: Vec<String>,
    /// All scopes it knows, where it says so.
    pub scopes: Option<Scopes>,
}

#[derive(Deserialize)]
struct Document {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    scopes_supported: Option<Vec<String>>,
}

/// More authorization servers for one server are nonsense.
const MAX_ISSUERS: usize = 20;
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

impl ResourceMetadata {
    /// Finds it: where the refusal says, and nowhere else if it says so; else beside the server's path, else at the root.
    pub async fn find(fetch: &dyn Fetch, server: &Url, told: Option<&str>) -> Result<Self, MetadataError> {
        let places = match told {
            Some(told) => vec![told_place(server, told)?],
            None => well_known(server),
        };
        let Some((place, document)) = first(fetch, &places).await? else {
            return Err(MetadataError::NoResource { server: shown(server), tried: shown_all(&places) });
        };
        Self::checked(&place, parsed(&place, &document)?, server)
    }

    fn checked(place: &Url, document: Document, server: &Url) -> Result<Self, MetadataError> {
        let Document { resource, authorization_servers: issuers, scopes_supported } = document;
        if !covers(&resource, server) {
            let (place, resource, server) = (shown(place), quoted(&resource), shown(server));
            return Err(MetadataError::ForeignResource { place, resource, server });
        }
        if issuers.is_empty() || MAX_ISSUERS < issuers.len() {
            return Err(unreadable(place, format!("names {} authorization servers", issuers.len())));
        }
        let scopes = scopes_supported.map(|names| Scopes::from_names(names.iter().map(String::as_str))).transpose();
        let scopes = scopes.map_err(|bad| unreadable(place, format!("lists scopes that are none: {bad}")))?;
        Ok(Self { resource, issuers, scopes: scopes.filter(|scopes| !scopes.is_empty()) })
    }
}

fn told_place(server: &Url, told: &str) -> Result<Url, MetadataError> {
    address::read("resource_metadata", told).map_err(|source| MetadataError::Address { place: shown(server), source })
}

fn well_known(server: &Url) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    let mut places = vec![at_origin(server, &format!("{WELL_KNOWN}{path}"))];
    if !path.is_empty() {
        places.push(at_origin(server, WELL_KNOWN));
    }
    places
}

/// Whether a resource of this name is the server: the same address, or one above it at the same origin.
fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    if resource.origin() != server.origin() || !resource.origin().is_tuple() || resource.fragment().is_some() {
        return false;
    }
    if resource.query().is_some() && resource.query() != server.query() {
        return false;
    }
    let above = resource.path().trim_end_matches('/');
    server.path().strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use url::Url;

    use super::{ResourceMetadata, covers};
    use crate::{metadata::MetadataError, scripted::Scripted};

    const PATH: &str = "https://example.org/.well-known/oauth-protected-resource/mcp";
    const ROOT: &str = "https://example.org/.well-known/oauth-protected-resource";
    const GOOD: &str = r#"{"resource":"https://example.org/mcp","authorization_servers":["https://login.example"]}"#;

    async fn find(stranger: &Scripted, told: Option<&str>) -> Result<ResourceMetadata, MetadataError> {
        ResourceMetadata::find(stranger, &Url::parse("https://example.org/mcp?key=1").unwrap(), told).await
    }

    fn stranger() -> Arc<Scripted> {
        Arc::default()
    }

    #[tokio::test]
    async fn the_place_the_refusal_names_is_the_only_one() {
        let told = "https://example.org/anywhere/prm";
        let stranger = stranger().answer(told, 200, GOOD).answer(PATH, 200, GOOD);
        assert_eq!(find(&stranger, Some(told)).await.unwrap().issuers, ["https://login.example"]);
        assert_eq!(stranger.asked(), [told]);
        assert!(find(&stranger, Some("https://example.org/none")).await.is_err());
        assert!(find(&stranger, Some("http://example.org/prm")).await.is_err());
        assert!(find(&stranger, Some("file:///etc/passwd")).await.is_err());
        assert_eq!(stranger.asked().len(), 2, "nothing else was asked");
    }

    #[tokio::test]
    async fn beside_the_path_comes_before_the_root() {
        let both = stranger().answer(PATH, 200, GOOD).answer(ROOT, 200, GOOD);
        find(&both, None).await.unwrap();
        assert_eq!(both.asked(), [PATH]);
        let root = stranger().answer(PATH, 200, "<html>").answer(ROOT, 200, GOOD);
        find(&root, None).await.unwrap();
        assert_eq!(root.asked(), [PATH, ROOT]);
        let none = find(&stranger(), None).await.unwrap_err();
        assert!(matches!(none, MetadataError::NoResource { .. }), "{none}");
    }

    /// CVE-2026-104850: a server chose the authorization server for somebody else's resource.
    #[tokio::test]
    async fn a_document_about_another_server_is_refused() {
        let foreign = GOOD.replace("https://example.org/mcp", "https://bank.example/mcp");
        let refused = find(&stranger().answer(PATH, 200, foreign), None).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("{PATH} is about https://bank.example/mcp, which is not https://example.org/mcp")
        );
    }

    #[tokio::test]
    async fn a_document_that_helps_nobody_is_refused() {
        for document in [
            r#"{"resource":"https://example.org/mcp"}"#.to_owned(),
            r#"{"resource":"https://example.org/mcp","authorization_servers":[]}"#.to_owned(),
            GOOD.replace("[\"", &format!("[{}\"", "\"https://x.example\",".repeat(30))),
            GOOD.replace('}', r#","resource":"https://example.org"}"#),
            GOOD.replace('}', r#","scopes_supported":["a b"]}"#),
            r#"{"authorization_servers":["https://login.example"]}"#.to_owned(),
        ] {
            let refused = find(&stranger().answer(PATH, 200, document.clone()), None).await.unwrap_err();
            assert!(matches!(refused, MetadataError::Unreadable { .. }), "{document}: {refused}");
        }
    }

    #[test]
    fn a_resource_is_the_server_or_above_it() {
        let server = Url::parse("https://example.org/a/mcp").unwrap();
        for good in
            ["https://example.org/a/mcp", "https://example.org", "https://example.org/a/", "https://EXAMPLE.org:443/a"]
        {
            assert!(covers(good, &server), "{good}");
        }
        for bad in [
            "https://example.org/a/mcp/deeper",
            "https://example.org/a/m",
            "https://example.org/b",
            "http://example.org/a/mcp",
            "https://example.org:8443/a/mcp",
            "https://example.org.evil.example/a/mcp",
            "https://example.org/a/mcp#x",
            "https://example.org/a/mcp?tenant=1",
            "urn:example",
            "",
        ] {
            assert!(!covers(bad, &server), "{bad}");
        }
    }
}
