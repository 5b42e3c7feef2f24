//! Protected resource metadata (RFC 9728): the authorization servers of an MCP server.

use serde::Deserialize;
use url::Url;

use super::{MetadataError, at_origin, first, parsed, quoted, redacted_all, unreadable};
use crate::{
    address::{self, redacted},
    fetch::Fetch,
    scope::Scopes,
};

/// Protected resource metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceMetadata {
    /// Resource identifier; sent as `resource`, exactly as written here.
    pub resource: String,
    /// Issuers of the authorization servers, at least one.
    pub issuers: Vec<String>,
    /// Supported scopes, if listed.
    pub scopes: Option<Scopes>,
}

#[derive(Deserialize)]
struct ResourceDocument {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    scopes_supported: Option<Vec<String>>,
}

/// Maximum number of authorization servers.
const MAX_ISSUERS: usize = 20;
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

impl ResourceMetadata {
    /// Fetches the metadata from the URL in the challenge, if there is one; otherwise from the well-known URLs for the
    /// path and for the root.
    pub async fn find(fetch: &dyn Fetch, server: &Url, named: Option<&str>) -> Result<Self, MetadataError> {
        let places = match named {
            Some(named) => vec![named_place(server, named)?],
            None => well_known(server),
        };
        let Some((place, document)) = first(fetch, &places).await? else {
            return Err(MetadataError::NoResource { server: redacted(server), tried: redacted_all(&places) });
        };
        Self::checked(&place, parsed(&place, &document)?, server)
    }

    fn checked(place: &Url, document: ResourceDocument, server: &Url) -> Result<Self, MetadataError> {
        let ResourceDocument { resource, authorization_servers: issuers, scopes_supported } = document;
        if !covers(&resource, server) {
            let (place, resource, server) = (redacted(place), quoted(&resource), redacted(server));
            return Err(MetadataError::ForeignResource { place, resource, server });
        }
        if issuers.is_empty() || MAX_ISSUERS < issuers.len() {
            return Err(unreadable(
                place,
                format!("{} authorization servers are listed; 1 to {MAX_ISSUERS} are expected", issuers.len()),
            ));
        }
        let scopes = scopes_supported.map(|names| Scopes::from_names(names.iter().map(String::as_str))).transpose();
        let scopes = scopes.map_err(|bad| unreadable(place, format!("invalid scopes: {bad}")))?;
        Ok(Self { resource, issuers, scopes: scopes.filter(|scopes| !scopes.is_empty()) })
    }
}

fn named_place(server: &Url, named: &str) -> Result<Url, MetadataError> {
    address::parse("resource_metadata", named)
        .map_err(|source| MetadataError::Address { place: redacted(server), source })
}

fn well_known(server: &Url) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    let mut places = vec![at_origin(server, &format!("{WELL_KNOWN}{path}"))];
    if !path.is_empty() {
        places.push(at_origin(server, WELL_KNOWN));
    }
    places
}

/// Whether the resource is the server's URL or a parent of it at the same origin.
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
    use crate::{metadata::MetadataError, scripted::ScriptedFetch};

    const PATH: &str = "https://example.org/.well-known/oauth-protected-resource/mcp";
    const ROOT: &str = "https://example.org/.well-known/oauth-protected-resource";
    const GOOD: &str = r#"{"resource":"https://example.org/mcp","authorization_servers":["https://login.example"]}"#;

    async fn find(remote: &ScriptedFetch, named: Option<&str>) -> Result<ResourceMetadata, MetadataError> {
        ResourceMetadata::find(remote, &Url::parse("https://example.org/mcp?key=1").unwrap(), named).await
    }

    fn remote() -> Arc<ScriptedFetch> {
        Arc::default()
    }

    #[tokio::test]
    async fn metadata_url_of_the_challenge_is_the_only_one_tried() {
        let named = "https://example.org/anywhere/prm";
        let remote = remote().answer(named, 200, GOOD).answer(PATH, 200, GOOD);
        assert_eq!(find(&remote, Some(named)).await.unwrap().issuers, ["https://login.example"]);
        assert_eq!(remote.urls(), [named]);
        assert!(find(&remote, Some("https://example.org/none")).await.is_err());
        assert!(find(&remote, Some("http://example.org/prm")).await.is_err());
        assert!(find(&remote, Some("file:///etc/passwd")).await.is_err());
        assert_eq!(remote.urls().len(), 2, "nothing else was requested");
    }

    #[tokio::test]
    async fn path_location_comes_before_the_root() {
        let both = remote().answer(PATH, 200, GOOD).answer(ROOT, 200, GOOD);
        find(&both, None).await.unwrap();
        assert_eq!(both.urls(), [PATH]);
        let root = remote().answer(PATH, 200, "<html>").answer(ROOT, 200, GOOD);
        find(&root, None).await.unwrap();
        assert_eq!(root.urls(), [PATH, ROOT]);
        let none = find(&remote(), None).await.unwrap_err();
        assert!(matches!(none, MetadataError::NoResource { .. }), "{none}");
    }

    /// CVE-2026-104850: a server chose the authorization server for the resource of another server.
    #[tokio::test]
    async fn metadata_of_another_resource_is_refused() {
        let foreign = GOOD.replace("https://example.org/mcp", "https://bank.example/mcp");
        let refused = find(&remote().answer(PATH, 200, foreign), None).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "protected resource metadata at `{PATH}` is for `https://bank.example/mcp`, not for `https://example.org/mcp`"
            )
        );
    }

    #[tokio::test]
    async fn incomplete_metadata_is_refused() {
        for document in [
            r#"{"resource":"https://example.org/mcp"}"#.to_owned(),
            r#"{"resource":"https://example.org/mcp","authorization_servers":[]}"#.to_owned(),
            GOOD.replace("[\"", &format!("[{}\"", "\"https://x.example\",".repeat(30))),
            GOOD.replace('}', r#","resource":"https://example.org"}"#),
            GOOD.replace('}', r#","scopes_supported":["a b"]}"#),
            r#"{"authorization_servers":["https://login.example"]}"#.to_owned(),
        ] {
            let refused = find(&remote().answer(PATH, 200, document.clone()), None).await.unwrap_err();
            assert!(matches!(refused, MetadataError::Unreadable { .. }), "{document}: {refused}");
        }
    }

    #[test]
    fn resource_covers_the_server_and_paths_below_it() {
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
