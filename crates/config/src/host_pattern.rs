//! Hosts as a user writes them: `example.org`, `*.example.org`, an IP address, or `*` for any.

use std::{fmt, net::Ipv6Addr, str::FromStr};

use url::Host;

/// A host, its subdomains, or any host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    written: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Any,
    Exactly(String),
    /// With the dot before it.
    Below(String),
}

/// A text that is not a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid host `{0}`: expected `example.org`, `*.example.org`, an IP address or `*`, without scheme, port or path"
)]
pub struct InvalidHost(pub String);

/// One spelling of a host: ASCII in lower case without a dot at its end, IPv4 in decimal, also inside IPv6. `None` if it is
/// not a host. IPv6 addresses stand in brackets.
pub fn canonical_host(host: &str) -> Option<String> {
    match Host::parse(host).ok()? {
        Host::Domain(domain) => Some(domain.trim_end_matches('.').to_owned()).filter(|domain| !domain.is_empty()),
        Host::Ipv4(address) => Some(address.to_string()),
        Host::Ipv6(address) => {
            Some(address.to_ipv4_mapped().map_or_else(|| format!("[{address}]"), |v4| v4.to_string()))
        }
    }
}

impl HostPattern {
    /// Whether it covers a host in its canonical spelling.
    pub fn matches(&self, host: &str) -> bool {
        match &self.kind {
            Kind::Any => true,
            Kind::Exactly(wanted) => host == wanted,
            Kind::Below(ending) => host.len() > ending.len() && host.ends_with(ending.as_str()),
        }
    }
}

impl FromStr for HostPattern {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let invalid = || InvalidHost(text.to_owned());
        let canonical = |host: &str| {
            let is_plain = !host.contains(|c: char| c.is_whitespace() || c.is_control() || "/\\?#@%*".contains(c));
            let is_ipv6 = host.parse::<Ipv6Addr>().is_ok();
            let host = if is_ipv6 { format!("[{host}]") } else { host.to_owned() };
            canonical_host(&host).filter(|_| is_plain).ok_or_else(invalid)
        };
        let kind = match (text, text.strip_prefix("*.")) {
            ("*", _) => Kind::Any,
            (_, Some(domain)) => Kind::Below(format!(".{}", canonical(domain)?)),
            (_, None) => Kind::Exactly(canonical(text)?),
        };
        Ok(Self { written: text.to_owned(), kind })
    }
}

/// As it was written.
impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::{HostPattern, canonical_host};

    #[test]
    fn a_host_has_one_spelling() {
        for (written, expected) in [
            ("Example.ORG.", "example.org"),
            ("ｅxample。org", "example.org"),
            ("ex\u{ad}ample.org", "example.org"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("0x7f.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0177.0.0.1", "127.0.0.1"),
            ("[::ffff:127.0.0.1]", "127.0.0.1"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(canonical_host(written).as_deref(), Some(expected), "{written}");
        }
    }

    #[test]
    fn a_pattern_covers_one_host_its_subdomains_or_any() {
        let covers = |pattern: &str, host: &str| pattern.parse::<HostPattern>().unwrap().matches(host);
        assert!(covers("Example.org", "example.org") && !covers("example.org", "a.example.org"));
        assert!(covers("*.example.org", "a.b.example.org") && !covers("*.example.org", "example.org"));
        assert!(!covers("*.example.org", "evilexample.org") && covers("*", "anything"));
        assert!(covers("::1", "[::1]") && covers("127.1", "127.0.0.1"));
        for invalid in
            ["", "https://example.org", "example.org/x", "example.org:80", "a b", "ex*mple.org", "*.*", "a@b"]
        {
            assert!(invalid.parse::<HostPattern>().is_err(), "{invalid}");
        }
    }
}
