//! The guarded dialer: sends all requests to hosts other than the server itself.
//!
//! A server decides which authorization server and metadata URLs it names, so they are untrusted. Scheme, resolved
//! address, redirects, size and time are checked when a URL is dialled. Private addresses can be reached only if the
//! server itself is in the same range.

use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use tokio::time::timeout;
use toolway_wire::{
    error::WireError,
    limit::Limits,
    up::{
        client::HttpClient,
        connector::{AddressGuard, HttpOptions},
        fetch::FetchLimits,
    },
};
use url::{Host, Url};

use crate::{
    fetch::{Fetch, FetchError},
    range::Range,
};

/// Limits of one document or token response.
const LIMITS: FetchLimits = FetchLimits { bytes: 1024 * 1024, time: Duration::from_secs(30), redirects: 3 };

/// Fetches on behalf of one server.
pub struct GuardedDialer {
    client: HttpClient,
    server: Url,
    guard: Arc<Guard>,
    reach: Reach,
}

/// Hosts that a dialer may contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Any host, over https.
    Anywhere,
    /// One host that the operator configured, also over http.
    OneHost,
}

/// Checks each resolved address before it is dialled.
struct Guard {
    /// Host of the server, from the configuration.
    server: String,
    /// Host and port of the proxy.
    proxy: Option<(String, u16)>,
    /// Address ranges of the server itself; set before anything is dialled.
    server_ranges: OnceLock<BTreeSet<Range>>,
}

impl GuardedDialer {
    /// A dialer for URLs that the server at this URL refers to.
    pub fn new(server: Url, options: HttpOptions) -> Self {
        let proxy = options.https_proxy.as_deref().and_then(|proxy| Url::parse(proxy).ok());
        let guard = Arc::new(Guard {
            server: host_of(&server),
            proxy: proxy.as_ref().and_then(|proxy| Some((host_of(proxy), proxy.port_or_known_default()?))),
            server_ranges: OnceLock::new(),
        });
        let options = HttpOptions { guard: Some(Arc::clone(&guard) as Arc<dyn AddressGuard>), ..options };
        Self { client: HttpClient::new(options, &Limits::default()), server, guard, reach: Reach::Anywhere }
    }

    /// A dialer for one host that the operator configured and that speaks http, such as a cloud metadata server. It
    /// contacts no other host and uses no proxy.
    pub fn to_one_host(host: Url, options: HttpOptions) -> Self {
        Self { reach: Reach::OneHost, ..Self::new(host, HttpOptions { https_proxy: None, ..options }) }
    }

    /// Allows https, and http to this machine or to the one host.
    fn check(&self, request: &Request<Bytes>) -> Result<(), String> {
        let url = Url::parse(&request.uri().to_string()).map_err(|_| "the URL is invalid".to_owned())?;
        let is_the_host = url.origin() == self.server.origin();
        match (self.reach, url.scheme()) {
            (Reach::OneHost, "https" | "http") if is_the_host => Ok(()),
            (Reach::OneHost, _) => Err("only the configured host may be contacted".to_owned()),
            (Reach::Anywhere, "https") => Ok(()),
            (Reach::Anywhere, "http") if is_this_machine(&url) => Ok(()),
            (Reach::Anywhere, "http") => Err("credentials are sent over https only".to_owned()),
            (Reach::Anywhere, other) => Err(format!("`{other}` is neither https nor http")),
        }
    }

    /// Determines the address ranges of the server itself. Loopback and link-local count only if the configuration
    /// names them literally, because the owner of a DNS name chooses what it resolves to, and may change it between two
    /// lookups.
    async fn resolve_server(&self) {
        if self.guard.server_ranges.get().is_some() {
            return;
        }
        let places = match self.server.host() {
            _ if is_this_machine(&self.server) => BTreeSet::from([Range::Loopback]),
            Some(Host::Ipv4(address)) => BTreeSet::from([Range::of(address.into())]),
            Some(Host::Ipv6(address)) => BTreeSet::from([Range::of(address.into())]),
            Some(Host::Domain(name)) => {
                let port = self.server.port_or_known_default().unwrap_or_default();
                // The lookup may succeed later.
                let Ok(found) = tokio::net::lookup_host((name, port)).await else { return };
                trusted_ranges(found.map(|address| Range::of(address.ip())).collect())
            }
            None => BTreeSet::new(),
        };
        // Concurrent lookups had the same result.
        let _first = self.guard.server_ranges.set(places);
    }

    /// Checks literal IP addresses here, because a proxy would dial them unchecked.
    fn check_ip_literal(&self, request: &Request<Bytes>) -> Result<(), String> {
        let uri = request.uri();
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        match host.parse::<IpAddr>() {
            Ok(address) => self.guard.check(host, SocketAddr::new(address, uri.port_u16().unwrap_or_default())),
            Err(_) => Ok(()),
        }
    }
}

impl Fetch for GuardedDialer {
    fn fetch(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        Box::pin(async move {
            let target = redacted(&request);
            if let Err(reason) = self.check(&request) {
                return Err(FetchError::Refused { target, reason });
            }
            // The name lookup of the system has no time limit of its own.
            if timeout(LIMITS.time, self.resolve_server()).await.is_err() {
                return Err(FetchError::TimedOut { target });
            }
            if let Err(reason) = self.check_ip_literal(&request) {
                return Err(FetchError::Refused { target, reason });
            }
            self.client.fetch(request, LIMITS).await.map_err(|error| fetch_error(target, error))
        })
    }
}

impl AddressGuard for Guard {
    /// CVE-2026-79747, CVE-2026-77822: the name was checked and something else was dialled.
    fn check(&self, host: &str, address: SocketAddr) -> Result<(), String> {
        let range = Range::of(address.ip());
        let is_proxy = self.proxy.as_ref().is_some_and(|(proxy, port)| host == proxy && address.port() == *port);
        if !is_proxy && is_name_of_this_machine(host) && range != Range::Loopback {
            return Err(format!("its name denotes this machine, but resolves to {range}"));
        }
        let near_server = self.server_ranges.get().is_some_and(|places| places.contains(&range));
        if range == Range::Public || near_server || host == self.server || is_proxy {
            return Ok(());
        }
        Err(format!("it is {range}, and only a server with such an address may refer to it"))
    }
}

/// Ranges that a resolved name opens: the private network, and only if all its addresses are private.
fn trusted_ranges(found: BTreeSet<Range>) -> BTreeSet<Range> {
    if found == BTreeSet::from([Range::Private]) { found } else { BTreeSet::new() }
}

/// Whether a URL names this machine, decided without a lookup.
pub fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => is_name_of_this_machine(name),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn is_name_of_this_machine(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned()
}

/// The URL without query and user information.
fn redacted(request: &Request<Bytes>) -> String {
    let uri = request.uri();
    let host = uri.authority().map(|authority| authority.as_str().rsplit('@').next().unwrap_or_default());
    format!("{}://{}{}", uri.scheme_str().unwrap_or_default(), host.unwrap_or_default(), uri.path())
}

fn fetch_error(target: String, error: WireError) -> FetchError {
    match error {
        WireError::Refused(reason) => FetchError::Refused { target, reason },
        WireError::Redirect { location, reason } => {
            FetchError::Refused { target, reason: format!("it redirects to `{location}`: {reason}") }
        }
        WireError::TooLarge { limit, .. } => FetchError::TooLarge { target, limit },
        WireError::TimedOut { .. } => FetchError::TimedOut { target },
        WireError::Unreachable { reason, .. } => FetchError::Unreachable { target, reason },
        other => FetchError::Unreachable { target, reason: other.to_string() },
    }
}

impl fmt::Debug for GuardedDialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedDialer").field("server", &self.guard.server).finish_non_exhaustive()
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("server", &self.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bytes::Bytes;
    use http::Request;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        task::JoinSet,
    };
    use toolway_wire::up::connector::{AddressGuard, HttpOptions};
    use url::Url;

    use super::{GuardedDialer, trusted_ranges};
    use crate::{
        fetch::{Fetch, FetchError},
        range::Range,
    };

    fn dialer(server: &str) -> GuardedDialer {
        GuardedDialer::new(Url::parse(server).unwrap(), HttpOptions::default())
    }

    fn get(address: &str) -> Request<Bytes> {
        Request::get(address).body(Bytes::new()).unwrap()
    }

    /// Answers each request with these bytes until the `JoinSet` is dropped.
    async fn answering(reply: String) -> (String, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 4096];
                let _read = stream.read(&mut head).await;
                let _written = stream.write_all(reply.as_bytes()).await;
            }
        });
        (format!("http://{address}"), serving)
    }

    #[tokio::test]
    async fn public_server_cannot_refer_to_private_addresses() {
        let guarded = dialer("https://203.0.113.9/mcp");
        guarded.resolve_server().await;
        for (host, address, passes) in [
            ("login.example", "203.0.113.7:443", true),
            ("203.0.113.9", "203.0.113.9:443", true),
            ("login.example", "127.0.0.1:443", false),
            ("login.example", "10.1.2.3:443", false),
            ("login.example", "169.254.169.254:80", false),
            ("login.example", "[::ffff:10.1.2.3]:443", false),
            ("login.example", "[fd00::1]:443", false),
            ("login.localhost", "203.0.113.7:80", false),
        ] {
            assert_eq!(guarded.guard.check(host, address.parse().unwrap()).is_ok(), passes, "{host} at {address}");
        }
    }

    #[tokio::test]
    async fn private_server_can_refer_to_its_own_range_only() {
        let guarded = dialer("http://127.0.0.1:9/mcp");
        guarded.resolve_server().await;
        assert!(guarded.guard.check("login", "127.0.0.1:443".parse().unwrap()).is_ok());
        assert!(guarded.guard.check("login", "169.254.169.254:80".parse().unwrap()).is_err());
        assert!(guarded.guard.check("login", "10.0.0.1:443".parse().unwrap()).is_err());
    }

    /// CVE-2026-79747: the owner of a name decides what it resolves to, and may change it.
    #[test]
    fn resolved_name_does_not_open_loopback_or_link_local() {
        for found in [Range::Loopback, Range::LinkLocal, Range::Special, Range::Public] {
            assert!(trusted_ranges(BTreeSet::from([found])).is_empty(), "{found}");
            assert!(trusted_ranges(BTreeSet::from([found, Range::Private])).is_empty(), "{found} and private");
        }
        assert_eq!(trusted_ranges(BTreeSet::from([Range::Private])), BTreeSet::from([Range::Private]));
    }

    /// A proxy would dial the address unchecked.
    #[tokio::test]
    async fn literal_addresses_are_checked_before_the_proxy_is_used() {
        let (proxy, _serving) = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_owned()).await;
        let options = HttpOptions { https_proxy: Some(proxy), ..HttpOptions::default() };
        let guarded = GuardedDialer::new(Url::parse("https://203.0.113.9/mcp").unwrap(), options);
        for address in ["https://169.254.169.254/latest", "https://10.0.0.1/", "https://[::1]/", "https://127.0.0.1/"] {
            let refused = guarded.fetch(get(address)).await;
            assert!(
                matches!(&refused, Err(FetchError::Refused { reason, .. }) if reason.contains("may refer to it")),
                "{address}: {refused:?}"
            );
        }
    }

    #[tokio::test]
    async fn plain_http_and_other_schemes_are_refused() {
        for address in ["http://login.example/token", "ftp://login.example/", "file:///etc/passwd"] {
            let Ok(request) = Request::get(address).body(Bytes::new()) else { continue };
            let refused = dialer("https://203.0.113.9/mcp").fetch(request).await;
            assert!(matches!(refused, Err(FetchError::Refused { .. })), "{address}: {refused:?}");
        }
    }

    #[tokio::test]
    async fn one_host_dialer_reaches_its_host_over_http_and_no_other() {
        let (machine, _serving) = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_owned()).await;
        let (other, _serving) = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_owned()).await;
        let named = GuardedDialer::to_one_host(Url::parse(&machine).unwrap(), HttpOptions::default());
        assert_eq!(named.fetch(get(&format!("{machine}/token"))).await.unwrap().status().as_u16(), 200);
        for elsewhere in [other.as_str(), "https://login.example/", &machine.replace("http://", "https://")] {
            let refused = named.fetch(get(elsewhere)).await;
            assert!(matches!(refused, Err(FetchError::Refused { .. })), "{elsewhere}: {refused:?}");
        }
        let named = GuardedDialer::to_one_host(Url::parse("http://169.254.169.254").unwrap(), HttpOptions::default());
        named.resolve_server().await;
        assert!(named.check(&get("http://169.254.169.254/token")).is_ok());
        assert!(named.guard.check("169.254.169.254", "169.254.169.254:80".parse().unwrap()).is_ok());
    }

    /// CVE-2026-27826: the first URL was checked, and the one it redirected to was not.
    #[tokio::test]
    async fn redirect_to_another_origin_is_refused_and_oversized_response_is_not_read() {
        let (other, _serving) = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_owned()).await;
        let (first, _serving) =
            answering(format!("HTTP/1.1 302 Found\r\nLocation: {other}/x\r\nContent-Length: 0\r\n\r\n")).await;
        let refused = dialer(&first).fetch(get(&first)).await;
        assert!(
            matches!(&refused, Err(FetchError::Refused { reason, .. }) if reason.contains("another origin")),
            "{refused:?}"
        );
        let (long, _serving) = answering("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n".to_owned()).await;
        let refused = dialer(&long).fetch(get(&format!("{long}/?key=s3cret"))).await;
        assert!(
            matches!(&refused, Err(FetchError::TooLarge { target, .. }) if !target.contains("s3cret")),
            "{refused:?}"
        );
        let good = dialer(&other).fetch(get(&other)).await.unwrap();
        assert_eq!((good.status().as_u16(), &**good.body()), (200, &b"{}"[..]));
    }
}
