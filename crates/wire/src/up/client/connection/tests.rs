//! One connection against a scripted peer.

use std::{future::poll_fn, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, StatusCode};
use proptest::prelude::{any, prop, proptest};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, Interest, duplex},
    net::{TcpListener, TcpStream},
    runtime,
};

use super::{AT_FIRST, AT_MOST, HttpConnection, INTERIM, SendFailure};
use crate::{
    error::WireError,
    property,
    up::{
        client::head::{HeadLimits, ResponseHead},
        connector::HttpStream,
    },
};

const BOUND: HeadLimits = HeadLimits { bytes: 4096, count: 50 };

/// A connection and its peer, with a buffer of `room` bytes.
fn pair(room: usize) -> (HttpConnection, DuplexStream) {
    let (ours, theirs) = duplex(room);
    (HttpConnection::new(HttpStream::Secure(Box::new(ours)), BOUND), theirs)
}

fn begin(connection: &mut HttpConnection, body: &Bytes) {
    connection.begin(&Method::POST, "/mcp", &HeaderValue::from_static("here"), b"accept: all\r\n", body);
}

async fn head(connection: &mut HttpConnection) -> Result<ResponseHead, SendFailure> {
    poll_fn(|context| connection.poll_head(context)).await
}

async fn body(connection: &mut HttpConnection) -> Result<Vec<u8>, WireError> {
    let mut body = Vec::new();
    while let Some(piece) = poll_fn(|context| connection.poll_piece(context)).await {
        body.extend_from_slice(&piece?);
    }
    Ok(body)
}

/// Status of the response head when the peer sends `response`.
async fn status_of(response: &str) -> Result<StatusCode, WireError> {
    let (mut connection, mut peer) = pair(64 * 1024);
    begin(&mut connection, &Bytes::from_static(b"{}"));
    peer.write_all(response.as_bytes()).await.unwrap();
    head(&mut connection).await.map(|head| head.status).map_err(|failure| failure.error)
}

#[tokio::test]
async fn connection_is_reused_for_several_requests() {
    let (mut connection, mut peer) = pair(64 * 1024);
    for round in 0..3 {
        let asked = Bytes::from(format!("request {round}"));
        begin(&mut connection, &asked);
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nround{round}");
        peer.write_all(answer.as_bytes()).await.unwrap();
        assert_eq!(head(&mut connection).await.unwrap().status, StatusCode::OK);
        assert_eq!(body(&mut connection).await.unwrap(), format!("round{round}").as_bytes());
        assert!(connection.is_reusable());
        let mut received = vec![0; 4096];
        let size = peer.read(&mut received).await.unwrap();
        let text = "POST /mcp HTTP/1.1\r\nhost: here\r\naccept: all\r\ncontent-length: 9\r\n\r\n".to_owned();
        assert_eq!(received[..size], *[text.as_bytes(), &asked].concat());
    }
}

#[test]
fn response_does_not_depend_on_the_piece_sizes() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    proptest!(property::cases(), |(
        content in prop::collection::vec(any::<u8>(), 1..3_000),
        cuts in prop::collection::vec(1usize..400, 1..40),
        chunk in 1usize..500,
        chunked in any::<bool>(),
    )| {
        let mut response = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\n".to_vec();
        if chunked {
            response.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
            for part in content.chunks(chunk) {
                response.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                response.extend_from_slice(part);
                response.extend_from_slice(b"\r\n");
            }
            response.extend_from_slice(b"0\r\n\r\n");
        } else {
            response.extend_from_slice(format!("content-length: {}\r\n\r\n", content.len()).as_bytes());
            response.extend_from_slice(&content);
        }
        let (read, free) = runtime.block_on(async {
            let (mut connection, mut peer) = pair(256);
            begin(&mut connection, &Bytes::from_static(b"{}"));
            let sending = async {
                let mut rest = &response[..];
                for cut in cuts.iter().cycle() {
                    let (now, later) = rest.split_at(rest.len().min(*cut));
                    peer.write_all(now).await.unwrap();
                    tokio::task::yield_now().await;
                    rest = later;
                    if rest.is_empty() {
                        break;
                    }
                }
                peer
            };
            let reading = async {
                assert_eq!(head(&mut connection).await.unwrap().status, StatusCode::OK);
                body(&mut connection).await.unwrap()
            };
            let (_peer, read) = tokio::join!(sending, reading);
            (read, connection.is_reusable())
        });
        assert_eq!(read, content);
        assert!(free);
    });
}

#[test]
fn arbitrary_bytes_cause_no_panic_and_no_hang() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let beginnings = ["", "HTTP/1.1 ", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"];
    proptest!(property::cases(), |(which in 0..beginnings.len(), noise in prop::collection::vec(any::<u8>(), 0..600))| {
        runtime.block_on(async {
            let (mut connection, mut peer) = pair(64 * 1024);
            begin(&mut connection, &Bytes::from_static(b"{}"));
            peer.write_all(beginnings[which].as_bytes()).await.unwrap();
            peer.write_all(&noise).await.unwrap();
            drop(peer);
            let ends = async {
                if head(&mut connection).await.is_ok() {
                    drop(body(&mut connection).await);
                }
            };
            tokio::time::timeout(Duration::from_secs(10), ends).await.expect("ends with the connection");
        });
    });
}

#[tokio::test]
async fn request_is_unsent_if_the_peer_closed_before_the_first_byte() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (theirs, _) = listener.accept().await.unwrap();
    theirs.set_zero_linger().unwrap();
    drop(theirs);
    ours.ready(Interest::READABLE).await.unwrap();
    let mut connection = HttpConnection::new(HttpStream::Plain(ours), BOUND);
    begin(&mut connection, &Bytes::from_static(b"{}"));
    let failure = head(&mut connection).await.unwrap_err();
    assert!(failure.unsent && matches!(failure.error, WireError::Ended(_)), "{failure:?}");
}

#[tokio::test]
async fn request_over_a_layered_stream_counts_as_sent() {
    let (mut connection, peer) = pair(1024);
    drop(peer);
    begin(&mut connection, &Bytes::from_static(b"{}"));
    assert!(!head(&mut connection).await.unwrap_err().unsent);
}

#[tokio::test]
async fn written_request_never_counts_as_unsent() {
    for response in ["", "HTTP/1.1 2", "garbage"] {
        let (mut connection, mut peer) = pair(1024);
        begin(&mut connection, &Bytes::from_static(b"{}"));
        let answering = async {
            let mut received = [0; 8];
            peer.read_exact(&mut received).await.unwrap();
            peer.write_all(response.as_bytes()).await.unwrap();
            drop(peer);
        };
        let ((), failed) = tokio::join!(answering, head(&mut connection));
        assert!(failed.is_err_and(|failure| !failure.unsent), "{response}");
    }
}

#[tokio::test]
async fn early_response_counts_and_prevents_reuse() {
    let (mut connection, mut peer) = pair(1024);
    begin(&mut connection, &Bytes::from(vec![b'x'; 100_000]));
    peer.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno").await.unwrap();
    assert_eq!(head(&mut connection).await.unwrap().status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(body(&mut connection).await.unwrap(), b"no");
    assert!(!connection.is_reusable(), "the server still waits for the rest of the request");
}

#[tokio::test]
async fn long_request_is_written_while_the_response_is_read() {
    let (mut connection, mut peer) = pair(1024);
    let sent = vec![b'x'; 100_000];
    begin(&mut connection, &Bytes::from(sent.clone()));
    let answering = async {
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n").await.unwrap();
        let head = "POST /mcp HTTP/1.1\r\nhost: here\r\naccept: all\r\ncontent-length: 100000\r\n\r\n";
        let mut received = vec![0; head.len() + sent.len()];
        peer.read_exact(&mut received).await.unwrap();
        peer.write_all(b"done").await.unwrap();
        (received.ends_with(&sent), peer)
    };
    let reading = async {
        head(&mut connection).await.unwrap();
        body(&mut connection).await.unwrap()
    };
    let ((whole, _peer), read) = tokio::join!(answering, reading);
    assert!(whole);
    assert_eq!(read, b"done");
    assert!(connection.is_reusable());
}

#[tokio::test]
async fn interim_responses_are_skipped_up_to_a_limit() {
    let good = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let few = "HTTP/1.1 100 Continue\r\n\r\n".repeat(INTERIM);
    assert_eq!(status_of(&(few.clone() + good)).await.unwrap(), StatusCode::OK);
    let many = status_of(&(few + "HTTP/1.1 103 Early Hints\r\n\r\n" + good)).await;
    assert!(matches!(many, Err(WireError::TooLarge { .. })), "{many:?}");
    let switched = status_of("HTTP/1.1 101 Switching Protocols\r\n\r\n").await;
    assert_eq!(switched.unwrap(), StatusCode::SWITCHING_PROTOCOLS);
}

#[tokio::test]
async fn reuse_depends_on_the_response() {
    let rows = [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", true, true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", false, false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n", true, false),
        ("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", true, false),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true, true),
        ("HTTP/1.1 200 OK\r\n\r\nok", false, false),
    ];
    for (response, stays, free) in rows {
        let (mut connection, mut peer) = pair(64 * 1024);
        begin(&mut connection, &Bytes::from_static(b"{}"));
        peer.write_all(response.as_bytes()).await.unwrap();
        let peer = stays.then_some(peer);
        head(&mut connection).await.unwrap();
        assert_eq!(body(&mut connection).await.unwrap(), b"ok", "{response}");
        assert_eq!(connection.is_reusable(), free, "{response}");
        drop(peer);
    }
}

#[tokio::test]
async fn truncated_body_is_an_error_and_then_over() {
    for response in ["content-length: 5\r\n\r\nok", "transfer-encoding: chunked\r\n\r\n5\r\nok"] {
        let (mut connection, mut peer) = pair(1024);
        begin(&mut connection, &Bytes::from_static(b"{}"));
        peer.write_all(format!("HTTP/1.1 200 OK\r\n{response}").as_bytes()).await.unwrap();
        drop(peer);
        head(&mut connection).await.unwrap();
        assert!(matches!(body(&mut connection).await, Err(WireError::Ended(_))), "{response}");
        assert_eq!(body(&mut connection).await.unwrap(), b"");
    }
}

#[tokio::test]
async fn large_body_is_read_in_larger_pieces_and_its_buffer_is_freed() {
    let (mut connection, mut peer) = pair(4 * AT_MOST);
    begin(&mut connection, &Bytes::from_static(b"{}"));
    let content = vec![b'x'; 8 * AT_MOST];
    let sending = async {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", content.len());
        peer.write_all(head.as_bytes()).await.unwrap();
        peer.write_all(&content).await.unwrap();
        peer
    };
    let reading = async {
        head(&mut connection).await.unwrap();
        let read = body(&mut connection).await.unwrap();
        (read == content, connection.read_at_once)
    };
    let (_peer, read) = tokio::join!(sending, reading);
    assert_eq!(read, (true, AT_MOST));
    assert!(connection.is_reusable());
    assert_eq!((connection.read_at_once, connection.input.capacity()), (AT_FIRST, 0));
}

#[tokio::test]
async fn body_of_known_length_is_read_in_place_and_no_further() {
    let (mut connection, mut peer) = pair(64 * 1024);
    begin(&mut connection, &Bytes::from_static(b"{}"));
    let content: Vec<u8> = (0..50_000u32).map(|number| (number % 251) as u8).collect();
    let response = [b"HTTP/1.1 200 OK\r\ncontent-length: 50000\r\n\r\n".as_slice(), &content, b"stray"].concat();
    peer.write_all(&response).await.unwrap();
    head(&mut connection).await.unwrap();
    let mut whole = BytesMut::with_capacity(content.len());
    poll_fn(|context| connection.poll_rest(context, &mut whole)).await.unwrap();
    assert!(whole == content && connection.is_over());
    assert!(!connection.is_reusable(), "unexpected bytes follow the response");
}

#[tokio::test]
async fn truncated_body_of_known_length_is_an_error() {
    let (mut connection, mut peer) = pair(64 * 1024);
    begin(&mut connection, &Bytes::from_static(b"{}"));
    peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 50000\r\n\r\nhalf").await.unwrap();
    drop(peer);
    head(&mut connection).await.unwrap();
    let mut whole = BytesMut::new();
    let rest = poll_fn(|context| connection.poll_rest(context, &mut whole)).await;
    assert!(matches!(rest, Err(WireError::Ended(_))), "{rest:?}");
}
