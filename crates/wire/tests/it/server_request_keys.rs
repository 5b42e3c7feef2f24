//! Server requests of a stateful server, relayed to stateless clients: they keep the server's key, are answered from
//! supplied answers, and are refused with the client's own error if the client did not declare the capability.

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

/// A relay to a stateful server that sends any server request; `declares`: whether the relay declares capabilities.
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
async fn server_request_keeps_its_key_across_a_session() {
    for way in [Route::LinesLegacy, Route::HttpLegacy] {
        let behind = way.connect(TestService::new()).await;
        let mut wire = RawStdioClient::to(Arc::new(Relay(behind.peer.clone())), DownstreamOptions::default());
        let asked = wire.request(&stateless(call(1, "ask"), MODERN)).await;
        let request = &asked["result"]["inputRequests"]["name"];
        assert_eq!(request["method"], "elicitation/create", "{way:?}: {asked}");
        assert!(request["params"].get("_meta").is_none(), "{way:?}: the key is not relayed in `_meta`: {asked}");
    }
}

#[tokio::test]
async fn supplied_answer_is_not_requested() {
    let mut wire = RawStdioClient::to(relay(true).await, DownstreamOptions::default());
    let mut message = stateless(call(1, "ask"), MODERN);
    message["params"]["inputResponses"] = json!({ "name": answer(), "other": {} });
    let answered = wire.request(&message).await;
    assert_eq!(answered["result"]["resultType"], "complete", "{answered}");
    let given: Value = serde_json::from_str(answered["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(given, answer());

    message["params"]["inputResponses"] = json!({ "other": {} });
    message["id"] = json!(2);
    assert_eq!(wire.request(&message).await["result"]["resultType"], "input_required");
}

#[tokio::test]
async fn undeclared_server_request_names_the_missing_capability() {
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
async fn undeclared_server_request_is_refused_in_a_session() {
    let mut wire = RawStdioClient::to(relay(false).await, DownstreamOptions::default());
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    wire.request(&crate::raw_clients::request(0, "initialize", hello)).await;
    let answered = wire.request(&call(1, "ask")).await;
    assert_eq!(refused(&answered), (json!(1), -32601), "the error of the server: {answered}");
}

#[tokio::test]
async fn own_calls_get_only_declared_server_requests() {
    let relay = relay(false).await;
    let outcome = relay.0.call_tool("ask", None).unwrap().outcome_with(Some(&Ada), |_| {}).await;
    let toolway_wire::exchange::Outcome::Refused(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.code(), -32601, "{error}");
}
