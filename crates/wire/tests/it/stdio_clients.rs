//! Invalid requests over stdio are refused, and the connection continues.

use std::sync::Arc;

use serde_json::{Value, json};
use toolway_wire::{
    budget::MemoryBudget,
    down::DownstreamOptions,
    limit::Limits,
    revision::{Era, Revision},
};

use crate::{
    raw_clients::{RawStdioClient, call, notification, refused, request, stateless},
    test_service::TestService,
};

const MODERN: &str = "2026-07-28";

fn parrot(limits: Limits) -> (Arc<TestService>, RawStdioClient) {
    let parrot = TestService::new();
    (Arc::clone(&parrot), RawStdioClient::to(parrot, DownstreamOptions { limits, ..DownstreamOptions::default() }))
}

fn ping(id: u64) -> Value {
    request(id, "ping", json!({}))
}

#[tokio::test]
async fn invalid_line_is_refused_and_the_next_one_is_read() {
    let (parrot, mut wire) = parrot(Limits { message_bytes: 1_000, ..Limits::default() });
    wire.session("2025-11-25").await;
    let long = call(5, &"x".repeat(1_000)).to_string();
    for (line, id, code) in [
        ("{", Value::Null, -32700),
        ("true", Value::Null, -32600),
        (r#"{"jsonrpc":"2.0","id":4,"method":"ping","id":5}"#, json!(5), -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, Value::Null, -32600),
        (long.as_str(), json!(5), -32600),
    ] {
        wire.write(line).await;
        assert_eq!(refused(&wire.receive().await), (id, code), "{line}");
    }
    assert!(parrot.seen().is_empty());
    assert_eq!(wire.request(&ping(6)).await["result"], json!({}));
}

#[tokio::test]
async fn session_is_initialized_once_and_first() {
    let (_, mut wire) = parrot(Limits::default());
    assert_eq!(refused(&wire.request(&ping(1)).await), (json!(1), -32600));
    wire.session("2025-11-25").await;
    let again = request(2, "initialize", json!({ "protocolVersion": "2025-06-18" }));
    assert_eq!(refused(&wire.request(&again).await), (json!(2), -32600));
    assert_eq!(wire.request(&ping(3)).await["result"], json!({}), "the session continues");
}

#[tokio::test]
async fn without_stateful_revisions_there_is_no_session() {
    let revisions = Revision::of(Era::Modern).collect();
    let mut wire =
        RawStdioClient::to(TestService::new(), DownstreamOptions { revisions, ..DownstreamOptions::default() });
    let refusal = wire.request(&request(1, "initialize", json!({ "protocolVersion": "2025-11-25" }))).await;
    assert_eq!(refused(&refusal), (json!(1), -32022));
    assert_eq!(refusal["error"]["data"], json!({ "supported": [MODERN], "requested": "2025-11-25" }));
}

#[tokio::test]
async fn active_ids_are_unique_and_limited() {
    for era in [Era::Legacy, Era::Modern] {
        let (parrot, mut wire) = parrot(Limits { concurrent_requests: 2, ..Limits::default() });
        let spoken = |message| if era == Era::Modern { stateless(message, MODERN) } else { message };
        if era == Era::Legacy {
            wire.session("2025-11-25").await;
        }
        wire.send(&spoken(call("a", "wait"))).await;
        assert_eq!(refused(&wire.request(&spoken(call("a", "echo"))).await), (json!("a"), -32600), "{era}");
        wire.send(&spoken(call("b", "wait"))).await;
        assert_eq!(refused(&wire.request(&spoken(call("c", "echo"))).await), (json!("c"), -32603), "{era}");
        assert_eq!(parrot.seen().len(), 2, "{era}: only the waiting calls");

        wire.send(&notification("notifications/cancelled", json!({ "requestId": "a" }))).await;
        while parrot.cancelled() == 0 {
            tokio::task::yield_now().await;
        }
        let answer = wire.request(&spoken(call("c", "echo"))).await;
        assert!(answer["result"].is_object(), "{era}: a slot is free after the cancellation: {answer}");
    }
}

#[tokio::test]
async fn response_that_cannot_be_kept_is_replaced_by_an_error() {
    let bulk = |id| request(id, "tools/call", json!({ "name": "bulk", "arguments": { "size": 300_000 } }));
    for limits in [
        Limits { memory: MemoryBudget::new(200_000), ..Limits::default() },
        Limits { unsent_bytes: 200_000, ..Limits::default() },
    ] {
        let (_, mut wire) = parrot(limits);
        assert_eq!(refused(&wire.request(&stateless(bulk("m"), MODERN)).await), (json!("m"), -32603));
        wire.session("2025-11-25").await;
        assert_eq!(refused(&wire.request(&bulk("l")).await), (json!("l"), -32603));
        assert!(
            wire.request(&call("l", "echo")).await["result"].is_object(),
            "the connection goes on, and the id is free"
        );
    }
}

#[tokio::test]
async fn stateless_request_with_invalid_meta_is_refused() {
    let (parrot, mut wire) = parrot(Limits::default());
    let mut mute = stateless(call(1, "echo"), MODERN);
    mute["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!(7);
    assert_eq!(refused(&wire.request(&mute).await), (json!(1), -32602));
    let mut loud = stateless(call(1, "echo"), MODERN);
    loud["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("shouting");
    assert_eq!(refused(&wire.request(&loud).await), (json!(1), -32602));
    assert_eq!(refused(&wire.request(&stateless(call(1, "echo"), "2027-01-01")).await), (json!(1), -32022));
    assert_eq!(refused(&wire.request(&stateless(ping(1), MODERN)).await), (json!(1), -32601));
    assert!(parrot.seen().is_empty());
    assert!(wire.request(&stateless(call(1, "echo"), MODERN)).await["result"].is_object(), "the id was never in use");
}

#[tokio::test]
async fn invalid_answers_and_states_are_refused() {
    let (parrot, mut wire) = parrot(Limits::default());
    for (key, value) in [
        ("inputResponses", json!([1])),
        ("inputResponses", json!({ "name": 7 })),
        ("requestState", json!(7)),
        ("requestState", json!("made up")),
    ] {
        let mut retry = stateless(call(1, "ask"), MODERN);
        retry["params"][key] = value.clone();
        assert_eq!(refused(&wire.request(&retry).await), (json!(1), -32602), "{key}: {value}");
    }
    assert!(parrot.seen().is_empty());
}

#[tokio::test]
async fn unanswered_server_requests_are_sent_again() {
    let (_, mut wire) = parrot(Limits::default());
    let mut asked = wire.request(&stateless(call(1, "ask"), MODERN)).await;
    let mut retry = stateless(call(2, "ask"), MODERN);
    for _ in 0..2 {
        assert_eq!(asked["result"]["inputRequests"]["name"]["method"], "elicitation/create", "{asked}");
        retry["params"]["requestState"] = asked["result"]["requestState"].clone();
        retry["params"]["inputResponses"] = json!({ "age": { "action": "accept" } });
        asked = wire.request(&retry).await;
    }
    retry["params"]["requestState"] = asked["result"]["requestState"].clone();
    retry["params"]["inputResponses"] = json!({ "name": { "action": "decline" } });
    let answer = wire.request(&retry).await;
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("decline"), "{answer}");
}

#[tokio::test]
async fn error_answer_of_the_client_is_passed_on() {
    let (_, mut wire) = parrot(Limits::default());
    wire.session("2025-11-25").await;
    let question = wire.request(&call(1, "ask")).await;
    assert_eq!(question["method"], "elicitation/create");
    let error = json!({ "code": -1, "message": "not now" });
    let answer = wire.request(&json!({ "jsonrpc": "2.0", "id": question["id"], "error": error })).await;
    assert_eq!((&answer["id"], &answer["error"]), (&json!(1), &error));
}

#[tokio::test]
async fn client_without_elicitation_gets_no_server_request() {
    let (_, mut wire) = parrot(Limits::default());
    let params = json!({ "protocolVersion": "2025-03-26", "capabilities": {} });
    wire.request(&request(0, "initialize", params)).await;
    assert_eq!(refused(&wire.request(&call(1, "ask")).await), (json!(1), -32601));
}

#[tokio::test]
async fn subscriptions_are_limited_and_can_be_ended() {
    let (_, mut wire) = parrot(Limits { concurrent_requests: 1, ..Limits::default() });
    wire.session("2025-11-25").await;
    let subscribe = |id: u64, uri: &str| request(id, "resources/subscribe", json!({ "uri": uri }));
    assert_eq!(refused(&wire.request(&request(1, "resources/subscribe", json!({}))).await), (json!(1), -32602));
    assert_eq!(wire.request(&subscribe(2, "memo://one")).await["result"], json!({}));
    assert_eq!(refused(&wire.request(&subscribe(3, "memo://two")).await), (json!(3), -32603));
    wire.send(&call(4, "change")).await;
    let mut received = [wire.receive().await, wire.receive().await];
    received.sort_by_key(|message| message["id"].is_null());
    assert_eq!(received[0]["id"], 4);
    assert_eq!(received[1]["method"], "notifications/resources/updated");

    let unsubscribe = request(5, "resources/unsubscribe", json!({ "uri": "memo://one" }));
    assert_eq!(wire.request(&unsubscribe).await["result"], json!({}));
    assert_eq!(wire.request(&call(6, "change")).await["id"], 6);
    assert_eq!(wire.request(&ping(7)).await["id"], 7, "no more notices");
    assert_eq!(wire.request(&subscribe(8, "memo://two")).await["result"], json!({}), "a subscription is free again");
}

#[tokio::test]
async fn unknown_log_level_is_refused() {
    let (_, mut wire) = parrot(Limits::default());
    wire.session("2025-11-25").await;
    let level = |id: u64, level: &str| request(id, "logging/setLevel", json!({ "level": level }));
    assert_eq!(refused(&wire.request(&level(1, "shouting")).await), (json!(1), -32602));
    assert_eq!(wire.request(&level(2, "emergency")).await["result"], json!({}));
    assert_eq!(wire.request(&call(3, "count")).await["id"], 3, "its logs are below the level");
}
