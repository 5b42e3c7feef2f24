//! Which addresses a stranger may give us, and how they are written down.
//!
//! Authorization servers, their endpoints and the pages a person is sent to are https; http is for this machine only.
//! Whether an address may be dialled at all is the guarded dialer's business ([`crate::fetch`]).

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use url::Url;

use crate::dialer::is_this_machine;

/// Longer ones are refused before they are read.
pub const MAX_ADDRESS: usize = 4096;

/// An address that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {problem}")]
pub struct BadAddress {
    /// Which address: the name of its field.
    pub what: &'static str,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// Reads an address that a stranger gave under this name: https, or http on this machine, and nothing before the host.
pub fn read(what: &'static str, text: &str) -> Result<Url, BadAddress> {
    let bad = |problem| BadAddress { what, problem };
    if MAX_ADDRESS < text.len() {
        return Err(bad("is too long"));
    }
    // They are shown to people as they are written, and no address has others.
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(bad("has characters that no address has"));
    }
    let url = Url::parse(text).map_err(|_| bad("is not an address"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("has a user part"));
    }
    match url.scheme() {
        "https" if url.has_host() => Ok(url),
        "http" if is_this_machine(&url) => Ok(url),
        "http" => Err(bad("is http, which is for this machine only; it has to be https")),
        _ => Err(bad("is not https")),
    }
}

/// The name of a server as a resource: no fragment, no query, no user part, no slash at the end of a bare origin.
pub fn resource(server: &Url) -> String {
    let mut resource = bare(server);
    if resource.path() == "/" {
        resource.set_path("");
        return resource.as_str().trim_end_matches('/').to_owned();
    }
    resource.into()
}

/// What the credentials of a server are kept under: its name as a resource, and a digest in the place of its query, where
/// people put both tenants and secrets.
pub fn identity(server: &Url) -> String {
    let resource = resource(server);
    match server.query() {
        Some(query) => format!("{resource}?{}", URL_SAFE_NO_PAD.encode(digest(&SHA256, query.as_bytes()))),
        None => resource,
    }
}

/// An address for messages: without query, fragment and user part, where people put secrets.
pub fn shown(url: &Url) -> String {
    bare(url).into()
}

/// A text of a stranger as it is told: one line, no longer than this, and nothing that paints a terminal.
pub(crate) fn told(text: &str, most: usize) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(most).collect()
}

fn bare(url: &Url) -> Url {
    let mut bare = url.clone();
    bare.set_query(None);
    bare.set_fragment(None);
    // Only addresses without a host cannot lose their user part, and those have none.
    let _without = bare.set_username("").and_then(|()| bare.set_password(None));
    bare
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::{MAX_ADDRESS, identity, read, resource, shown};

    #[test]
    fn strangers_give_https_or_this_machine() {
        for good in ["https://login.example/token", "http://127.0.0.1:8080/x", "http://localhost/x", "http://[::1]/"] {
            assert!(read("token_endpoint", good).is_ok(), "{good}");
        }
        let long = format!("https://login.example/{}", "a".repeat(MAX_ADDRESS));
        let bad = [
            "http://login.example/token",
            "http://127.0.0.1.evil.example/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://user:word@login.example/",
            "login.example",
            "data:text/html,x",
            "https://login.example/\u{1b}[2J",
            "https://login.example/\u{202e}nigol",
            "https://login.ex\nample/",
            long.as_str(),
        ];
        for bad in bad {
            assert!(read("token_endpoint", bad).is_err(), "{bad}");
        }
        assert_eq!(
            read("token_endpoint", "http://login.example/").unwrap_err().to_string(),
            "token_endpoint is http, which is for this machine only; it has to be https"
        );
    }

    #[test]
    fn a_resource_is_written_in_one_way() {
        let named = |text: &str| resource(&Url::parse(text).unwrap());
        assert_eq!(named("https://User:pw@Example.ORG:443/mcp?key=1#top"), "https://example.org/mcp");
        assert_eq!(named("https://example.org"), "https://example.org");
        assert_eq!(named("https://example.org/"), "https://example.org");
        assert_eq!(named("https://example.org/mcp/"), "https://example.org/mcp/");
        let kept = |text: &str| identity(&Url::parse(text).unwrap());
        assert_eq!(kept("https://example.org/mcp"), "https://example.org/mcp");
        assert_ne!(kept("https://example.org/mcp?tenant=1"), kept("https://example.org/mcp?tenant=2"));
        assert!(!kept("https://example.org/mcp?key=s3cret").contains("s3cret"));
        assert_eq!(shown(&Url::parse("https://u:p@example.org/a?token=b").unwrap()), "https://example.org/a");
    }
}
