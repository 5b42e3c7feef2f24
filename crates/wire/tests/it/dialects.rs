//! Results are translated for the revision of the client.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolway_wire::{
    down::{Caller, DownstreamOptions, Profile, Service, ServiceSubscription},
    exchange::{
        self, Cause, Exchange, ExchangeTimeouts, Feed, Outcome, Request, ServerRequestDetails, ServerRequestId,
    },
    json::Raw,
    notice::SubscriptionFilter,
};

use crate::{
    raw_clients::{RawStdioClient, call, request, stateless},
    test_service::TestService,
};

const MODERN: &str = "2026-07-28";

/// A service that uses every feature of the newest revision.
#[derive(Clone)]
struct FullFeatured;

impl FullFeatured {
    async fn call(name: String, feed: Feed) {
        let result = match name.as_str() {
            "ask" => {
                let fields = json!({ "several": { "type": "array", "items": { "type": "string", "enum": ["a"] } } });
                let schema = json!({ "type": "object", "properties": fields });
                let answer = feed.ask(ServerRequestDetails {
                    id: ServerRequestId(1),
                    key: None,
                    method: "elicitation/create".to_owned(),
                    params: Some(Raw::of(&json!({ "mode": "form", "message": "Which?", "requestedSchema": schema }))),
                    cause: Cause::Request,
                });
                match answer.await.into_result() {
                    Ok(given) => json!({ "content": [{ "type": "text", "text": given.to_string() }] }),
                    Err(error) => json!({ "content": [{ "type": "text", "text": error.to_string() }] }),
                }
            }
            "count" => {
                for step in (1..=1_000).chain(1..=10) {
                    feed.progress(Raw::of(&json!({ "progress": step, "message": "on it" })));
                    tokio::task::yield_now().await;
                }
                json!({ "content": [] })
            }
            _ => json!({
                "content": [{ "type": "resource_link", "uri": "memo://one", "name": "one" }],
                "structuredContent": [1, 2], "resultType": "complete", "ttlMs": 5,
            }),
        };
        feed.end(Outcome::Answered(Raw::of(&result)));
    }
}

impl Service for FullFeatured {
    fn profile(&self, caller: &Caller) -> Profile {
        TestService::new().profile(caller)
    }

    fn open(&self, request: Request, _caller: &Caller) -> Exchange {
        if request.method() == "tools/list" {
            let tool = json!({ "name": "a", "title": "A", "inputSchema": { "type": "object", "properties": { "x": true } },
                "outputSchema": { "type": "array" }, "execution": { "taskSupport": "optional" } });
            return Exchange::ended(Outcome::Answered(Raw::of(&json!({ "tools": [tool] }))));
        }
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), 2_000);
        let name = request.param("name").and_then(|name| name.as_str().map(String::from)).unwrap_or_default();
        tokio::runtime::Handle::current().spawn(Self::call(name, feed));
        exchange
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        Box::pin(std::future::ready(ServiceSubscription { accepted: wanted, notices: mpsc::channel(1).1 }))
    }
}

async fn session(revision: &str) -> RawStdioClient {
    let mut wire = RawStdioClient::to(Arc::new(FullFeatured), DownstreamOptions::default());
    wire.session(revision).await;
    wire
}

#[tokio::test]
async fn results_are_translated_for_each_revision() {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let link = json!({ "type": "resource_link", "uri": "memo://one", "name": "one" });
    for (revision, content) in [
        ("2024-11-05", json!([text("one: memo://one"), text("[1,2]")])),
        ("2025-03-26", json!([text("one: memo://one"), text("[1,2]")])),
        ("2025-06-18", json!([link, text("[1,2]")])),
        ("2025-11-25", json!([link, text("[1,2]")])),
    ] {
        let mut wire = session(revision).await;
        assert_eq!(wire.request(&call(1, "tell")).await["result"], json!({ "content": content }), "{revision}");
        let listed = wire.request(&request(2, "tools/list", json!({}))).await["result"]["tools"][0].clone();
        assert_eq!(listed["inputSchema"]["properties"], json!({ "x": {} }), "{revision}");
        let has = |key: &str| listed.get(key).is_some();
        assert_eq!((has("outputSchema"), has("execution")), (false, revision == "2025-11-25"), "{revision}");
        assert_eq!(has("title"), "2025-06-18" <= revision, "{revision}");
    }
    let mut wire = RawStdioClient::to(Arc::new(FullFeatured), DownstreamOptions::default());
    let received = wire.request(&stateless(call(1, "tell"), MODERN)).await["result"].clone();
    assert_eq!((&received["content"], &received["structuredContent"]), (&json!([link]), &json!([1, 2])));
    let listed =
        wire.request(&stateless(request(2, "tools/list", json!({})), MODERN)).await["result"]["tools"][0].clone();
    assert_eq!(listed.get("execution"), None);
    assert_eq!(listed["outputSchema"], json!({ "type": "array" }));
}

#[tokio::test]
async fn multi_select_form_reaches_a_client_of_a_revision_without_it() {
    let mut older = RawStdioClient::to(Arc::new(FullFeatured), DownstreamOptions::default());
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": { "elicitation": {} } });
    older.request(&request(0, "initialize", params)).await;
    let asked = older.request(&call(1, "ask")).await;
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    let fields = asked["params"]["requestedSchema"]["properties"].as_object().unwrap();
    assert!(fields.values().any(|field| field["type"] == "array"), "{asked}");
}

#[tokio::test]
async fn declared_elicitation_modes_outweigh_the_negotiated_revision() {
    // As Codex does: it negotiates 2025-06-18 and declares `form` and `url`.
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = session(revision).await;
        let asked = client.request(&call(1, "ask")).await;
        assert_eq!(asked["method"], "elicitation/create", "{revision}");
        assert_eq!(asked["params"]["requestedSchema"]["properties"]["several"]["type"], "array", "{revision}");
    }
}

#[tokio::test]
async fn progress_is_monotonic_and_throttled_without_losing_the_last_step() {
    let mut wire = RawStdioClient::to(Arc::new(FullFeatured), DownstreamOptions::default());
    wire.session("2024-11-05").await;
    let mut counting = call(1, "count");
    counting["params"]["_meta"] = json!({ "progressToken": "t" });
    let mut modern = stateless(call(2, "count"), MODERN);
    modern["params"]["_meta"]["progressToken"] = json!(7);
    for (message, id, token) in [(counting, 1, json!("t")), (modern, 2, json!(7))] {
        wire.send(&message).await;
        let mut steps = Vec::new();
        let end = loop {
            let received = wire.receive().await;
            if received["id"] == id {
                break received;
            }
            assert_eq!(received["params"]["progressToken"], token);
            assert_eq!(received["params"].get("message").is_some(), id == 2, "the oldest revision has no message");
            steps.push(received["params"]["progress"].as_u64().unwrap());
        };
        assert!(end["result"].is_object(), "{end}");
        assert!(steps.is_sorted_by(|one, next| one < next), "{steps:?}");
        assert_eq!(steps.last(), Some(&1_000));
        assert!((50..500).contains(&steps.len()), "{}", steps.len());
    }
}

#[tokio::test]
async fn capabilities_of_this_hop_are_not_passed_on() {
    let parrot = TestService::new();
    let mut wire = RawStdioClient::to(parrot.clone(), DownstreamOptions::default());
    let declared = json!({ "elicitation": { "url": {} }, "roots": { "listChanged": true }, "tasks": {} });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": declared });
    wire.request(&request(0, "initialize", params)).await;
    wire.request(&call(1, "echo")).await;
    let received: Value = parrot.seen()[0].capabilities.as_ref().unwrap().0.read().unwrap();
    assert_eq!(received, json!({ "elicitation": { "url": {} }, "roots": {} }));
}
