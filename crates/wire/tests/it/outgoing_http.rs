//! Outgoing HTTP connections: TLS, proxies, address guard, credentials.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;
use toolway_wire::{
    down::http::{HttpDownstream, HttpDownstreamOptions, ResponseBody},
    error::WireError,
    exchange::Outcome,
    json::Raw,
    limit::Limits,
    up::{
        ConnectOptions, EraChoice, Peer,
        client::HttpClient,
        connector::{AddressGuard, HttpOptions},
        credential::{Challenge, ChallengeAction, Credentials, NoCredentials, OutgoingRequest},
        http::HttpTransport,
    },
};
use url::Url;

use crate::test_service::TestService;

#[tokio::test]
async fn https_server_with_private_ca_needs_extra_ca() {
    let directory = tempfile::tempdir().unwrap();
    let (address, ca) = served_over_tls(directory.path()).await;
    let error = connect(&address, HttpOptions::default(), Arc::new(NoCredentials)).await.unwrap_err();
    assert_eq!(error.code(), "unreachable", "{error}");
    let options = HttpOptions { extra_ca: Some(ca), ..HttpOptions::default() };
    let peer = connect(&address, options, Arc::new(NoCredentials)).await.unwrap();
    assert!(echoes(&peer).await);
    let options = HttpOptions { extra_ca: Some(directory.path().join("missing.pem")), ..HttpOptions::default() };
    let error = connect(&address, options, Arc::new(NoCredentials)).await.unwrap_err();
    assert_eq!(error.code(), "refused", "{error}");
}

#[tokio::test]
async fn https_uses_the_proxy_unless_no_proxy_matches() {
    let directory = tempfile::tempdir().unwrap();
    let (address, ca) = served_over_tls(directory.path()).await;
    let (proxy, tunnels) = proxy().await;
    let options = HttpOptions { https_proxy: Some(proxy), extra_ca: Some(ca), ..HttpOptions::default() };
    let peer = connect(&address, options.clone(), Arc::new(NoCredentials)).await.unwrap();
    assert!(echoes(&peer).await);
    let used = tunnels.load(Ordering::Relaxed);
    assert!(1 <= used, "the proxy was not used");
    let options = HttpOptions { no_proxy: Some("localhost".to_owned()), ..options };
    let peer = connect(&address, options, Arc::new(NoCredentials)).await.unwrap();
    assert!(echoes(&peer).await);
    assert_eq!(tunnels.load(Ordering::Relaxed), used, "`no_proxy` was ignored");
}

/// CVE-2026-45609, 77261, 27826, 79747: the resolved address is checked when it is dialled, not the configured URL.
#[tokio::test]
async fn address_refused_by_the_guard_is_not_dialled() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://localhost:{}/mcp", listener.local_addr().unwrap().port());
    let options = HttpOptions { guard: Some(Arc::new(NoLoopback)), ..HttpOptions::default() };
    let error = connect(&address, options, Arc::new(NoCredentials)).await.unwrap_err();
    assert_eq!(error.code(), "refused", "{error}");
    assert!(error.to_string().contains("not on this machine"), "{error}");
    let dialled = tokio::time::timeout(std::time::Duration::from_millis(100), listener.accept()).await;
    assert!(dialled.is_err(), "the address was dialled");
}

#[tokio::test]
async fn credentials_are_used_for_each_request_and_get_each_challenge() {
    let (address, requests) = protected("let me in").await;
    let keys = Arc::new(Keys::new(&["wrong", "let me in"], ChallengeAction::Retry));
    let peer = connect(&address, HttpOptions::default(), Arc::clone(&keys) as Arc<dyn Credentials>).await.unwrap();
    assert!(echoes(&peer).await);
    let challenges = keys.challenges.lock().clone();
    assert_eq!(challenges.len(), 1, "{challenges:?}");
    assert_eq!((challenges[0].status, &challenges[0].method), (StatusCode::UNAUTHORIZED, &Method::POST));
    assert_eq!(challenges[0].challenges, [r#"Bearer realm="parrot", scope="all""#]);
    assert_eq!(challenges[0].presented.as_ref().unwrap(), "wrong");
    assert_eq!(challenges[0].nonce.as_ref().unwrap(), "once");
    assert_eq!(requests.load(Ordering::Relaxed), 3, "one refused, one retry, one call");
    assert_eq!(keys.responses.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn missing_nonce_is_retried_once_besides_a_refused_credential() {
    let (address, requests) = protected("let me in").await;
    let keys = Arc::new(Keys::new(&["wrong", "stale", "let me in"], ChallengeAction::Retry));
    assert!(echoes(&connect(&address, HttpOptions::default(), keys).await.unwrap()).await);
    assert_eq!(requests.swap(0, Ordering::Relaxed), 4, "refused, without the nonce, with it, one call");
    let keys = Arc::new(Keys::new(&["stale"], ChallengeAction::Retry));
    let error = connect(&address, HttpOptions::default(), keys).await.unwrap_err();
    assert_eq!(error.code(), "unauthorized", "{error}");
    assert_eq!(requests.load(Ordering::Relaxed), 2, "the nonce is retried once");
}

#[tokio::test]
async fn insufficient_scope_is_retried_once_besides_a_refused_credential() {
    let (address, requests) = protected("let me in").await;
    let keys = Arc::new(Keys::new(&["wrong", "weak", "let me in"], ChallengeAction::Retry));
    assert!(echoes(&connect(&address, HttpOptions::default(), keys).await.unwrap()).await);
    assert_eq!(requests.swap(0, Ordering::Relaxed), 4, "signed in, stepped up, one call");
    let keys = Arc::new(Keys::new(&["weak"], ChallengeAction::Retry));
    let error = connect(&address, HttpOptions::default(), keys).await.unwrap_err();
    assert_eq!(error.code(), "unauthorized", "{error}");
    assert_eq!(requests.load(Ordering::Relaxed), 2, "403 is retried once");
}

#[tokio::test]
async fn refusal_is_retried_once_and_does_not_affect_era_detection() {
    let (address, requests) = protected("let me in").await;
    for (next, expected) in [(ChallengeAction::Retry, 2), (ChallengeAction::GiveUp, 1)] {
        requests.store(0, Ordering::Relaxed);
        let keys = Arc::new(Keys::new(&["wrong", "wrong"], next));
        let error = connect(&address, HttpOptions::default(), keys).await.unwrap_err();
        assert_eq!(error.code(), "unauthorized", "{error}");
        assert_eq!(requests.load(Ordering::Relaxed), expected, "{next:?}");
    }
}

#[tokio::test]
async fn configured_headers_are_sent_but_cannot_replace_protocol_headers() {
    let (address, _) = protected("from the configuration").await;
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, HeaderValue::from_static("from the configuration"));
    headers.insert("mcp-method", HeaderValue::from_static("nonsense"));
    let limits = Limits::default();
    let client = HttpClient::new(HttpOptions::default(), &limits);
    let url = address.parse().unwrap();
    let transport = HttpTransport::new(client, url, headers, Arc::new(NoCredentials), limits);
    let options = ConnectOptions { era: EraChoice::Modern, ..ConnectOptions::default() };
    let peer = Peer::connect(Arc::new(transport), options).await.unwrap();
    assert!(echoes(&peer).await);
}

async fn connect(address: &str, options: HttpOptions, credentials: Arc<dyn Credentials>) -> Result<Peer, WireError> {
    let limits = Limits::default();
    let client = HttpClient::new(options, &limits);
    let transport = HttpTransport::new(client, address.parse().unwrap(), HeaderMap::new(), credentials, limits);
    Peer::connect(Arc::new(transport), ConnectOptions::default()).await
}

async fn echoes(peer: &Peer) -> bool {
    let outcome = peer.call_tool("echo", Some(Raw::parse(r#"{"a":1}"#).unwrap())).unwrap().outcome().await;
    matches!(outcome, Outcome::Answered(_))
}

/// A server behind TLS with a private CA; returns its URL and the CA file.
async fn served_over_tls(directory: &Path) -> (String, std::path::PathBuf) {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let ca = directory.join("ca.pem");
    std::fs::write(&ca, authority_certificate.pem()).unwrap();

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://localhost:{}/mcp", listener.local_addr().unwrap().port());
    let downstream = HttpDownstream::new(TestService::new(), HttpDownstreamOptions::default()).unwrap();
    tokio::runtime::Handle::current().spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, downstream) = (acceptor.clone(), Arc::clone(&downstream));
            tokio::runtime::Handle::current().spawn(async move {
                // A client that does not trust the CA closes the connection here.
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream, downstream, None).await;
                }
            });
        }
    });
    (address, ca)
}

/// A server that requires this `Authorization` header; returns its URL and a request counter.
async fn protected(secret: &'static str) -> (String, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    let downstream = HttpDownstream::new(TestService::new(), HttpDownstreamOptions::default()).unwrap();
    let counter = Arc::clone(&requests);
    tokio::runtime::Handle::current().spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let required = Some((secret, Arc::clone(&counter)));
            tokio::runtime::Handle::current().spawn(answer(stream, Arc::clone(&downstream), required));
        }
    });
    (address, requests)
}

type RequiredSecret = Option<(&'static str, Arc<AtomicUsize>)>;
type Answered = Response<http_body_util::Either<ResponseBody, Full<bytes::Bytes>>>;

async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    downstream: Arc<HttpDownstream>,
    required: RequiredSecret,
) {
    let respond = service_fn(|request: Request<Incoming>| {
        let (downstream, required) = (Arc::clone(&downstream), required.clone());
        async move { Ok::<Answered, std::convert::Infallible>(respond_if_authorized(request, &downstream, required).await) }
    });
    // Connection errors show at the client.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), respond).await);
}

async fn respond_if_authorized(
    request: Request<Incoming>,
    downstream: &HttpDownstream,
    required: RequiredSecret,
) -> Answered {
    if let Some((secret, requests)) = required {
        requests.fetch_add(1, Ordering::Relaxed);
        let given = request.headers().get(header::AUTHORIZATION).cloned();
        if given.as_ref().is_none_or(|given| given != secret) {
            let mut refused = Response::new(http_body_util::Either::Right(Full::default()));
            let weak = given.as_ref().is_some_and(|given| given == "weak");
            *refused.status_mut() = if weak { StatusCode::FORBIDDEN } else { StatusCode::UNAUTHORIZED };
            refused.headers_mut().insert("dpop-nonce", HeaderValue::from_static("once"));
            let challenge = HeaderValue::from_static(match given {
                Some(given) if given == "stale" => r#"DPoP error="use_dpop_nonce""#,
                _ => r#"Bearer realm="parrot", scope="all""#,
            });
            refused.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            return refused;
        }
    }
    let (parts, body) = request.into_parts();
    let body = Full::new(body.collect().await.unwrap().to_bytes());
    downstream.respond(Request::from_parts(parts, body)).await.map(http_body_util::Either::Left)
}

/// A proxy that supports CONNECT only; returns its URL and a tunnel counter.
async fn proxy() -> (String, Arc<AtomicUsize>) {
    let tunnels = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let counter = Arc::clone(&tunnels);
    tokio::runtime::Handle::current().spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::Relaxed);
            tokio::runtime::Handle::current().spawn(tunnel(stream));
        }
    });
    (address, tunnels)
}

async fn tunnel(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    let (mut first, mut line) = (String::new(), String::new());
    stream.read_line(&mut first).await.unwrap();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).await.unwrap();
    }
    let target = first.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).expect("a CONNECT");
    let mut far = TcpStream::connect(target).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
    // Either side may close first.
    drop(tokio::io::copy_bidirectional(&mut stream, &mut far).await);
}

#[derive(Debug)]
struct NoLoopback;

impl AddressGuard for NoLoopback {
    fn check(&self, _host: &str, address: SocketAddr) -> Result<(), String> {
        if address.ip().is_loopback() { Err("not on this machine".to_owned()) } else { Ok(()) }
    }
}

/// Uses the next key after each challenge.
#[derive(Debug)]
struct Keys {
    keys: &'static [&'static str],
    next: ChallengeAction,
    challenges: Mutex<Vec<Challenge>>,
    responses: AtomicUsize,
}

impl Keys {
    fn new(keys: &'static [&'static str], next: ChallengeAction) -> Self {
        Self { keys, next, challenges: Mutex::default(), responses: AtomicUsize::default() }
    }
}

impl Credentials for Keys {
    fn headers<'a>(
        &'a self,
        request: OutgoingRequest<'a>,
    ) -> BoxFuture<'a, Result<Vec<(HeaderName, HeaderValue)>, WireError>> {
        assert_eq!(request.body.is_empty(), request.method != Method::POST, "{request:?}");
        let key = self.keys[self.challenges.lock().len().min(self.keys.len() - 1)];
        Box::pin(async move { Ok(vec![(header::AUTHORIZATION, HeaderValue::from_static(key))]) })
    }

    fn handle_challenge(&self, challenge: Challenge) -> BoxFuture<'_, ChallengeAction> {
        self.challenges.lock().push(challenge);
        Box::pin(async { self.next })
    }

    fn observe_response(&self, _url: &Url, _headers: &HeaderMap) {
        self.responses.fetch_add(1, Ordering::Relaxed);
    }
}
