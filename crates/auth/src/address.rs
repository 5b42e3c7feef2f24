//! Validation and display of URLs that servers supply.
//!
//! Authorization servers, their endpoints and sign-in pages must use https; http is allowed for this machine only.
//! Whether a URL may be dialled at all is decided by the guarded dialer ([`crate::fetch`]).

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use url::Url;

use crate::dialer::is_this_machine;

/// Maximum length of a URL in bytes; longer ones are refused before they are parsed.
pub const MAX_URL: usize = 4096;

/// A URL that cannot be used, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{what}` {problem}")]
pub struct InvalidUrl {
    /// Name of the field or configuration key that holds the URL.
    pub what: &'static str,
    /// Why it is refused.
    pub problem: &'static str,
}

/// Parses a URL that a server supplied in the field `what`: https, or http on this machine, without user information.
pub fn parse(what: &'static str, text: &str) -> Result<Url, InvalidUrl> {
    let bad = |problem| InvalidUrl { what, problem };
    if MAX_URL < text.len() {
        return Err(bad("is too long"));
    }
    // URLs are shown to users as they are written, so control and non-ASCII characters are refused.
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(bad("contains characters that are not allowed in a URL"));
    }
    let url = Url::parse(text).map_err(|_| bad("is not a valid URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("must not contain a user name or password"));
    }
    match url.scheme() {
        "https" if url.has_host() => Ok(url),
        "http" if is_this_machine(&url) => Ok(url),
        "http" => Err(bad("must use https; http is allowed for this machine only")),
        _ => Err(bad("must use https")),
    }
}

/// The canonical resource name of a server: no fragment, query or user information, and no trailing slash on a bare
/// origin.
pub fn resource(server: &Url) -> String {
    let mut resource = bare(server);
    if resource.path() == "/" {
        resource.set_path("");
        return resource.as_str().trim_end_matches('/').to_owned();
    }
    resource.into()
}

/// The key under which credentials of a server are stored: its resource name, and a digest instead of its query,
/// because queries hold both tenants and secrets.
pub fn identity(server: &Url) -> String {
    let resource = resource(server);
    match server.query() {
        Some(query) => format!("{resource}?{}", URL_SAFE_NO_PAD.encode(digest(&SHA256, query.as_bytes()))),
        None => resource,
    }
}

/// A URL for messages: without query, fragment and user information, which may hold secrets.
pub fn redacted(url: &Url) -> String {
    bare(url).into()
}

/// Makes remote text safe to show: at most `most` characters, without control characters.
pub fn sanitize(text: &str, most: usize) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(most).collect()
}

fn bare(url: &Url) -> Url {
    let mut bare = url.clone();
    bare.set_query(None);
    bare.set_fragment(None);
    // This fails only for URLs without a host, which have no user information.
    let _without = bare.set_username("").and_then(|()| bare.set_password(None));
    bare
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::{MAX_URL, identity, parse, redacted, resource};

    #[test]
    fn accepts_https_or_http_on_this_machine_only() {
        for good in ["https://login.example/token", "http://127.0.0.1:8080/x", "http://localhost/x", "http://[::1]/"] {
            assert!(parse("token_endpoint", good).is_ok(), "{good}");
        }
        let long = format!("https://login.example/{}", "a".repeat(MAX_URL));
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
            assert!(parse("token_endpoint", bad).is_err(), "{bad}");
        }
        assert_eq!(
            parse("token_endpoint", "http://login.example/").unwrap_err().to_string(),
            "`token_endpoint` must use https; http is allowed for this machine only"
        );
    }

    #[test]
    fn resource_name_is_canonical() {
        let named = |text: &str| resource(&Url::parse(text).unwrap());
        assert_eq!(named("https://User:pw@Example.ORG:443/mcp?key=1#top"), "https://example.org/mcp");
        assert_eq!(named("https://example.org"), "https://example.org");
        assert_eq!(named("https://example.org/"), "https://example.org");
        assert_eq!(named("https://example.org/mcp/"), "https://example.org/mcp/");
        let kept = |text: &str| identity(&Url::parse(text).unwrap());
        assert_eq!(kept("https://example.org/mcp"), "https://example.org/mcp");
        assert_ne!(kept("https://example.org/mcp?tenant=1"), kept("https://example.org/mcp?tenant=2"));
        assert!(!kept("https://example.org/mcp?key=s3cret").contains("s3cret"));
        assert_eq!(redacted(&Url::parse("https://u:p@example.org/a?token=b").unwrap()), "https://example.org/a");
    }
}
