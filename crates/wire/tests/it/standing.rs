//! The stream for what belongs to no request: there before the first request, where the server has one.
//!
//! Our own server keeps what it has to say until the stream is there; many others drop it.

use std::time::Duration;

use serde_json::{Value, json};
use toolway_wire::up::EraChoice;

use crate::by_hand::{ByHand, Said};

/// A stateful server that takes its time to answer a GET.
async fn slow_to_stand(delay: Duration) -> ByHand {
    ByHand::start(move |message| Box::pin(answer(message, delay))).await
}

async fn answer(message: Value, delay: Duration) -> Said {
    match message["method"].as_str() {
        Some("initialize") => {
            Said::Result(json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {} }))
        }
        Some("GET") => {
            tokio::time::sleep(delay).await;
            Said::EmptyStream
        }
        _ => Said::Result(json!({})),
    }
}

#[tokio::test]
async fn the_stream_is_there_before_the_first_request() {
    let server = slow_to_stand(Duration::from_millis(200)).await;
    let peer = server.connect(EraChoice::Legacy).await;
    peer.ping().await.unwrap();
    assert_eq!(server.methods()[..4], ["initialize", "notifications/initialized", "GET", "ping"]);
}

#[tokio::test]
async fn a_server_that_never_answers_is_not_waited_for() {
    let server = slow_to_stand(Duration::from_secs(600)).await;
    let peer = server.connect(EraChoice::Legacy).await;
    peer.ping().await.unwrap();
    assert_eq!(server.methods(), ["initialize", "notifications/initialized", "ping"]);
}
