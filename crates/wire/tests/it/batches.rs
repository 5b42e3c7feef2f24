//! Batches: accepted in 2025-03-26 over HTTP and stdio, refused in every other revision.

use std::sync::Arc;

use serde_json::{Value, json};
use toolway_wire::{down::DownstreamOptions, limit::Limits};

use crate::{
    raw_clients::{RawHttpClient, RawStdioClient, call, notification, posting, refused, request, with},
    test_service::TestService,
};

const WITH: &str = "2025-03-26";
const WITHOUT: [&str; 3] = ["2024-11-05", "2025-06-18", "2025-11-25"];

fn ping(id: u64) -> Value {
    request(id, "ping", json!({}))
}

fn initialized() -> Value {
    notification("notifications/initialized", json!({}))
}

/// The ids that were answered, sorted: a batch may be answered in any order.
fn ids(messages: &[Value]) -> Vec<u64> {
    let mut ids: Vec<u64> = messages.iter().map(|message| message["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn over_http_each_request_of_a_batch_is_answered() {
    let parrot = TestService::new();
    let http_client = RawHttpClient::with(Arc::clone(&parrot) as _, DownstreamOptions::default());
    let session = http_client.session(WITH).await;
    let ours = [("mcp-session-id", session.as_str())];
    let reply = http_client.post(&ours, &json!([initialized(), ping(1), call(2, "echo"), call(3, "none")])).await;
    assert_eq!(reply.status, 200);
    assert_eq!(ids(&reply.messages()), [1, 2, 3]);
    assert_eq!(parrot.seen().len(), 2);

    let reply = http_client.post(&ours, &json!([initialized(), initialized()])).await;
    assert_eq!((reply.status.as_u16(), reply.text.as_str()), (202, ""), "nothing to answer");
}

#[tokio::test]
async fn over_http_a_batch_larger_than_the_queue_is_answered_completely() {
    let limits = Limits { concurrent_requests: 1, ..Limits::default() };
    let http_client =
        RawHttpClient::with(TestService::new() as _, DownstreamOptions { limits, ..DownstreamOptions::default() });
    let session = http_client.session(WITH).await;
    let batch: Vec<_> = (1..=40).map(|id| call(id, "echo")).collect();
    let reply = http_client.post(&[("mcp-session-id", session.as_str())], &json!(batch)).await;
    let mut answered = ids(&reply.messages());
    answered.sort_unstable();
    assert_eq!(answered, (1..=40).collect::<Vec<_>>());
}

#[tokio::test]
async fn over_http_a_batch_with_one_bad_message_is_refused_as_a_whole() {
    let parrot = TestService::new();
    let limits = Limits { batch_messages: 3, ..Limits::default() };
    let http_client =
        RawHttpClient::with(Arc::clone(&parrot) as _, DownstreamOptions { limits, ..DownstreamOptions::default() });
    let session = http_client.session(WITH).await;
    let ours = [("mcp-session-id", session.as_str())];
    for batch in [
        json!([call(1, "echo"), { "id": 2 }]),
        json!([call(1, "echo"), 7]),
        json!([call(1, "echo"), [call(2, "echo")]]),
        json!([call(1, "echo"), call(2, "echo"), call(3, "echo"), call(4, "echo")]),
    ] {
        let reply = http_client.post(&ours, &batch).await;
        assert_eq!((reply.status.as_u16(), refused(&reply.message()).1), (400, -32600), "{batch}");
    }
    let torn = format!("[{},", call(1, "echo"));
    assert_eq!(http_client.send(with(posting(), &ours), torn).await.status, 400);
    assert!(parrot.seen().is_empty());
}

#[tokio::test]
async fn over_stdio_each_request_of_a_batch_is_answered() {
    let limits = Limits { batch_messages: 3, ..Limits::default() };
    let mut wire = RawStdioClient::to(TestService::new(), DownstreamOptions { limits, ..DownstreamOptions::default() });
    wire.session(WITH).await;
    wire.send(&json!([initialized(), ping(1), call(2, "echo")])).await;
    assert_eq!(ids(&[wire.receive().await, wire.receive().await]), [1, 2]);

    let crowded = wire.request(&json!([ping(1), ping(2), ping(3), ping(4)])).await;
    assert_eq!(refused(&crowded), (Value::Null, -32600));
    assert_eq!(wire.request(&ping(5)).await["id"], 5);
}

#[tokio::test]
async fn in_other_revisions_a_batch_is_refused() {
    for revision in WITHOUT {
        let http_client = RawHttpClient::with(TestService::new(), DownstreamOptions::default());
        let session = http_client.session(revision).await;
        let reply = http_client.post(&[("mcp-session-id", &session)], &json!([ping(1)])).await;
        assert_eq!((reply.status.as_u16(), refused(&reply.message()).1), (400, -32600), "{revision}");

        let mut wire = RawStdioClient::to(TestService::new(), DownstreamOptions::default());
        wire.session(revision).await;
        assert_eq!(refused(&wire.request(&json!([ping(1)])).await), (Value::Null, -32600), "{revision}");
    }
}
