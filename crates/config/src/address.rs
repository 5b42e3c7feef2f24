//! Which addresses a server may be at.

use std::net::IpAddr;

use url::{Host, Url};

use crate::server::PlainHttp;

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    NotWeb,
    Plain,
}

impl Refused {
    /// In words, after "must be".
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Self::NotWeb => "an http or https address",
            Self::Plain => {
                "an https address, since it leaves this machine; `\"allowInsecureHttp\": true` sends it unprotected"
            }
        }
    }
}

/// What an address must be that credentials are sent to, after "must be".
pub(crate) const TO_SIGN_IN: &str = "an https address, or an http one of this machine";

/// Whether this is an address a server can be at.
pub fn is_web_address(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// Whether a server at this address may be dialled.
pub(crate) fn check(text: &str, plain: PlainHttp) -> Result<(), Refused> {
    if !is_web_address(text) {
        return Err(Refused::NotWeb);
    }
    let is_safe = Url::parse(text).is_ok_and(|url| url.scheme() == "https" || is_loopback(&url));
    if is_safe || plain == PlainHttp::Anywhere { Ok(()) } else { Err(Refused::Plain) }
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
    use super::{Refused, check};
    use crate::server::PlainHttp;

    #[test]
    fn plain_http_stays_on_this_machine_unless_it_is_said() {
        for (address, answer) in [
            ("https://example.org/mcp", Ok(())),
            ("http://localhost:3000/mcp", Ok(())),
            ("http://127.9.9.9/", Ok(())),
            ("http://[::1]:1/", Ok(())),
            ("http://example.org/", Err(Refused::Plain)),
            ("http://localhost.example.org/", Err(Refused::Plain)),
            ("http://127.0.0.1.nip.io/", Err(Refused::Plain)),
            ("http://10.0.0.1/", Err(Refused::Plain)),
            ("file:///etc/passwd", Err(Refused::NotWeb)),
            ("unix:///run/x.sock", Err(Refused::NotWeb)),
            ("ws://example.org", Err(Refused::NotWeb)),
            ("example.org", Err(Refused::NotWeb)),
            ("", Err(Refused::NotWeb)),
        ] {
            assert_eq!(check(address, PlainHttp::Loopback), answer, "{address}");
        }
        assert_eq!(check("http://example.org/", PlainHttp::Anywhere), Ok(()));
    }
}
