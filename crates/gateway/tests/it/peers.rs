//! The listener for other gateways, against gateways of the cluster and against programs that are none.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolway_gateway::cluster::{ForwardedRequest, PeerListener, PeerService};
use toolway_host::cluster::{GatewayId, Member, MemberGeneration};
use toolway_wire::{
    cluster_key::{ClusterKey, ClusterKeys},
    down::http::{ResponseBody, serve_peers},
    limit::Limits,
    peer::{PeerError, PeerTls},
};
use uuid::Uuid;

/// Echoes what is forwarded to it, and keeps it.
#[derive(Default)]
struct Echo(Mutex<Vec<ForwardedRequest>>);

impl PeerService for Echo {
    fn member(&self) -> Option<Member> {
        Some(member(7))
    }

    fn knows(&self, _: &ForwardedRequest) -> bool {
        true
    }

    fn answer(&self, request: ForwardedRequest) -> BoxFuture<'_, Response<ResponseBody>> {
        self.0.lock().push(request.clone());
        Box::pin(async move { Response::new(ResponseBody::whole(request.body)) })
    }
}

/// A listening gateway.
struct Listening {
    echo: Arc<Echo>,
    address: SocketAddr,
    _stop: DropGuard,
}

impl Listening {
    fn seen(&self) -> usize {
        self.echo.0.lock().len()
    }
}

fn member(generation: u64) -> Member {
    Member { gateway: GatewayId(Uuid::from_u128(5)), generation: MemberGeneration(generation) }
}

fn key(text: &str) -> ClusterKey {
    ClusterKey::new(&text.repeat(32)).unwrap()
}

fn only(text: &str) -> PeerTls {
    PeerTls::new(&ClusterKeys::only(key(text))).unwrap()
}

async fn listen(tls: PeerTls) -> Listening {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let echo = Arc::new(Echo::default());
    let limits = Limits { request_body_bytes: 64 * 1024, ..Limits::default() };
    let peers = PeerListener::new(Arc::clone(&echo) as Arc<dyn PeerService>, limits);
    let stop = CancellationToken::new();
    tokio::runtime::Handle::current().spawn(serve_peers(listener, tls, peers, stop.clone()));
    Listening { echo, address, _stop: stop.drop_guard() }
}

fn forwarded(body: impl Into<Bytes>) -> ForwardedRequest {
    let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    ForwardedRequest {
        from: member(3),
        to: member(7),
        caller: "ada".to_owned(),
        identity: "ada 123".to_owned(),
        key: "123".to_owned(),
        session: Some(Uuid::from_u128(9)),
        method: Method::POST,
        path: "/mcp".to_owned(),
        headers,
        body: body.into(),
    }
}

/// Status and body of the answer.
async fn send(tls: &PeerTls, to: SocketAddr, request: &ForwardedRequest) -> Result<(StatusCode, Bytes), PeerError> {
    let request = request.to_http::<Full<Bytes>>().unwrap();
    let answer = tls.send("127.0.0.1", to.port(), request).await?;
    let status = answer.response.status();
    Ok((status, answer.response.into_body().collect().await.unwrap().to_bytes()))
}

/// Everything that a program gets that writes these bytes and then waits.
async fn write_and_read(to: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut read = Vec::new();
    // The listener may reset the connection.
    drop(stream.read_to_end(&mut read).await);
    read
}

/// Passes one connection on; returns what the client has written, at most `most` bytes.
async fn relay(listener: TcpListener, to: SocketAddr, most: usize) -> Vec<u8> {
    let (mut client, _) = listener.accept().await.unwrap();
    let mut server = TcpStream::connect(to).await.unwrap();
    let (mut client_read, mut client_write) = client.split();
    let (mut server_read, mut server_write) = server.split();
    let mut written = Vec::new();
    let up = async {
        let mut chunk = [0; 4096];
        while written.len() < most {
            let room = chunk.len().min(most - written.len());
            let Ok(count @ 1..) = client_read.read(&mut chunk[..room]).await else { return };
            written.extend_from_slice(&chunk[..count]);
            if server_write.write_all(&chunk[..count]).await.is_err() {
                return;
            }
        }
    };
    let down = async { drop(tokio::io::copy(&mut server_read, &mut client_write).await) };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
    written
}

#[tokio::test]
async fn gateways_with_the_key_forward_to_each_other() {
    let listening = listen(only("a")).await;
    let request = forwarded("hello");
    let (status, body) = send(&only("a"), listening.address, &request).await.unwrap();
    assert_eq!((status, body.as_ref()), (StatusCode::OK, b"hello".as_slice()));
    assert_eq!(*listening.echo.0.lock(), [request]);
}

#[tokio::test]
async fn neither_side_reads_anything_from_one_without_the_key() {
    let listening = listen(only("a")).await;
    let error = send(&only("b"), listening.address, &forwarded("secret")).await.unwrap_err();
    assert!(matches!(error, PeerError::Unproven { .. }), "{error}");
    // The impostor has taken the address, and even accepts our key, but does not have it.
    let impostor = PeerTls::new(&ClusterKeys::only(key("c"))).unwrap();
    let impostor = listen(impostor).await;
    let error = send(&only("a"), impostor.address, &forwarded("secret")).await.unwrap_err();
    assert!(matches!(error, PeerError::Unproven { .. }), "{error}");
    assert_eq!((listening.seen(), impostor.seen()), (0, 0));
}

#[tokio::test]
async fn key_is_changed_one_gateway_at_a_time() {
    let old = only("a");
    let prepared = PeerTls::new(&ClusterKeys { current: key("a"), accepted: Some(key("b")) }).unwrap();
    let changed = PeerTls::new(&ClusterKeys { current: key("b"), accepted: Some(key("a")) }).unwrap();
    let new = only("b");
    for (one, other) in [(&old, &prepared), (&prepared, &changed), (&changed, &new)] {
        for (listener, sender) in [(one, other), (other, one)] {
            let listening = listen(listener.clone()).await;
            assert!(send(sender, listening.address, &forwarded("")).await.is_ok());
        }
    }
    let listening = listen(old).await;
    assert!(send(&new, listening.address, &forwarded("")).await.is_err());
}

#[tokio::test]
async fn recorded_connection_is_not_accepted_again() {
    let listening = listen(only("a")).await;
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let through = proxy.local_addr().unwrap();
    let relaying = tokio::runtime::Handle::current().spawn(relay(proxy, listening.address, usize::MAX));
    send(&only("a"), through, &forwarded("once")).await.unwrap();
    let recorded = relaying.await.unwrap();
    assert_eq!(listening.seen(), 1);
    let answer = write_and_read(listening.address, &recorded).await;
    assert!(!answer.is_empty(), "the handshake began");
    assert_eq!(listening.seen(), 1);
}

#[tokio::test]
async fn connection_that_is_cut_forwards_nothing() {
    let listening = listen(only("a")).await;
    let request = forwarded("x".repeat(20_000));
    for most in [1, 100, 500, 900, 5_000, 15_000] {
        let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let through = proxy.local_addr().unwrap();
        let relaying = tokio::runtime::Handle::current().spawn(relay(proxy, listening.address, most));
        let error = send(&only("a"), through, &request).await.unwrap_err();
        assert!(matches!(error, PeerError::Unproven { .. } | PeerError::Lost { .. }), "{most}: {error}");
        relaying.await.unwrap();
    }
    assert_eq!(listening.seen(), 0);
}

#[tokio::test]
async fn other_programs_are_closed_without_an_answer() {
    let listening = listen(only("a")).await;
    let plain = b"POST /forward HTTP/1.1\r\nhost: gateway\r\ncontent-length: 0\r\n\r\n";
    for bytes in [plain.as_slice(), &[0x16; 64], &[0x16, 0x03, 0x01, 0xff, 0xff], &[0; 100_000]] {
        let answer = write_and_read(listening.address, bytes).await;
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    }
    assert_eq!(listening.seen(), 0);
}

#[tokio::test(start_paused = true)]
async fn silent_connection_is_closed() {
    let listening = listen(only("a")).await;
    let began = tokio::time::Instant::now();
    assert!(write_and_read(listening.address, b"").await.is_empty());
    assert!(write_and_read(listening.address, &[0x16, 0x03, 0x01]).await.is_empty());
    assert!(began.elapsed().as_secs() <= 20, "{:?}", began.elapsed());
}

#[tokio::test]
async fn request_that_is_too_large_or_for_another_member_is_refused() {
    let listening = listen(only("a")).await;
    let (status, _) = send(&only("a"), listening.address, &forwarded(vec![b'x'; 64 * 1024 + 1])).await.unwrap();
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    let earlier = ForwardedRequest { to: member(6), ..forwarded("late") };
    let (status, _) = send(&only("a"), listening.address, &earlier).await.unwrap();
    assert_eq!(status, StatusCode::MISDIRECTED_REQUEST);
    let unnamed = ForwardedRequest { caller: String::new(), ..forwarded("") };
    let (status, _) = send(&only("a"), listening.address, &unnamed).await.unwrap();
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(listening.seen(), 0);
}
