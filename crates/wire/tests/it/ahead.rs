//! What a caller brings along before anybody asked, and what it waits for before it is told anything.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use toolway_wire::{
    down::{Caller, DownstreamOptions, Heard, Profile, Service},
    exchange::{Exchange, Outcome, Request},
    json::Raw,
    notice::{Notice, Wanted},
    up::EraChoice,
};

use crate::{
    by_hand::{ByHand, Said},
    callers::{Wire, call, refused, request, stateless},
    relay::Relay,
};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A server of this era, written by hand, and a relay to it.
async fn relayed(era: EraChoice) -> (ByHand, Wire) {
    let server = ByHand::start(|message| {
        let said = match message["method"].as_str() {
            Some("initialize") => json!({ "protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {} }),
            Some("server/discover") => json!({ "supportedVersions": [MODERN], "capabilities": {} }),
            _ => json!({ "content": [] }),
        };
        Box::pin(async { Said::Result(said) })
    })
    .await;
    let relay = Relay(server.connect(era).await);
    (server, Wire::to(Arc::new(relay), DownstreamOptions::default()))
}

fn with_answers(answers: Value) -> Value {
    let mut message = stateless(call(1, "any"), MODERN);
    message["params"]["inputResponses"] = answers;
    message
}

#[tokio::test]
async fn answers_nobody_asked_for_reach_a_stateless_server_as_they_are() {
    let (server, mut wire) = relayed(EraChoice::Modern).await;
    let answers = json!({ "user_name": { "action": "accept", "content": { "name": "Ada" } } });
    let answered = wire.ask(&with_answers(answers.clone())).await;
    assert_eq!(answered["result"]["content"], json!([]), "{answered}");
    assert_eq!(server.params("tools/call")[0]["inputResponses"], answers);
}

#[tokio::test]
async fn a_stateful_server_never_hears_of_them() {
    let (server, mut wire) = relayed(EraChoice::Legacy).await;
    let answered = wire.ask(&with_answers(json!({ "user_name": { "action": "accept" } }))).await;
    assert_eq!(answered["result"]["content"], json!([]), "{answered}");
    assert_eq!(server.params("tools/call"), [json!({ "name": "any" })]);
}

#[tokio::test]
async fn answers_that_are_none_are_refused_before_anybody_hears_of_the_call() {
    let (server, mut wire) = relayed(EraChoice::Modern).await;
    for answers in [json!(7), json!(null), json!([]), json!({ "k": 7 }), json!({ "k": null })] {
        let said = wire.ask(&with_answers(answers.clone())).await;
        assert_eq!(refused(&said), (json!(1), -32602), "{answers}");
    }
    assert!(server.params("tools/call").is_empty());
}

/// Honours resources only, and only when it is told to go on; it has nothing to tell.
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

    fn listen<'a>(&'a self, wanted: Wanted, _caller: &'a Caller) -> BoxFuture<'a, Heard> {
        Box::pin(async move {
            self.0.notified().await;
            let honoured = Wanted { uris: wanted.uris, ..Wanted::default() };
            let (sender, notices) = mpsc::channel(1);
            self.1.lock().push(sender);
            Heard { honoured, notices }
        })
    }
}

#[tokio::test]
async fn a_subscription_is_acknowledged_when_the_service_knows_what_it_honours() {
    let mut wire = Wire::to(Arc::new(Hesitant::default()), DownstreamOptions::default());
    let wanted = json!({ "notifications": { "toolsListChanged": true, "resourceSubscriptions": ["memo://one"] } });
    wire.say(&stateless(request(1, "subscriptions/listen", wanted), MODERN)).await;
    let meanwhile = wire.ask(&stateless(call(2, "any"), MODERN)).await;
    assert_eq!(meanwhile["id"], 2, "nothing is held up: {meanwhile}");
    wire.say(&stateless(call(3, "go on"), MODERN)).await;
    let said = [wire.hear().await, wire.hear().await];
    let acknowledged = said.iter().find(|said| said["id"].is_null()).expect("an acknowledgement");
    assert_eq!(acknowledged["params"]["notifications"], json!({ "resourceSubscriptions": ["memo://one"] }));

    wire.session(LEGACY).await;
    wire.say(&request(4, "resources/subscribe", json!({ "uri": "memo://two" }))).await;
    assert_eq!(wire.ask(&call(5, "any")).await["id"], 5, "nothing is held up");
    wire.say(&call(6, "go on")).await;
    let said = [wire.hear().await, wire.hear().await];
    assert!(said.iter().any(|said| said["id"] == 4 && said["result"] == json!({})), "{said:?}");
}

#[tokio::test]
async fn a_session_that_never_said_which_logs_it_wants_gets_the_usual_ones_of_a_stateless_server() {
    let level = |server: &ByHand| server.params("tools/call")[0]["_meta"]["io.modelcontextprotocol/logLevel"].clone();
    let (server, mut wire) = relayed(EraChoice::Modern).await;
    wire.session(LEGACY).await;
    wire.ask(&call(1, "any")).await;
    assert_eq!(level(&server), "info");

    let (server, mut wire) = relayed(EraChoice::Modern).await;
    wire.session(LEGACY).await;
    wire.ask(&request(1, "logging/setLevel", json!({ "level": "error" }))).await;
    wire.ask(&call(2, "any")).await;
    assert_eq!(level(&server), "error", "what it said counts");

    let (server, mut wire) = relayed(EraChoice::Modern).await;
    wire.ask(&stateless(call(1, "any"), MODERN)).await;
    assert_eq!(level(&server), Value::Null, "without a session nothing said means nothing wanted");

    let (server, mut wire) = relayed(EraChoice::Legacy).await;
    wire.session(LEGACY).await;
    wire.ask(&call(1, "any")).await;
    assert!(!server.methods().contains(&"logging/setLevel".to_owned()), "that server makes its own choice");
}
