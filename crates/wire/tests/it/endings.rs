//! Every way a request can end that is no result, as a caller of each era sees it over each transport.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use toolway_wire::{
    down::{Caller, DownstreamOptions, Heard, Profile, Service},
    error::{TimeoutKind, WireError},
    exchange::{self, ServerRequestId, Cause, Exchange, Feed, Outcome, ServerRequestDetails, Request, ExchangeTimeouts},
    json::Raw,
    message::RpcError,
    notice::{List, Notice, Wanted},
    task::Task,
};

use crate::{
    callers::{Wire, call, refused, request, stateless},
    service::Parrot,
    ways,
};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// Every request of it ends the same way; what it has to tell, it tells at once, and then it is over.
struct Ending(Outcome);

impl Service for Ending {
    fn profile(&self, _caller: &Caller) -> Profile {
        let capabilities = Raw::of(&json!({ "tools": {} }));
        Profile { info: Raw::of(&json!({ "name": "ending", "version": "1" })), capabilities, instructions: None }
    }

    fn open(&self, _request: Request, _caller: &Caller) -> Exchange {
        Exchange::ended(self.0.clone())
    }

    fn listen<'a>(&'a self, wanted: Wanted, _caller: &'a Caller) -> BoxFuture<'a, Heard> {
        let (sender, notices) = mpsc::channel(8);
        let other = Notice::Other { method: "notifications/of/tomorrow".to_owned(), params: None };
        let told = [Notice::Changed(List::Prompts), Notice::Changed(List::Resources), Notice::Missed(3), other];
        told.into_iter().for_each(|notice| sender.try_send(notice).unwrap());
        Box::pin(std::future::ready(Heard { honoured: wanted, notices }))
    }
}

/// `ask` asks, until `forget` is called: then it no longer wants to know.
#[derive(Clone, Default)]
struct Fickle(Arc<Notify>);

impl Fickle {
    async fn ask(self, feed: Feed) {
        let question = ServerRequestDetails {
            id: ServerRequestId(1),
            key: None,
            method: "elicitation/create".to_owned(),
            params: Some(Raw::of(&json!({ "message": "Who?", "requestedSchema": { "type": "object" } }))),
            cause: Cause::Request,
        };
        let asked = feed.ask(question);
        self.0.notified().await;
        feed.withdraw(ServerRequestId(1));
        drop(asked);
        // Longer than any round of questions is waited for; nobody really waits, time stands still in these stories.
        tokio::time::sleep(Duration::from_secs(1)).await;
        feed.end(Outcome::Answered(Raw::of(&json!({ "content": [] }))));
    }
}

impl Service for Fickle {
    fn profile(&self, caller: &Caller) -> Profile {
        Parrot::new().profile(caller)
    }

    fn open(&self, request: Request, _caller: &Caller) -> Exchange {
        if request.param("name").is_some_and(|name| name.as_str().as_deref() == Some("forget")) {
            self.0.notify_one();
            return Exchange::ended(Outcome::Answered(Raw::of(&json!({ "content": [] }))));
        }
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), 8);
        tokio::runtime::Handle::current().spawn(self.clone().ask(feed));
        exchange
    }

    fn listen<'a>(&'a self, wanted: Wanted, _caller: &'a Caller) -> BoxFuture<'a, Heard> {
        Box::pin(std::future::ready(Heard { honoured: wanted, notices: mpsc::channel(1).1 }))
    }
}

/// What callers of both eras read when a call ends so: the stateful one first.
async fn read(outcome: &Outcome) -> [Value; 2] {
    let mut wire = Wire::to(Arc::new(Ending(outcome.clone())), DownstreamOptions::default());
    wire.session(LEGACY).await;
    let stateful = wire.ask(&call(1, "any")).await;
    let stateless = wire.ask(&stateless(call(2, "any"), MODERN)).await;
    [stateful, stateless]
}

#[tokio::test]
async fn an_end_without_an_answer_is_an_error_that_says_why() {
    let timed_out = Outcome::TimedOut { kind: TimeoutKind::Total, limit: Duration::from_secs(7) };
    for (outcome, reason) in [
        (Outcome::Failed(WireError::Ended("it crashed".to_owned())), "it crashed"),
        (timed_out, "no answer within 7s (total timeout)"),
        (Outcome::Cancelled, "given up"),
    ] {
        for message in read(&outcome).await {
            assert_eq!(refused(&message).1, -32603, "{message}");
            assert!(message["error"]["message"].as_str().unwrap().contains(reason), "{reason}: {message}");
        }
    }
}

#[tokio::test]
async fn an_error_about_the_next_hop_is_not_mistaken_for_one_about_this_one() {
    for code in [RpcError::HEADER_MISMATCH, RpcError::UNSUPPORTED_VERSION] {
        for message in read(&Outcome::Refused(RpcError::new(code, "over there"))).await {
            assert_eq!(refused(&message).1, -32603, "{message}");
            assert!(message["error"]["message"].as_str().unwrap().starts_with("between here and the server"));
        }
    }
    let lacking =
        RpcError::with_data(RpcError::MISSING_CAPABILITY, "cannot ask", json!({ "requiredCapabilities": {} }));
    let [stateful, stateless] = read(&Outcome::Refused(lacking)).await;
    assert_eq!(refused(&stateful).1, -32603);
    assert_eq!(stateful["error"]["data"], json!({ "requiredCapabilities": {} }));
    assert_eq!(refused(&stateless).1, RpcError::MISSING_CAPABILITY, "that one means the caller");

    // Reserved and never defined: nobody may say it, and what it was is told beside.
    for message in read(&Outcome::Refused(RpcError::new(-32050, "of its own"))).await {
        assert_eq!(refused(&message).1, -32603);
        assert_eq!(message["error"]["data"], json!({ "upstream": { "code": -32050, "message": "of its own" } }));
    }
    let [stateful, stateless] = read(&Outcome::Refused(RpcError::new(-32010, "of its own"))).await;
    assert_eq!(refused(&stateful).1, -32010, "this one was a server's own then");
    assert_eq!(refused(&stateless).1, -32603);
}

#[tokio::test]
async fn a_task_in_the_place_of_a_result_is_handed_on() {
    let dates = json!({ "createdAt": "2026-11-16T05:00:00Z", "lastUpdatedAt": "2026-11-16T05:00:00Z" });
    let task = |more: serde_json::Value| {
        let mut task = dates.clone();
        for (key, value) in more.as_object().unwrap() {
            task[key] = value.clone();
        }
        task
    };
    let modern = task(json!({ "resultType": "task", "taskId": "t1", "status": "working", "ttlMs": 60000 }));
    let handed = Task::view(&Raw::of(&modern)).unwrap();
    let [stateful, mut stateless] = read(&Outcome::HandedOff(Box::new(handed))).await;
    let legacy = task(json!({ "taskId": "t1", "status": "working", "ttl": 60000 }));
    assert_eq!(stateful["result"], json!({ "task": legacy }));
    assert!(stateless["result"].as_object_mut().unwrap().remove("_meta").is_some(), "who answers is said");
    assert_eq!(stateless["result"], modern);
}

#[tokio::test]
async fn over_every_way_an_end_stays_what_it_was() {
    for way in ways::ALL {
        let service = Ending(Outcome::Failed(WireError::Ended("it crashed".to_owned())));
        let connected = way.connect(Arc::new(service)).await;
        let outcome = connected.peer.call_tool("any", None).unwrap().outcome().await;
        let Outcome::Refused(error) = outcome else { panic!("{way:?}: {outcome:?}") };
        assert_eq!(error.code(), RpcError::INTERNAL, "{way:?}");
        assert!(error.message().contains("it crashed"), "{way:?}: {error}");
    }
}

#[tokio::test]
async fn a_subscription_that_is_over_ends_with_a_result() {
    let mut wire = Wire::to(Arc::new(Ending(Outcome::Cancelled)), DownstreamOptions::default());
    let filter = json!({ "notifications": { "promptsListChanged": true, "resourcesListChanged": true } });
    wire.say(&stateless(request(1, "subscriptions/listen", filter), MODERN)).await;
    for method in [
        "notifications/subscriptions/acknowledged",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/of/tomorrow",
    ] {
        let heard = wire.hear().await;
        assert_eq!(heard["method"], method);
        assert_eq!(heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1, "{heard}");
    }
    let end = wire.hear().await;
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!(1), &json!("complete")), "{end}");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_taken_back_is_taken_back_from_the_caller() {
    let mut wire = Wire::to(Arc::new(Fickle::default()), DownstreamOptions::default());
    wire.session(LEGACY).await;
    let question = wire.ask(&call(1, "ask")).await;
    assert_eq!(question["method"], "elicitation/create");
    wire.say(&call(2, "forget")).await;
    let mut heard = [wire.hear().await, wire.hear().await, wire.hear().await];
    // The two calls end in either order, but a question is taken back before its call is answered.
    heard.sort_by_key(|message| message["id"] == 2);
    assert_eq!(heard[0]["method"], "notifications/cancelled");
    assert_eq!(heard[0]["params"]["requestId"], question["id"]);
    assert_eq!((&heard[1]["id"], &heard[1]["result"]["content"]), (&json!(1), &json!([])));

    // An answer that was already on its way goes nowhere, and does no harm.
    wire.say(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } })).await;
    assert_eq!(wire.ask(&call(3, "forget")).await["id"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_taken_back_in_time_is_never_asked() {
    let mut wire = Wire::to(Arc::new(Fickle::default()), DownstreamOptions::default());
    wire.say(&stateless(call(1, "ask"), MODERN)).await;
    wire.say(&stateless(call(2, "forget"), MODERN)).await;
    let mut heard = [wire.hear().await, wire.hear().await];
    heard.sort_by_key(|message| message["id"].as_u64());
    assert_eq!((&heard[0]["id"], &heard[0]["result"]["content"]), (&json!(1), &json!([])), "{}", heard[0]);
}
