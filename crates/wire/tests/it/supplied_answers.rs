//! Answers supplied in advance, delayed acknowledgements of subscriptions, and default log levels.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use toolway_wire::{
    down::{Caller, DownstreamOptions, Profile, Service, ServiceSubscription},
    exchange::{Exchange, Outcome, Request},
    json::Raw,
    notice::{Notice, SubscriptionFilter},
    up::EraChoice,
};

use crate::{
    raw_clients::{RawStdioClient, call, refused, request, stateless},
    relay::Relay,
    scripted_server::{ScriptedReply, ScriptedServer},
};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A scripted server of this era, and a client of a relay to it.
async fn relayed(era: EraChoice) -> (ScriptedServer, RawStdioClient) {
    let server = ScriptedServer::start(|message| {
        let result = match message["method"].as_str() {
            Some("initialize") => json!({ "protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {} }),
            Some("server/discover") => json!({ "supportedVersions": [MODERN], "capabilities": {} }),
            _ => json!({ "content": [] }),
        };
        Box::pin(async { ScriptedReply::Result(result) })
    })
    .await;
    let relay = Relay(server.connect(era).await);
    (server, RawStdioClient::to(Arc::new(relay), DownstreamOptions::default()))
}

fn with_answers(answers: Value) -> Value {
    let mut message = stateless(call(1, "any"), MODERN);
    message["params"]["inputResponses"] = answers;
    message
}

#[tokio::test]
async fn supplied_answers_reach_a_stateless_server_unchanged() {
    let (server, mut wire) = relayed(EraChoice::Modern).await;
    let answers = json!({ "user_name": { "action": "accept", "content": { "name": "Ada" } } });
    let answered = wire.request(&with_answers(answers.clone())).await;
    assert_eq!(answered["result"]["content"], json!([]), "{answered}");
    assert_eq!(server.params("tools/call")[0]["inputResponses"], answers);
}

#[tokio::test]
async fn supplied_answers_are_not_sent_to_a_stateful_server() {
    let (server, mut wire) = relayed(EraChoice::Legacy).await;
    let answered = wire.request(&with_answers(json!({ "user_name": { "action": "accept" } }))).await;
    assert_eq!(answered["result"]["content"], json!([]), "{answered}");
    assert_eq!(server.params("tools/call"), [json!({ "name": "any" })]);
}

#[tokio::test]
async fn invalid_answers_are_refused_before_the_call_is_forwarded() {
    let (server, mut wire) = relayed(EraChoice::Modern).await;
    for answers in [json!(7), json!(null), json!([]), json!({ "k": 7 }), json!({ "k": null })] {
        let response = wire.request(&with_answers(answers.clone())).await;
        assert_eq!(refused(&response), (json!(1), -32602), "{answers}");
    }
    assert!(server.params("tools/call").is_empty());
}

/// Accepts resource subscriptions only, after a call of the tool `go on`; never sends a notice.
#[derive(Default)]
struct Hesitant(Notify, Mutex<Vec<mpsc::Sender<Notice>>>);

impl Service for Hesitant {
    fn profile(&self, _caller: &Caller) -> Profile {
        Profile { info: Raw::empty_object(), capabilities: Raw::empty_object(), instructions: None }
    }

    fn open(&self, request: Request, _caller: &Caller) -> Exchange {
        if request.param("name").is_some_and(|name| name.as_str().as_deref() == Some("go on")) {
            self.0.notify_one();
        }
        Exchange::ended(Outcome::Answered(Raw::of(&json!({ "content": [] }))))
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        Box::pin(async move {
            self.0.notified().await;
            let accepted = SubscriptionFilter { uris: wanted.uris, ..SubscriptionFilter::default() };
            let (sender, notices) = mpsc::channel(1);
            self.1.lock().push(sender);
            ServiceSubscription { accepted, notices }
        })
    }
}

#[tokio::test]
async fn subscription_is_acknowledged_after_the_service_has_answered() {
    let mut wire = RawStdioClient::to(Arc::new(Hesitant::default()), DownstreamOptions::default());
    let wanted = json!({ "notifications": { "toolsListChanged": true, "resourceSubscriptions": ["memo://one"] } });
    wire.send(&stateless(request(1, "subscriptions/listen", wanted), MODERN)).await;
    let meanwhile = wire.request(&stateless(call(2, "any"), MODERN)).await;
    assert_eq!(meanwhile["id"], 2, "other requests are not blocked: {meanwhile}");
    wire.send(&stateless(call(3, "go on"), MODERN)).await;
    let received = [wire.receive().await, wire.receive().await];
    let acknowledged = received.iter().find(|message| message["id"].is_null()).expect("an acknowledgement");
    assert_eq!(acknowledged["params"]["notifications"], json!({ "resourceSubscriptions": ["memo://one"] }));

    wire.session(LEGACY).await;
    wire.send(&request(4, "resources/subscribe", json!({ "uri": "memo://two" }))).await;
    assert_eq!(wire.request(&call(5, "any")).await["id"], 5, "other requests are not blocked");
    wire.send(&call(6, "go on")).await;
    let received = [wire.receive().await, wire.receive().await];
    assert!(received.iter().any(|message| message["id"] == 4 && message["result"] == json!({})), "{received:?}");
}

#[tokio::test]
async fn session_without_log_level_gets_the_default_level_of_a_stateless_server() {
    let level =
        |server: &ScriptedServer| server.params("tools/call")[0]["_meta"]["io.modelcontextprotocol/logLevel"].clone();
    let (server, mut wire) = relayed(EraChoice::Modern).await;
    wire.session(LEGACY).await;
    wire.request(&call(1, "any")).await;
    assert_eq!(level(&server), "info");

    let (server, mut wire) = relayed(EraChoice::Modern).await;
    wire.session(LEGACY).await;
    wire.request(&request(1, "logging/setLevel", json!({ "level": "error" }))).await;
    wire.request(&call(2, "any")).await;
    assert_eq!(level(&server), "error", "the level of the session counts");

    let (server, mut wire) = relayed(EraChoice::Modern).await;
    wire.request(&stateless(call(1, "any"), MODERN)).await;
    assert_eq!(level(&server), Value::Null, "a stateless request without a level gets no logs");

    let (server, mut wire) = relayed(EraChoice::Legacy).await;
    wire.session(LEGACY).await;
    wire.request(&call(1, "any")).await;
    assert!(!server.methods().contains(&"logging/setLevel".to_owned()), "a stateful server chooses its own level");
}
