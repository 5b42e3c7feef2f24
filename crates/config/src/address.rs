//! Checks of server URLs.

use std::net::IpAddr;

use url::{Host, Url};

use crate::server::PlainHttp;

/// Why a URL is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UrlProblem {
    NotHttp,
    PlainHttp,
}

impl UrlProblem {
    /// Text for error messages, after "must be".
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Self::NotHttp => "an http or https URL",
            Self::PlainHttp => {
                "an https URL, because http to another machine is not encrypted; set `allowInsecureHttp` to allow it"
            }
        }
    }
}

/// Expected form of a URL that credentials are sent to, after "must be".
pub(crate) const SIGN_IN_URL: &str = "an https URL, or an http URL on this machine";

/// Whether this is an http or https URL with a host.
pub fn is_http_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// Checks that a server at this URL may be connected.
pub(crate) fn check(text: &str, plain: PlainHttp) -> Result<(), UrlProblem> {
    if !is_http_url(text) {
        return Err(UrlProblem::NotHttp);
    }
    let is_safe = Url::parse(text).is_ok_and(|url| url.scheme() == "https" || is_loopback(&url));
    if is_safe || plain == PlainHttp::Anywhere { Ok(()) } else { Err(UrlProblem::PlainHttp) }
}

/// Whether requests to this URL leave the machine without encryption.
pub fn is_insecure_http_url(text: &str) -> bool {
    check(text, PlainHttp::Loopback) == Err(UrlProblem::PlainHttp)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|address| address.is_loopback())
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{UrlProblem, check};
    use crate::server::PlainHttp;

    #[test]
    fn plain_http_is_limited_to_this_machine_by_default() {
        for (address, answer) in [
            ("https://example.org/mcp", Ok(())),
            ("http://localhost:3000/mcp", Ok(())),
            ("http://127.9.9.9/", Ok(())),
            ("http://[::1]:1/", Ok(())),
            ("http://example.org/", Err(UrlProblem::PlainHttp)),
            ("http://localhost.example.org/", Err(UrlProblem::PlainHttp)),
            ("http://127.0.0.1.nip.io/", Err(UrlProblem::PlainHttp)),
            ("http://10.0.0.1/", Err(UrlProblem::PlainHttp)),
            ("file:///etc/passwd", Err(UrlProblem::NotHttp)),
            ("unix:///run/x.sock", Err(UrlProblem::NotHttp)),
            ("ws://example.org", Err(UrlProblem::NotHttp)),
            ("example.org", Err(UrlProblem::NotHttp)),
            ("", Err(UrlProblem::NotHttp)),
        ] {
            assert_eq!(check(address, PlainHttp::Loopback), answer, "{address}");
        }
        assert_eq!(check("http://example.org/", PlainHttp::Anywhere), Ok(()));
    }
}
