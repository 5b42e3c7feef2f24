//! One connection against a peer that says what it is told to say.

use std::{future::poll_fn, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, StatusCode};
use proptest::prelude::{any, prop, proptest};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, Interest, duplex},
    net::{TcpListener, TcpStream},
    runtime,
};

use super::{AT_FIRST, AT_MOST, SendFailure, INTERIM, HttpConnection};
use crate::{
    error::WireError,
    property,
    up::{
        client::head::{HeadLimits, ResponseHead},
        connector::HttpStream,
    },
};

const BOUND: HeadLimits = HeadLimits { bytes: 4096, count: 50 };

/// A connection and its other end, with this much room between them.
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

/// The head that comes when the peer says this.
async fn told(said: &str) -> Result<StatusCode, WireError> {
    let (mut connection, mut peer) = pair(64 * 1024);
    begin(&mut connection, &Bytes::from_static(b"{}"));
    peer.write_all(said.as_bytes()).await.unwrap();
    head(&mut connection).await.map(|head| head.status).map_err(|failure| failure.error)
}

#[tokio::test]
async fn a_request_is_written_and_its_reply_read_one_after_the_other() {
    let (mut connection, mut peer) = pair(64 * 1024);
    for round in 0..3 {
        let asked = Bytes::from(format!("request {round}"));
        begin(&mut connection, &asked);
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nround{round}");
        peer.write_all(answer.as_bytes()).await.unwrap();
        assert_eq!(head(&mut connection).await.unwrap().status, StatusCode::OK);
        assert_eq!(body(&mut connection).await.unwrap(), format!("round{round}").as_bytes());
        assert!(connection.is_reusable());
        let mut heard = vec![0; 4096];
        let size = peer.read(&mut heard).await.unwrap();
        let text = "POST /mcp HTTP/1.1\r\nhost: here\r\naccept: all\r\ncontent-length: 9\r\n\r\n".to_owned();
        assert_eq!(heard[..size], *[text.as_bytes(), &asked].concat());
    }
}

#[test]
fn a_reply_arrives_whole_however_it_is_cut() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    proptest!(property::cases(), |(
        content in prop::collection::vec(any::<u8>(), 1..3_000),
        cuts in prop::collection::vec(1usize..400, 1..40),
        chunk in 1usize..500,
        chunked in any::<bool>(),
    )| {
        let mut said = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\n".to_vec();
        if chunked {
            said.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
            for part in content.chunks(chunk) {
                said.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                said.extend_from_slice(part);
                said.extend_from_slice(b"\r\n");
            }
            said.extend_from_slice(b"0\r\n\r\n");
        } else {
            said.extend_from_slice(format!("content-length: {}\r\n\r\n", content.len()).as_bytes());
            said.extend_from_slice(&content);
        }
        let (read, free) = runtime.block_on(async {
            let (mut connection, mut peer) = pair(256);
            begin(&mut connection, &Bytes::from_static(b"{}"));
            let speaking = async {
                let mut rest = &said[..];
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
            let (_peer, read) = tokio::join!(speaking, reading);
            (read, connection.is_reusable())
        });
        assert_eq!(read, content);
        assert!(free);
    });
}

#[test]
fn no_bytes_make_it_panic_or_wait_for_ever() {
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
            tokio::time::timeout(Duration::from_secs(10), ends).await.expect("it ends with the connection");
        });
    });
}

#[tokio::test]
async fn what_was_closed_before_a_byte_was_written_can_be_sent_again() {
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
async fn what_goes_through_a_layer_of_its_own_may_have_gone_out() {
    let (mut connection, peer) = pair(1024);
    drop(peer);
    begin(&mut connection, &Bytes::from_static(b"{}"));
    assert!(!head(&mut connection).await.unwrap_err().unsent);
}

#[tokio::test]
async fn what_was_written_is_not_sent_again_whatever_becomes_of_it() {
    for said in ["", "HTTP/1.1 2", "garbage"] {
        let (mut connection, mut peer) = pair(1024);
        begin(&mut connection, &Bytes::from_static(b"{}"));
        let answering = async {
            let mut heard = [0; 8];
            peer.read_exact(&mut heard).await.unwrap();
            peer.write_all(said.as_bytes()).await.unwrap();
            drop(peer);
        };
        let ((), failed) = tokio::join!(answering, head(&mut connection));
        assert!(failed.is_err_and(|failure| !failure.unsent), "{said}");
    }
}

#[tokio::test]
async fn an_answer_before_the_request_is_whole_counts_and_ends_the_connection() {
    let (mut connection, mut peer) = pair(1024);
    begin(&mut connection, &Bytes::from(vec![b'x'; 100_000]));
    peer.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno").await.unwrap();
    assert_eq!(head(&mut connection).await.unwrap().status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(body(&mut connection).await.unwrap(), b"no");
    assert!(!connection.is_reusable(), "the server still waits for the rest of the request");
}

#[tokio::test]
async fn a_long_request_goes_on_while_its_answer_comes() {
    let (mut connection, mut peer) = pair(1024);
    let sent = vec![b'x'; 100_000];
    begin(&mut connection, &Bytes::from(sent.clone()));
    let answering = async {
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n").await.unwrap();
        let head = "POST /mcp HTTP/1.1\r\nhost: here\r\naccept: all\r\ncontent-length: 100000\r\n\r\n";
        let mut heard = vec![0; head.len() + sent.len()];
        peer.read_exact(&mut heard).await.unwrap();
        peer.write_all(b"done").await.unwrap();
        (heard.ends_with(&sent), peer)
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
async fn interim_answers_are_passed_over_within_a_bound() {
    let good = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let few = "HTTP/1.1 100 Continue\r\n\r\n".repeat(INTERIM);
    assert_eq!(told(&(few.clone() + good)).await.unwrap(), StatusCode::OK);
    let many = told(&(few + "HTTP/1.1 103 Early Hints\r\n\r\n" + good)).await;
    assert!(matches!(many, Err(WireError::TooLarge { .. })), "{many:?}");
    let switched = told("HTTP/1.1 101 Switching Protocols\r\n\r\n").await;
    assert_eq!(switched.unwrap(), StatusCode::SWITCHING_PROTOCOLS);
}

#[tokio::test]
async fn after_which_replies_another_request_may_follow() {
    let rows = [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", true, true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", false, false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n", true, false),
        ("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", true, false),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true, true),
        ("HTTP/1.1 200 OK\r\n\r\nok", false, false),
    ];
    for (said, stays, free) in rows {
        let (mut connection, mut peer) = pair(64 * 1024);
        begin(&mut connection, &Bytes::from_static(b"{}"));
        peer.write_all(said.as_bytes()).await.unwrap();
        let peer = stays.then_some(peer);
        head(&mut connection).await.unwrap();
        assert_eq!(body(&mut connection).await.unwrap(), b"ok", "{said}");
        assert_eq!(connection.is_reusable(), free, "{said}");
        drop(peer);
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error_and_then_over() {
    for said in ["content-length: 5\r\n\r\nok", "transfer-encoding: chunked\r\n\r\n5\r\nok"] {
        let (mut connection, mut peer) = pair(1024);
        begin(&mut connection, &Bytes::from_static(b"{}"));
        peer.write_all(format!("HTTP/1.1 200 OK\r\n{said}").as_bytes()).await.unwrap();
        drop(peer);
        head(&mut connection).await.unwrap();
        assert!(matches!(body(&mut connection).await, Err(WireError::Ended(_))), "{said}");
        assert_eq!(body(&mut connection).await.unwrap(), b"");
    }
}

#[tokio::test]
async fn a_large_body_is_read_in_larger_pieces_and_leaves_nothing_behind() {
    let (mut connection, mut peer) = pair(4 * AT_MOST);
    begin(&mut connection, &Bytes::from_static(b"{}"));
    let content = vec![b'x'; 8 * AT_MOST];
    let speaking = async {
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
    let (_peer, read) = tokio::join!(speaking, reading);
    assert_eq!(read, (true, AT_MOST));
    assert!(connection.is_reusable());
    assert_eq!((connection.read_at_once, connection.input.capacity()), (AT_FIRST, 0));
}

#[tokio::test]
async fn a_body_of_known_size_is_read_where_it_is_wanted_and_not_a_byte_further() {
    let (mut connection, mut peer) = pair(64 * 1024);
    begin(&mut connection, &Bytes::from_static(b"{}"));
    let content: Vec<u8> = (0..50_000u32).map(|number| (number % 251) as u8).collect();
    let said = [b"HTTP/1.1 200 OK\r\ncontent-length: 50000\r\n\r\n".as_slice(), &content, b"stray"].concat();
    peer.write_all(&said).await.unwrap();
    head(&mut connection).await.unwrap();
    let mut whole = BytesMut::with_capacity(content.len());
    poll_fn(|context| connection.poll_rest(context, &mut whole)).await.unwrap();
    assert!(whole == content && connection.is_over());
    assert!(!connection.is_reusable(), "something came that nobody asked for");
}

#[tokio::test]
async fn a_body_of_known_size_that_breaks_off_is_an_error() {
    let (mut connection, mut peer) = pair(64 * 1024);
    begin(&mut connection, &Bytes::from_static(b"{}"));
    peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 50000\r\n\r\nhalf").await.unwrap();
    drop(peer);
    head(&mut connection).await.unwrap();
    let mut whole = BytesMut::new();
    let rest = poll_fn(|context| connection.poll_rest(context, &mut whole)).await;
    assert!(matches!(rest, Err(WireError::Ended(_))), "{rest:?}");
}
