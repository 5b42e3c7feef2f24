//! What a resource or a template is called here: its own URI, or, where several servers own one, the same URI with
//! its server in front, `toolway+<server>:<uri>`.
//!
//! The form with the server in front is understood for every server at any time; a server's own URI that begins
//! so is never offered, or a server could speak in another's name.

use std::{fmt, sync::Arc};

use toolway_config::ServerName;

/// The URI, or template of URIs, under which something is offered: unique within a catalog.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicUri(Arc<str>);

/// How every URI of ours begins.
const SCHEME: &str = "toolway+";

// === impl PublicUri ===

impl PublicUri {
    /// The URI as its server gave it.
    pub(super) fn plain(uri: &str) -> Self {
        Self(uri.into())
    }

    /// The URI with its server in front.
    pub fn owned(server: &ServerName, uri: &str) -> Self {
        Self(format!("{SCHEME}{server}:{uri}").into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The server a URI names and the URI as that server knows it; `None` where it names none.
pub fn split_owned(uri: &str) -> Option<(ServerName, &str)> {
    let (server, raw) = uri.strip_prefix(SCHEME)?.split_once(':')?;
    Some((server.parse().ok()?, raw))
}

/// Whether a URI pretends to be one of ours; schemes are read without regard to case.
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
    fn an_owned_uri_comes_apart_as_it_was_put_together() {
        let server = "files".parse().unwrap();
        let uri = PublicUri::owned(&server, "file:///a:b");
        assert_eq!(uri.as_str(), "toolway+files:file:///a:b");
        assert_eq!(split_owned(uri.as_str()), Some((server, "file:///a:b")));
        for plain in ["file:///a", "toolway+:x", "toolway+UP:x", "toolway+files", "toolway:x"] {
            assert_eq!(split_owned(plain), None, "{plain}");
        }
    }

    #[test]
    fn a_pretender_is_known_however_it_is_written() {
        assert!(is_ours("toolway+files:x") && is_ours("TOOLWAY+x"));
        assert!(!is_ours("toolway:x") && !is_ours("tööl") && !is_ours(""));
    }
}
