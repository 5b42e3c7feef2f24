//! Exact `Host` and `Origin`, so that other web pages and other names of this machine cannot use the console.

use std::net::SocketAddr;

use http::{HeaderMap, header};

/// The accepted authorities of one listener.
#[derive(Clone, Debug)]
pub(crate) struct ExactGuard {
    /// `127.0.0.1:7718`, `localhost:7718`.
    authorities: Vec<String>,
    /// `http://` or `https://`.
    scheme: &'static str,
}

/// Whether a request may do without an `Origin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OriginNeed {
    /// A request that reads: browsers send none, programs need none.
    IfPresent,
    /// A request that changes something: browsers always send one.
    Required,
}

impl ExactGuard {
    /// The names under which a loopback address is reached. Other addresses have their own name only.
    pub(crate) fn of(address: SocketAddr) -> Self {
        let mut authorities = vec![address.to_string()];
        if address.ip().is_loopback() {
            authorities.push(format!("localhost:{}", address.port()));
        }
        Self { authorities, scheme: "http://" }
    }

    /// The given names of a listener with TLS, and its own address.
    pub(crate) fn over_tls(address: SocketAddr, hosts: &[String]) -> Self {
        let Self { mut authorities, .. } = Self::of(address);
        authorities.extend(hosts.iter().map(|host| format!("{host}:{}", address.port())));
        Self { authorities, scheme: "https://" }
    }

    /// Checks `Host`, `Origin` and `Sec-Fetch-Site`; returns why the request is refused.
    pub(crate) fn check(&self, headers: &HeaderMap, need: OriginNeed) -> Result<(), &'static str> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) else {
            return Err("exactly one `Host` header is required");
        };
        if !self.authorities.iter().any(|known| known == host) {
            return Err("`Host` is not the address of this console");
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        match (origins.next(), origins.next(), need) {
            (None, _, OriginNeed::IfPresent) => {}
            (None, _, OriginNeed::Required) => return Err("an `Origin` header is required"),
            (Some(origin), None, _) if origin.to_str().is_ok_and(|origin| self.is_origin_of(origin, host)) => {}
            (Some(_), ..) => return Err("`Origin` is not this console"),
        }
        Ok(())
    }

    fn is_origin_of(&self, origin: &str, host: &str) -> bool {
        origin.strip_prefix(self.scheme) == Some(host)
    }

    /// Whether a browser says that a page of another origin sent the request. Only requests of the API are checked: a
    /// link to the console may be on any page.
    pub(crate) fn is_foreign_fetch(headers: &HeaderMap) -> bool {
        let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        site.is_some_and(|site| site != b"same-origin" && site != b"none")
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::{ExactGuard, OriginNeed};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    fn is_accepted(pairs: &[(&'static str, &'static str)], need: OriginNeed) -> bool {
        ExactGuard::of("127.0.0.1:7718".parse().unwrap()).check(&headers(pairs), need).is_ok()
    }

    #[test]
    fn host_is_exact() {
        for host in ["127.0.0.1:7718", "localhost:7718"] {
            assert!(is_accepted(&[("host", host)], OriginNeed::IfPresent), "{host}");
        }
        for host in ["127.0.0.1", "localhost", "127.0.0.1:80", "evil.example:7718", "LOCALHOST:7718", ""] {
            assert!(!is_accepted(&[("host", host)], OriginNeed::IfPresent), "{host}");
        }
        let twice = [("host", "localhost:7718"), ("host", "localhost:7718")];
        assert!(!is_accepted(&twice, OriginNeed::IfPresent) && !is_accepted(&[], OriginNeed::IfPresent));
    }

    #[test]
    fn origin_is_the_one_of_the_host() {
        let of = |origin| [("host", "localhost:7718"), ("origin", origin)];
        assert!(is_accepted(&of("http://localhost:7718"), OriginNeed::Required));
        for origin in
            ["null", "http://127.0.0.1:7718", "http://localhost:3000", "https://localhost:7718", "http://localhost"]
        {
            assert!(!is_accepted(&of(origin), OriginNeed::IfPresent), "{origin}");
        }
        assert!(!is_accepted(&[("host", "localhost:7718")], OriginNeed::Required));
    }

    #[test]
    fn over_tls_the_origin_is_https_and_the_host_one_of_the_given_names() {
        let guard = ExactGuard::over_tls("0.0.0.0:7718".parse().unwrap(), &["tools.example".to_owned()]);
        let of = |host, origin| headers(&[("host", host), ("origin", origin)]);
        let host = "tools.example:7718";
        assert!(guard.check(&of(host, "https://tools.example:7718"), OriginNeed::Required).is_ok());
        assert!(guard.check(&of(host, "http://tools.example:7718"), OriginNeed::Required).is_err());
        assert!(guard.check(&of("evil.example:7718", "https://evil.example:7718"), OriginNeed::Required).is_err());
    }

    #[test]
    fn fetches_of_other_pages_are_recognised() {
        for (site, foreign) in [("same-origin", false), ("none", false), ("same-site", true), ("cross-site", true)] {
            assert_eq!(ExactGuard::is_foreign_fetch(&headers(&[("sec-fetch-site", site)])), foreign, "{site}");
        }
        assert!(!ExactGuard::is_foreign_fetch(&HeaderMap::new()));
    }
}
