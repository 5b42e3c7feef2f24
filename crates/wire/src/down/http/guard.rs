//! Checks the `Host` and `Origin` headers, so that web pages cannot reach this server by DNS rebinding.

use http::{HeaderMap, HeaderName, StatusCode, header};

/// Accepted hosts and origins.
#[derive(Clone, Debug)]
pub struct HostGuard {
    /// `None`: everything is accepted, because the embedding server checks.
    hosts: Option<Vec<String>>,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardRefusal {
    /// HTTP status of the response.
    pub status: StatusCode,
    /// Text for the client.
    pub reason: &'static str,
    /// The header whose value is not accepted.
    header: Option<HeaderName>,
}

/// Longest part of a header value in a message, in characters.
const SHOWN_CHARS: usize = 100;

impl GuardRefusal {
    fn forbidden(reason: &'static str) -> Self {
        Self { status: StatusCode::FORBIDDEN, reason, header: None }
    }

    /// What the request sent, and the setting that would accept it. Contains text of the client.
    pub fn for_operator(&self, headers: &HeaderMap) -> String {
        let Some(sent) = self.header.as_ref().and_then(|header| headers.get(header)) else {
            return self.reason.to_owned();
        };
        let sent: String = String::from_utf8_lossy(sent.as_bytes()).chars().take(SHOWN_CHARS).collect();
        let word = if self.header == Some(header::HOST) { "host" } else { "origin" };
        let name = host_of(sent.strip_prefix("http://").or_else(|| sent.strip_prefix("https://")).unwrap_or(&sent));
        format!("{word} not allowed: `{sent}`; to accept it, add `{name}` to `gateway.hosts`")
    }
}

impl HostGuard {
    /// Accepts only the loopback names. Any other `Host` or `Origin` is refused, `null` included.
    ///
    /// CVE-2025-64443, CVE-2025-66414, CVE-2025-66416, CVE-2026-42559: DNS rebinding.
    pub fn loopback() -> Self {
        Self { hosts: Some(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).to_vec()) }
    }

    /// Accepts everything: for a downstream behind a server that has its own guard.
    pub fn disabled() -> Self {
        Self { hosts: None }
    }

    /// As [`HostGuard::loopback`], plus these host names.
    pub fn and_hosts(names: impl IntoIterator<Item = String>) -> Self {
        let Self { hosts } = Self::loopback();
        let names = names.into_iter().map(|name| name.to_ascii_lowercase());
        Self { hosts: hosts.map(|hosts| hosts.into_iter().chain(names).collect()) }
    }

    /// Checks the headers of a request.
    pub fn admit(&self, headers: &HeaderMap) -> Result<(), GuardRefusal> {
        let Some(hosts) = &self.hosts else { return Ok(()) };
        let mut named = headers.get_all(header::HOST).iter();
        let Some(host) = named.next() else { return Err(GuardRefusal::forbidden("missing `Host` header")) };
        // RFC 9112, 3.2: parsers on the way may use different ones.
        if named.next().is_some() {
            let reason = "more than one `Host` header";
            return Err(GuardRefusal { status: StatusCode::BAD_REQUEST, reason, header: None });
        }
        if !host.to_str().is_ok_and(|host| is_allowed(hosts, host)) {
            let refusal = GuardRefusal::forbidden("host not allowed: not a name of this server");
            return Err(GuardRefusal { header: Some(header::HOST), ..refusal });
        }
        for origin in headers.get_all(header::ORIGIN) {
            let host = origin
                .to_str()
                .ok()
                .and_then(|origin| origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")));
            if !host.is_some_and(|host| is_allowed(hosts, host)) {
                let refusal = GuardRefusal::forbidden("origin not allowed");
                return Err(GuardRefusal { header: Some(header::ORIGIN), ..refusal });
            }
        }
        Ok(())
    }
}

fn is_allowed(hosts: &[String], authority: &str) -> bool {
    let name = host_of(authority);
    hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

/// An authority without its port.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::HostGuard;

    fn is_accepted(host: &'static str, origin: Option<&'static str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static(host));
        if let Some(origin) = origin {
            headers.insert("origin", HeaderValue::from_static(origin));
        }
        HostGuard::loopback().admit(&headers).is_ok()
    }

    #[test]
    fn only_loopback_names_are_accepted() {
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:9", "[::1]"] {
            assert!(is_accepted(host, None), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "localhost@evil.example:80"]
        {
            assert!(!is_accepted(host, None), "{host}");
        }
        assert!(HostGuard::loopback().admit(&HeaderMap::new()).is_err());
    }

    #[test]
    fn two_hosts_are_a_bad_request() {
        let mut headers = HeaderMap::new();
        headers.append("host", HeaderValue::from_static("localhost"));
        headers.append("host", HeaderValue::from_static("localhost"));
        assert_eq!(HostGuard::loopback().admit(&headers).unwrap_err().status, 400);
    }

    #[test]
    fn foreign_origin_is_refused() {
        assert!(is_accepted("localhost", Some("http://localhost:3000")));
        for origin in ["null", "http://evil.example", "https://localhost.evil.example", "file://", "localhost"] {
            assert!(!is_accepted("localhost", Some(origin)), "{origin}");
        }
    }
}
