//! Questions of a server with sessions, relayed to callers without: under the name the server gave them, answered by
//! what the caller brought along, and refused in the caller's own words where it did not declare them.

use std::sync::Arc;

use serde_json::{Value, json};
use toolway_wire::{
    down::{AllowedServerRequests, DownstreamOptions},
    revision::{Era, Revision},
    up::{ConnectOptions, Peer, in_process},
};

use crate::{
    raw_clients::{RawHttpClient, RawStdioClient, call, refused, stateless},
    relay::Relay,
    routes::{Ada, Route},
    test_service::TestService,
};

const MODERN: &str = "2026-07-28";

/// A relay to a server with sessions that asks whatever it likes; `declares`: whether the relay takes questions.
async fn relay(declares: bool) -> Arc<Relay> {
    let revisions = Revision::of(Era::Legacy).collect();
    let downstream = DownstreamOptions {
        revisions,
        server_requests: AllowedServerRequests::Anything,
        ..DownstreamOptions::default()
    };
    let options = if declares {
        ConnectOptions { request_handler: Some(Arc::new(Ada)), ..ConnectOptions::default() }
    } else {
        ConnectOptions::default()
    };
    let transport = Arc::new(in_process::transport(TestService::new(), downstream));
    Arc::new(Relay(Peer::connect(transport, options).await.unwrap()))
}

fn answer() -> Value {
    json!({ "action": "accept", "content": { "name": "Ada" } })
}

#[tokio::test]
async fn a_question_keeps_its_name_across_a_session() {
    for way in [Route::LinesLegacy, Route::HttpLegacy] {
        let behind = way.connect(TestService::new()).await;
        let mut wire = RawStdioClient::to(Arc::new(Relay(behind.peer.clone())), DownstreamOptions::default());
        let asked = wire.request(&stateless(call(1, "ask"), MODERN)).await;
        let question = &asked["result"]["inputRequests"]["name"];
        assert_eq!(question["method"], "elicitation/create", "{way:?}: {asked}");
        assert!(question["params"].get("_meta").is_none(), "{way:?}: the name is the session's business: {asked}");
    }
}

#[tokio::test]
async fn an_answer_that_was_brought_along_is_not_asked_for() {
    let mut wire = RawStdioClient::to(relay(true).await, DownstreamOptions::default());
    let mut message = stateless(call(1, "ask"), MODERN);
    message["params"]["inputResponses"] = json!({ "name": answer(), "other": {} });
    let answered = wire.request(&message).await;
    assert_eq!(answered["result"]["resultType"], "complete", "{answered}");
    let said: Value = serde_json::from_str(answered["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(said, answer());

    message["params"]["inputResponses"] = json!({ "other": {} });
    message["id"] = json!(2);
    assert_eq!(wire.request(&message).await["result"]["resultType"], "input_required");
}

#[tokio::test]
async fn a_question_the_caller_did_not_declare_names_what_is_missing() {
    let http_client = RawHttpClient::with(relay(false).await, DownstreamOptions::default());
    let mut message = stateless(call(1, "ask"), MODERN);
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "ask")];
    let reply = http_client.post(&headers, &message).await;
    assert_eq!((reply.status.as_u16(), refused(&reply.message()).1), (400, -32021), "{}", reply.text);
    let needed = &reply.message()["error"]["data"]["requiredCapabilities"];
    assert_eq!(*needed, json!({ "elicitation": { "form": {} } }));
}

#[tokio::test]
async fn in_a_session_the_server_hears_that_nobody_can_be_asked() {
    let mut wire = RawStdioClient::to(relay(false).await, DownstreamOptions::default());
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    wire.request(&crate::raw_clients::request(0, "initialize", hello)).await;
    let answered = wire.request(&call(1, "ask")).await;
    assert_eq!(refused(&answered), (json!(1), -32601), "its own words: {answered}");
}

#[tokio::test]
async fn a_caller_of_our_own_is_asked_only_what_it_declared() {
    let relay = relay(false).await;
    let outcome = relay.0.call_tool("ask", None).unwrap().outcome_with(Some(&Ada), |_| {}).await;
    let toolway_wire::exchange::Outcome::Refused(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.code(), -32601, "{error}");
}
