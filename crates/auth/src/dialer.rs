//! The guarded dialer: everything that is asked of somebody else than the server itself leaves the machine here.
//!
//! What a server says about where to sign in is a stranger's word. So each address it leads to is checked when it is dialled
//! and not before: the scheme, the address its name resolves to, each redirect, size and time. Private places can be reached
//! only by servers that are in such a place themselves.

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
        fetch::Portion,
    },
};
use url::{Host, Url};

use crate::{
    fetch::{Fetch, FetchError},
    range::Range,
};

/// What one document or token may take.
const PORTION: Portion = Portion { bytes: 1024 * 1024, time: Duration::from_secs(30), redirects: 3 };

/// Fetches on behalf of one server.
pub struct GuardedDialer {
    client: HttpClient,
    server: Url,
    guard: Arc<Guard>,
    reach: Reach,
}

/// How far a dialer reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Wherever a server leads, over https.
    Anywhere,
    /// One host that the operator named, also over http.
    OneHost,
}

/// Sees each address before it is dialled.
struct Guard {
    /// The host of the server, which is where the configuration says.
    server: String,
    /// The host and port of the proxy.
    proxy: Option<(String, u16)>,
    /// The kinds of places the server itself is in; known before anything is dialled.
    neighbourhood: OnceLock<BTreeSet<Range>>,
}

impl GuardedDialer {
    /// A dialer for what the server at this address leads to.
    pub fn new(server: Url, options: HttpOptions) -> Self {
        let proxy = options.https_proxy.as_deref().and_then(|proxy| Url::parse(proxy).ok());
        let guard = Arc::new(Guard {
            server: host_of(&server),
            proxy: proxy.as_ref().and_then(|proxy| Some((host_of(proxy), proxy.port_or_known_default()?))),
            neighbourhood: OnceLock::new(),
        });
        let options = HttpOptions { guard: Some(Arc::clone(&guard) as Arc<dyn AddressGuard>), ..options };
        Self { client: HttpClient::new(options, &Limits::default()), server, guard, reach: Reach::Anywhere }
    }

    /// A dialer for one host that the operator named and that speaks http, such as a cloud's machine about itself. Nothing
    /// else is reached on it, and nobody is in between.
    pub fn to_one_host(host: Url, options: HttpOptions) -> Self {
        Self { reach: Reach::OneHost, ..Self::new(host, HttpOptions { https_proxy: None, ..options }) }
    }

    /// Only https, and http to this machine or to the one host.
    fn check(&self, request: &Request<Bytes>) -> Result<(), String> {
        let url = Url::parse(&request.uri().to_string()).map_err(|_| "it is no address".to_owned())?;
        let is_the_host = url.origin() == self.server.origin();
        match (self.reach, url.scheme()) {
            (Reach::OneHost, "https" | "http") if is_the_host => Ok(()),
            (Reach::OneHost, _) => Err("it is not the host that was named".to_owned()),
            (Reach::Anywhere, "https") => Ok(()),
            (Reach::Anywhere, "http") if is_this_machine(&url) => Ok(()),
            (Reach::Anywhere, "http") => Err("credentials travel over https only".to_owned()),
            (Reach::Anywhere, other) => Err(format!("`{other}` is neither https nor http")),
        }
    }

    /// Finds out where the server itself is. That it is on this machine or on the same wire counts only if the configuration
    /// says so in as many words: what its name leads to is for a stranger to say, and to change between two looks.
    async fn look_around(&self) {
        if self.guard.neighbourhood.get().is_some() {
            return;
        }
        let places = match self.server.host() {
            _ if is_this_machine(&self.server) => BTreeSet::from([Range::Loopback]),
            Some(Host::Ipv4(address)) => BTreeSet::from([Range::of(address.into())]),
            Some(Host::Ipv6(address)) => BTreeSet::from([Range::of(address.into())]),
            Some(Host::Domain(name)) => {
                let port = self.server.port_or_known_default().unwrap_or_default();
                // One that cannot be found now may be found later.
                let Ok(found) = tokio::net::lookup_host((name, port)).await else { return };
                opened_by(found.map(|address| Range::of(address.ip())).collect())
            }
            None => BTreeSet::new(),
        };
        // Whoever looked at the same time saw the same.
        let _first = self.guard.neighbourhood.set(places);
    }

    /// Addresses that stand there as numbers are judged before a proxy could be asked for them.
    fn check_numbers(&self, request: &Request<Bytes>) -> Result<(), String> {
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
            let target = shown(&request);
            if let Err(reason) = self.check(&request) {
                return Err(FetchError::Refused { target, reason });
            }
            // The system's own look-up of names may take its time.
            if timeout(PORTION.time, self.look_around()).await.is_err() {
                return Err(FetchError::TimedOut { target });
            }
            if let Err(reason) = self.check_numbers(&request) {
                return Err(FetchError::Refused { target, reason });
            }
            self.client.fetch(request, PORTION).await.map_err(|error| explained(target, error))
        })
    }
}

impl AddressGuard for Guard {
    /// CVE-2026-79747, CVE-2026-77822: the name was checked and something else was dialled.
    fn check(&self, host: &str, address: SocketAddr) -> Result<(), String> {
        let range = Range::of(address.ip());
        let is_proxy = self.proxy.as_ref().is_some_and(|(proxy, port)| host == proxy && address.port() == *port);
        if !is_proxy && is_name_of_this_machine(host) && range != Range::Loopback {
            return Err(format!("{range} is not this machine, which it is called"));
        }
        let at_home = self.neighbourhood.get().is_some_and(|places| places.contains(&range));
        if range == Range::Public || at_home || host == self.server || is_proxy {
            return Ok(());
        }
        Err(format!("{range} is not reached from a server that is not there itself"))
    }
}

/// The places that a name opens by leading to these: the operator's network, and only if it leads nowhere else.
fn opened_by(found: BTreeSet<Range>) -> BTreeSet<Range> {
    if found == BTreeSet::from([Range::Private]) { found } else { BTreeSet::new() }
}

/// Whether an address names this machine, without looking anything up.
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

/// The address without what people put into it.
fn shown(request: &Request<Bytes>) -> String {
    let uri = request.uri();
    let host = uri.authority().map(|authority| authority.as_str().rsplit('@').next().unwrap_or_default());
    format!("{}://{}{}", uri.scheme_str().unwrap_or_default(), host.unwrap_or_default(), uri.path())
}

fn explained(target: String, error: WireError) -> FetchError {
    match error {
        WireError::Refused(reason) => FetchError::Refused { target, reason },
        WireError::Redirect { location, reason } => {
            FetchError::Refused { target, reason: format!("it redirects to {location}: {reason}") }
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

    use super::{GuardedDialer, opened_by};
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

    /// Answers each request with these bytes, as long as what it gives is kept.
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
    async fn a_server_elsewhere_leads_to_no_private_place() {
        let guarded = dialer("https://203.0.113.9/mcp");
        guarded.look_around().await;
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
    async fn a_server_in_a_private_place_leads_to_its_neighbours_and_nowhere_else_private() {
        let guarded = dialer("http://127.0.0.1:9/mcp");
        guarded.look_around().await;
        assert!(guarded.guard.check("login", "127.0.0.1:443".parse().unwrap()).is_ok());
        assert!(guarded.guard.check("login", "169.254.169.254:80".parse().unwrap()).is_err());
        assert!(guarded.guard.check("login", "10.0.0.1:443".parse().unwrap()).is_err());
    }

    /// CVE-2026-79747: whoever owns a name says where it leads, and may say something else the next time.
    #[test]
    fn a_name_opens_no_place_of_this_machine() {
        for found in [Range::Loopback, Range::LinkLocal, Range::Special, Range::Public] {
            assert!(opened_by(BTreeSet::from([found])).is_empty(), "{found}");
            assert!(opened_by(BTreeSet::from([found, Range::Private])).is_empty(), "{found} and private");
        }
        assert_eq!(opened_by(BTreeSet::from([Range::Private])), BTreeSet::from([Range::Private]));
    }

    /// A proxy would be asked for the number, and nobody would see what it dials.
    #[tokio::test]
    async fn numbers_are_judged_before_a_proxy_is_asked_for_them() {
        let (proxy, _serving) = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_owned()).await;
        let options = HttpOptions { https_proxy: Some(proxy), ..HttpOptions::default() };
        let guarded = GuardedDialer::new(Url::parse("https://203.0.113.9/mcp").unwrap(), options);
        for address in ["https://169.254.169.254/latest", "https://10.0.0.1/", "https://[::1]/", "https://127.0.0.1/"] {
            let refused = guarded.fetch(get(address)).await;
            assert!(
                matches!(&refused, Err(FetchError::Refused { reason, .. }) if reason.contains("is not reached")),
                "{address}: {refused:?}"
            );
        }
    }

    #[tokio::test]
    async fn plain_http_and_other_schemes_are_not_dialled() {
        for address in ["http://login.example/token", "ftp://login.example/", "file:///etc/passwd"] {
            let Ok(request) = Request::get(address).body(Bytes::new()) else { continue };
            let refused = dialer("https://203.0.113.9/mcp").fetch(request).await;
            assert!(matches!(refused, Err(FetchError::Refused { .. })), "{address}: {refused:?}");
        }
    }

    #[tokio::test]
    async fn one_host_that_was_named_is_reached_over_http_and_no_other() {
        let (machine, _serving) = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_owned()).await;
        let (other, _serving) = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_owned()).await;
        let named = GuardedDialer::to_one_host(Url::parse(&machine).unwrap(), HttpOptions::default());
        assert_eq!(named.fetch(get(&format!("{machine}/token"))).await.unwrap().status().as_u16(), 200);
        for elsewhere in [other.as_str(), "https://login.example/", &machine.replace("http://", "https://")] {
            let refused = named.fetch(get(elsewhere)).await;
            assert!(matches!(refused, Err(FetchError::Refused { .. })), "{elsewhere}: {refused:?}");
        }
        let named = GuardedDialer::to_one_host(Url::parse("http://169.254.169.254").unwrap(), HttpOptions::default());
        named.look_around().await;
        assert!(named.check(&get("http://169.254.169.254/token")).is_ok());
        assert!(named.guard.check("169.254.169.254", "169.254.169.254:80".parse().unwrap()).is_ok());
    }

    /// CVE-2026-27826: the first address was checked, and the one it redirected to was not.
    #[tokio::test]
    async fn a_redirect_to_another_origin_is_refused_and_a_long_reply_is_not_read() {
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
