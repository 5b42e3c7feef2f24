//! Clients that do not read their responses: others are not affected, and connections are closed after a timeout.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use toolway_wire::down::{DownstreamOptions, http::HttpDownstreamOptions};

use crate::{
    raw_clients::{call, request, stateless},
    socket_clients::SocketServer,
    test_service::TestService,
};

const MODERN: &str = "2026-07-28";

/// A stateless call of this tool with logs, and its headers.
fn calling(tool: &'static str) -> ([(&'static str, &'static str); 3], Value) {
    let mut message = stateless(call(1, tool), MODERN);
    message["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
    ([("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", tool)], message)
}

async fn served(write_timeout: Duration) -> (std::sync::Arc<TestService>, SocketServer) {
    let parrot = TestService::new();
    let options = HttpDownstreamOptions { write_timeout, ..HttpDownstreamOptions::default() };
    let mut served = SocketServer::start(parrot.clone(), options).await;
    served.begin().await;
    (parrot, served)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_reader_does_not_delay_other_clients() {
    let (_, served) = served(Duration::from_secs(60)).await;
    let mut stuck = Vec::new();
    for tool in ["flood", "bulk"] {
        let (headers, message) = calling(tool);
        for id in 0..4 {
            stuck.push(served.post_and_ignore(&headers, &message).await);
            stuck.push(served.post_and_ignore(&[], &call(format!("{tool} {id}"), tool)).await);
        }
    }
    for id in 0..20 {
        let (headers, message) = calling("count");
        let stateless = served.send("POST", &headers, message.to_string());
        let ping = request(id, "ping", json!({}));
        let stateful = served.post(&ping);
        let both = async { (stateless.await.status, stateful.await.status) };
        let both = tokio::time::timeout(Duration::from_secs(5), both).await;
        assert_eq!(both.expect("others are served meanwhile"), (200, 200));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_connection_is_closed_and_a_stateful_response_can_be_resumed() {
    let (parrot, served) = served(Duration::from_millis(500)).await;
    let (headers, message) = calling("flood");
    let mut stuck = served.post_and_ignore(&headers, &message).await;
    let mut session = served.post_and_ignore(&[], &call(7, "flood")).await;
    // The stateless call is cancelled when its connection is closed; only then is anything read.
    while parrot.cancelled() == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    // It ends in the middle, with or without an error.
    drop(tokio::time::timeout(Duration::from_secs(10), stuck.read_to_end(&mut first)).await.expect("it was closed"));
    drop(tokio::time::timeout(Duration::from_secs(10), session.read_to_end(&mut second)).await.expect("it was closed"));
    let (first, second) = (String::from_utf8_lossy(&first), String::from_utf8_lossy(&second));
    assert!(first.contains("notifications/message") && !first.contains("flooded"));
    assert!(second.contains("notifications/message") && !second.contains("flooded"));

    let place = second.rsplit("id: ").find_map(|rest| rest.split_once('\n')).expect("a place").0;
    let mut rest = served.resume(place).await;
    let mut last = Value::Null;
    while let Some(message) = rest.message().await {
        last = message;
    }
    assert_eq!((&last["id"], &last["result"]["content"][0]["text"]), (&json!(7), &json!("flooded")));
}

#[tokio::test]
async fn silent_stream_sends_keep_alive_comments() {
    let downstream = DownstreamOptions { keep_alive: Duration::from_millis(50), ..DownstreamOptions::default() };
    let mut served = SocketServer::start(
        TestService::new(),
        HttpDownstreamOptions { downstream, ..HttpDownstreamOptions::default() },
    )
    .await;
    served.begin().await;
    let (headers, message) = calling("wait");
    let standing = served.in_session("GET", &[], &Value::Null).await;
    let waiting = served.post(&call(1, "wait")).await;
    let stateless = served.send("POST", &headers, message.to_string()).await;
    for (name, mut stream) in [("standing", standing), ("stateful", waiting), ("stateless", stateless)] {
        let mut comments = 0;
        while comments < 3 {
            let piece = stream.piece().await.expect("more");
            comments += usize::from(piece.starts_with(b":"));
        }
        assert_eq!(stream.status, 200, "{name}");
    }
}
