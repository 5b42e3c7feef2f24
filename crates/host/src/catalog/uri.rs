//! Public URIs of resources and templates: the URI itself, or, if several servers own it, the URI with its server.
//!
//! The server is a prefix, `toolway+<server>:<uri>`. Extensions that demand a scheme keep it, and the server comes first
//! inside: `ui://toolway+<server>/<rest>`, `skill://toolway+<server>/<rest>`.
//!
//! The form with a server is accepted for every server at any time. A listed URI that looks like it is never offered,
//! because a server could impersonate another one with it.

use std::{borrow::Cow, fmt, sync::Arc};

use toolway_config::ServerName;

/// URI or URI template under which an item is offered: unique within a catalog.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicUri(Arc<str>);

/// Prefix of URIs that name their server.
const SCHEME: &str = "toolway+";
/// Beginnings of URIs whose scheme must stay: UI pages (MCP Apps) and skills.
const KEPT: [&str; 2] = ["ui://", "skill://"];

// === impl PublicUri ===

impl PublicUri {
    /// The URI as its server lists it.
    pub(super) fn plain(uri: &str) -> Self {
        Self(uri.into())
    }

    /// The URI with its server.
    pub fn owned(server: &ServerName, uri: &str) -> Self {
        Self(with_server(server.as_str(), uri).into())
    }

    /// The URI as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The form with a server, for messages.
pub(super) fn example(uri: &str) -> String {
    with_server("<server>", uri)
}

fn with_server(server: &str, uri: &str) -> String {
    match split_kept(uri) {
        Some((scheme, rest)) => format!("{scheme}{SCHEME}{server}/{rest}"),
        None => format!("{SCHEME}{server}:{uri}"),
    }
}

/// Splits a URI with a server into the server and the URI at that server; `None` if it names none.
pub fn split_owned(uri: &str) -> Option<(ServerName, Cow<'_, str>)> {
    if let Some((scheme, rest)) = split_kept(uri) {
        let (server, rest) = rest.strip_prefix(SCHEME)?.split_once('/')?;
        return Some((server.parse().ok()?, Cow::Owned([scheme, rest].concat())));
    }
    let (server, raw) = uri.strip_prefix(SCHEME)?.split_once(':')?;
    Some((server.parse().ok()?, Cow::Borrowed(raw)))
}

/// Whether a URI looks like one with a server; case does not matter.
pub(super) fn is_ours(uri: &str) -> bool {
    let inner = split_kept(uri).map_or(uri, |(_, rest)| rest);
    inner.get(..SCHEME.len()).is_some_and(|start| start.eq_ignore_ascii_case(SCHEME))
}

/// Splits a URI whose scheme must stay behind its `://`.
fn split_kept(uri: &str) -> Option<(&str, &str)> {
    let starts = |kept: &&str| uri.get(..kept.len()).is_some_and(|start| start.eq_ignore_ascii_case(kept));
    KEPT.iter().find(|kept| starts(kept)).map(|kept| uri.split_at(kept.len()))
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
        assert_eq!(split_owned(uri.as_str()), Some((server, "file:///a:b".into())));
        for plain in ["file:///a", "toolway+:x", "toolway+UP:x", "toolway+files", "toolway:x"] {
            assert_eq!(split_owned(plain), None, "{plain}");
        }
    }

    #[test]
    fn scheme_that_an_extension_demands_is_kept() {
        for (raw, public) in [
            ("ui://show", "ui://toolway+files/show"),
            ("ui://a/b?c=1#d", "ui://toolway+files/a/b?c=1#d"),
            ("UI:///a", "UI://toolway+files//a"),
            ("skill://pdf/forms/SKILL.md", "skill://toolway+files/pdf/forms/SKILL.md"),
            ("ui://{page}", "ui://toolway+files/{page}"),
        ] {
            let server = "files".parse().unwrap();
            let uri = PublicUri::owned(&server, raw);
            assert_eq!((uri.as_str(), split_owned(public)), (public, Some((server, raw.into()))));
            assert!(is_ours(public) && !is_ours(raw), "{public}");
        }
        assert_eq!(split_owned("ui://toolway+files"), None);
        assert!(is_ours("ui://TOOLWAY+x"));
    }

    #[test]
    fn reserved_prefix_is_detected_in_any_case() {
        assert!(is_ours("toolway+files:x") && is_ours("TOOLWAY+x"));
        assert!(!is_ours("toolway:x") && !is_ours("tööl") && !is_ours(""));
    }
}
