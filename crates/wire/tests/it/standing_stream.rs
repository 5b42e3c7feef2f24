//! The standing stream is open before the first request, if the server has one.
//!
//! Our own server queues notifications until the stream is open; many others drop them.

use std::time::Duration;

use serde_json::{Value, json};
use toolway_wire::up::EraChoice;

use crate::scripted_server::{ScriptedReply, ScriptedServer};

/// A stateful server that answers a GET after a delay.
async fn slow_stream_server(delay: Duration) -> ScriptedServer {
    ScriptedServer::start(move |message| Box::pin(answer(message, delay))).await
}

async fn answer(message: Value, delay: Duration) -> ScriptedReply {
    match message["method"].as_str() {
        Some("initialize") => {
            ScriptedReply::Result(json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {} }))
        }
        Some("GET") => {
            tokio::time::sleep(delay).await;
            ScriptedReply::EmptyStream
        }
        _ => ScriptedReply::Result(json!({})),
    }
}

#[tokio::test]
async fn standing_stream_is_open_before_the_first_request() {
    let server = slow_stream_server(Duration::from_millis(200)).await;
    let peer = server.connect(EraChoice::Legacy).await;
    peer.ping().await.unwrap();
    assert_eq!(server.methods()[..4], ["initialize", "notifications/initialized", "GET", "ping"]);
}

#[tokio::test]
async fn server_without_a_response_to_get_is_not_awaited() {
    let server = slow_stream_server(Duration::from_secs(600)).await;
    let peer = server.connect(EraChoice::Legacy).await;
    peer.ping().await.unwrap();
    assert_eq!(server.methods(), ["initialize", "notifications/initialized", "ping"]);
}
