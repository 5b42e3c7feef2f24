//! Who may come in over HTTP: a page in somebody's browser may not, whatever name it gives this machine.

use http::{HeaderMap, header};

/// The hosts and origins that are let in.
#[derive(Clone, Debug)]
pub struct HostGuard {
    /// None where somebody in front has looked already.
    hosts: Option<Vec<String>>,
}

impl HostGuard {
    /// Only who speaks to this machine by its own name. A foreign `Host` or `Origin` is turned away, `null` too.
    ///
    /// CVE-2025-64443, CVE-2025-66414, CVE-2025-66416, CVE-2026-42559: DNS rebinding.
    pub fn loopback() -> Self {
        Self { hosts: Some(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).to_vec()) }
    }

    /// Nobody is turned away: for a downstream behind somebody who has a guard.
    pub fn in_front() -> Self {
        Self { hosts: None }
    }

    /// As [`HostGuard::loopback`], and these names besides.
    pub fn and_hosts(names: impl IntoIterator<Item = String>) -> Self {
        let Self { hosts } = Self::loopback();
        let names = names.into_iter().map(|name| name.to_ascii_lowercase());
        Self { hosts: hosts.map(|hosts| hosts.into_iter().chain(names).collect()) }
    }

    /// Whether a request with these headers may come in; else why not.
    pub fn admit(&self, headers: &HeaderMap) -> Result<(), &'static str> {
        let Some(hosts) = &self.hosts else { return Ok(()) };
        let Some(host) = headers.get(header::HOST) else { return Err("no Host header") };
        if !host.to_str().is_ok_and(|host| knows(hosts, host)) {
            return Err("not a name of this server");
        }
        for origin in headers.get_all(header::ORIGIN) {
            let host = origin
                .to_str()
                .ok()
                .and_then(|origin| origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")));
            if !host.is_some_and(|host| knows(hosts, host)) {
                return Err("pages of this origin may not come in");
            }
        }
        Ok(())
    }
}

fn knows(hosts: &[String], authority: &str) -> bool {
    let name = match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => authority,
    };
    hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::HostGuard;

    fn verdict(host: &'static str, origin: Option<&'static str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static(host));
        if let Some(origin) = origin {
            headers.insert("origin", HeaderValue::from_static(origin));
        }
        HostGuard::loopback().admit(&headers).is_ok()
    }

    #[test]
    fn only_this_machine_by_its_own_name() {
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:9", "[::1]"] {
            assert!(verdict(host, None), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "localhost@evil.example:80"]
        {
            assert!(!verdict(host, None), "{host}");
        }
        assert!(HostGuard::loopback().admit(&HeaderMap::new()).is_err());
    }

    #[test]
    fn a_foreign_page_is_turned_away() {
        assert!(verdict("localhost", Some("http://localhost:3000")));
        for origin in ["null", "http://evil.example", "https://localhost.evil.example", "file://", "localhost"] {
            assert!(!verdict("localhost", Some(origin)), "{origin}");
        }
    }
}
