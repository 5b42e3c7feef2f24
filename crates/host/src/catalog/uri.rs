//! Public URIs of resources and templates: the URI itself, or, if several servers own it, the URI with its server as
//! prefix: `toolway+<server>:<uri>`.
//!
//! The prefixed form is accepted for every server at any time. A listed URI that begins with the prefix is never
//! offered, because a server could impersonate another one with it.

use std::{fmt, sync::Arc};

use toolway_config::ServerName;

/// URI or URI template under which an item is offered: unique within a catalog.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicUri(Arc<str>);

/// Prefix of URIs that name their server.
const SCHEME: &str = "toolway+";

// === impl PublicUri ===

impl PublicUri {
    /// The URI without prefix.
    pub(super) fn plain(uri: &str) -> Self {
        Self(uri.into())
    }

    /// The URI with its server as prefix.
    pub fn owned(server: &ServerName, uri: &str) -> Self {
        Self(format!("{SCHEME}{server}:{uri}").into())
    }

    /// The URI as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Splits a prefixed URI into its server and the URI at that server; `None` if it has no valid prefix.
pub fn split_owned(uri: &str) -> Option<(ServerName, &str)> {
    let (server, raw) = uri.strip_prefix(SCHEME)?.split_once(':')?;
    Some((server.parse().ok()?, raw))
}

/// Whether a URI begins with our prefix; schemes are compared without regard to case.
pub(super) fn is_ours(uri: &str) -> bool {
    uri.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
}

impl AsRef<str> for PublicUri {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PublicUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{PublicUri, is_ours, split_owned};

    #[test]
    fn prefixed_uri_is_split_into_server_and_uri() {
        let server = "files".parse().unwrap();
        let uri = PublicUri::owned(&server, "file:///a:b");
        assert_eq!(uri.as_str(), "toolway+files:file:///a:b");
        assert_eq!(split_owned(uri.as_str()), Some((server, "file:///a:b")));
        for plain in ["file:///a", "toolway+:x", "toolway+UP:x", "toolway+files", "toolway:x"] {
            assert_eq!(split_owned(plain), None, "{plain}");
        }
    }

    #[test]
    fn reserved_prefix_is_detected_in_any_case() {
        assert!(is_ours("toolway+files:x") && is_ours("TOOLWAY+x"));
        assert!(!is_ours("toolway:x") && !is_ours("tööl") && !is_ours(""));
    }
}
