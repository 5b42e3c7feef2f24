//! Request bodies that arrive in pieces, late, in chunks, or after `100 Continue`.

use std::time::Duration;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use toolway_wire::down::http::HttpDownstreamOptions;

use crate::{
    raw_clients::{call, stateless},
    socket_clients::SocketServer,
    test_service::TestService,
};

const MODERN: &str = "2026-07-28";
const TIMEOUT: Duration = Duration::from_secs(10);

/// Opens a connection and sends the head of a call; returns the body to send.
async fn send_head(served: &SocketServer, size: usize, framing: impl Fn(usize) -> String) -> (TcpStream, String) {
    let mut message = stateless(call(1, "echo"), MODERN);
    message["params"]["arguments"] = json!({ "text": "x".repeat(size) });
    let (authority, body) = (&served.authority, message.to_string());
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\nmcp-protocol-version: {MODERN}\r\n\
         mcp-method: tools/call\r\nmcp-name: echo\r\n{}\r\n",
        framing(body.len())
    );
    let mut stream = TcpStream::connect(authority).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    (stream, body)
}

/// Reads until the response contains `text`; false at the end or after a timeout.
async fn receives(stream: &mut TcpStream, text: &str) -> bool {
    let mut received = Vec::new();
    let reading = async {
        while !received.windows(text.len()).any(|part| part == text.as_bytes()) {
            if stream.read_buf(&mut received).await.unwrap() == 0 {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(TIMEOUT, reading).await.unwrap_or(false)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn body_in_pieces_is_accepted() {
    let served = SocketServer::start(TestService::new(), HttpDownstreamOptions::default()).await;
    for size in [1, 100_000, 1_000_000] {
        let (mut stream, body) = send_head(&served, size, |length| format!("content-length: {length}\r\n")).await;
        for piece in body.as_bytes().chunks(body.len() / 3 + 1) {
            // The downstream has read the earlier pieces by now.
            tokio::time::sleep(Duration::from_millis(20)).await;
            stream.write_all(piece).await.unwrap();
        }
        assert!(receives(&mut stream, "\"result\"").await, "{size} bytes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunked_body_is_accepted() {
    let served = SocketServer::start(TestService::new(), HttpDownstreamOptions::default()).await;
    for size in [1, 100_000] {
        let (mut stream, body) = send_head(&served, size, |_| "transfer-encoding: chunked\r\n".to_owned()).await;
        for piece in body.as_bytes().chunks(body.len() / 3 + 1) {
            tokio::time::sleep(Duration::from_millis(20)).await;
            stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await.unwrap();
            stream.write_all(piece).await.unwrap();
            stream.write_all(b"\r\n").await.unwrap();
        }
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        assert!(receives(&mut stream, "\"result\"").await, "{size} bytes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn body_after_100_continue_is_accepted() {
    let served = SocketServer::start(TestService::new(), HttpDownstreamOptions::default()).await;
    let framing = |length| format!("content-length: {length}\r\nexpect: 100-continue\r\n");
    let (mut stream, body) = send_head(&served, 100_000, framing).await;
    assert!(receives(&mut stream, "100 Continue").await);
    stream.write_all(body.as_bytes()).await.unwrap();
    assert!(receives(&mut stream, "\"result\"").await);
}
