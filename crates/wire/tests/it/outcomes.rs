//! Outcomes other than a result, as clients of each era see them over each transport.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use toolway_wire::{
    down::{Caller, DownstreamOptions, Profile, Service, ServiceSubscription},
    error::{TimeoutKind, WireError},
    exchange::{
        self, Cause, Exchange, ExchangeTimeouts, Feed, Outcome, Request, ServerRequestDetails, ServerRequestId,
    },
    json::Raw,
    message::RpcError,
    notice::{List, Notice, SubscriptionFilter},
    task::Task,
};

use crate::{
    raw_clients::{RawStdioClient, call, refused, request, stateless},
    routes,
    test_service::TestService,
};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A service whose requests all have this outcome, and whose subscriptions send all notices at once and end.
struct FixedOutcome(Outcome);

impl Service for FixedOutcome {
    fn profile(&self, _caller: &Caller) -> Profile {
        let capabilities = Raw::of(&json!({ "tools": {} }));
        Profile { info: Raw::of(&json!({ "name": "ending", "version": "1" })), capabilities, instructions: None }
    }

    fn open(&self, _request: Request, _caller: &Caller) -> Exchange {
        Exchange::ended(self.0.clone())
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        let (sender, notices) = mpsc::channel(8);
        let other = Notice::Other { method: "notifications/of/tomorrow".to_owned(), params: None };
        let told = [Notice::Changed(List::Prompts), Notice::Changed(List::Resources), Notice::Missed(3), other];
        told.into_iter().for_each(|notice| sender.try_send(notice).unwrap());
        Box::pin(std::future::ready(ServiceSubscription { accepted: wanted, notices }))
    }
}

/// A service whose tool `ask` sends a server request and withdraws it when `forget` is called.
#[derive(Clone, Default)]
struct Withdrawing(Arc<Notify>);

impl Withdrawing {
    async fn ask(self, feed: Feed) {
        let details = ServerRequestDetails {
            id: ServerRequestId(1),
            key: None,
            method: "elicitation/create".to_owned(),
            params: Some(Raw::of(&json!({ "message": "Who?", "requestedSchema": { "type": "object" } }))),
            cause: Cause::Request,
        };
        let answer = feed.ask(details);
        self.0.notified().await;
        feed.withdraw(ServerRequestId(1));
        drop(answer);
        // Longer than any input round is waited for; the clock is paused.
        tokio::time::sleep(Duration::from_secs(1)).await;
        feed.end(Outcome::Answered(Raw::of(&json!({ "content": [] }))));
    }
}

impl Service for Withdrawing {
    fn profile(&self, caller: &Caller) -> Profile {
        TestService::new().profile(caller)
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

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        Box::pin(std::future::ready(ServiceSubscription { accepted: wanted, notices: mpsc::channel(1).1 }))
    }
}

/// Responses to clients of both eras for this outcome: the stateful one first.
async fn read(outcome: &Outcome) -> [Value; 2] {
    let mut wire = RawStdioClient::to(Arc::new(FixedOutcome(outcome.clone())), DownstreamOptions::default());
    wire.session(LEGACY).await;
    let stateful = wire.request(&call(1, "any")).await;
    let stateless = wire.request(&stateless(call(2, "any"), MODERN)).await;
    [stateful, stateless]
}

#[tokio::test]
async fn outcome_without_result_is_an_error_with_its_reason() {
    let timed_out = Outcome::TimedOut { kind: TimeoutKind::Total, limit: Duration::from_secs(7) };
    for (outcome, reason) in [
        (Outcome::Failed(WireError::Ended("it crashed".to_owned())), "it crashed"),
        (timed_out, "no answer within 7s (total timeout)"),
        (Outcome::Cancelled, "cancelled"),
    ] {
        for message in read(&outcome).await {
            assert_eq!(refused(&message).1, -32603, "{message}");
            assert!(message["error"]["message"].as_str().unwrap().contains(reason), "{reason}: {message}");
        }
    }
}

#[tokio::test]
async fn hop_errors_of_the_upstream_server_are_translated() {
    for code in [RpcError::HEADER_MISMATCH, RpcError::UNSUPPORTED_VERSION] {
        for message in read(&Outcome::Refused(RpcError::new(code, "over there"))).await {
            assert_eq!(refused(&message).1, -32603, "{message}");
            assert!(message["error"]["message"].as_str().unwrap().starts_with("error between Toolway and the server"));
        }
    }
    let lacking =
        RpcError::with_data(RpcError::MISSING_CAPABILITY, "cannot ask", json!({ "requiredCapabilities": {} }));
    let [stateful, stateless] = read(&Outcome::Refused(lacking)).await;
    assert_eq!(refused(&stateful).1, -32603);
    assert_eq!(stateful["error"]["data"], json!({ "requiredCapabilities": {} }));
    assert_eq!(refused(&stateless).1, RpcError::MISSING_CAPABILITY, "this error is about the client");

    // A reserved, undefined code: it is replaced, and the original goes into `data`.
    for message in read(&Outcome::Refused(RpcError::new(-32050, "of its own"))).await {
        assert_eq!(refused(&message).1, -32603);
        assert_eq!(message["error"]["data"], json!({ "upstream": { "code": -32050, "message": "of its own" } }));
    }
    let [stateful, stateless] = read(&Outcome::Refused(RpcError::new(-32010, "of its own"))).await;
    assert_eq!(refused(&stateful).1, -32010, "this range was free for servers then");
    assert_eq!(refused(&stateless).1, -32603);
}

#[tokio::test]
async fn task_result_is_passed_on() {
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
    assert!(stateless["result"].as_object_mut().unwrap().remove("_meta").is_some(), "the server info is added");
    assert_eq!(stateless["result"], modern);
}

#[tokio::test]
async fn failure_is_preserved_over_every_transport() {
    for way in routes::ALL {
        let service = FixedOutcome(Outcome::Failed(WireError::Ended("it crashed".to_owned())));
        let connected = way.connect(Arc::new(service)).await;
        let outcome = connected.peer.call_tool("any", None).unwrap().outcome().await;
        let Outcome::Refused(error) = outcome else { panic!("{way:?}: {outcome:?}") };
        assert_eq!(error.code(), RpcError::INTERNAL, "{way:?}");
        assert!(error.message().contains("it crashed"), "{way:?}: {error}");
    }
}

#[tokio::test]
async fn finished_subscription_ends_with_a_result() {
    let mut wire = RawStdioClient::to(Arc::new(FixedOutcome(Outcome::Cancelled)), DownstreamOptions::default());
    let filter = json!({ "notifications": { "promptsListChanged": true, "resourcesListChanged": true } });
    wire.send(&stateless(request(1, "subscriptions/listen", filter), MODERN)).await;
    for method in [
        "notifications/subscriptions/acknowledged",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/of/tomorrow",
    ] {
        let received = wire.receive().await;
        assert_eq!(received["method"], method);
        assert_eq!(received["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1, "{received}");
    }
    let end = wire.receive().await;
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!(1), &json!("complete")), "{end}");
}

#[tokio::test(start_paused = true)]
async fn withdrawn_server_request_is_cancelled_at_the_client() {
    let mut wire = RawStdioClient::to(Arc::new(Withdrawing::default()), DownstreamOptions::default());
    wire.session(LEGACY).await;
    let server_request = wire.request(&call(1, "ask")).await;
    assert_eq!(server_request["method"], "elicitation/create");
    wire.send(&call(2, "forget")).await;
    let mut received = [wire.receive().await, wire.receive().await, wire.receive().await];
    // The two calls end in either order, but a server request is cancelled before its call is answered.
    received.sort_by_key(|message| message["id"] == 2);
    assert_eq!(received[0]["method"], "notifications/cancelled");
    assert_eq!(received[0]["params"]["requestId"], server_request["id"]);
    assert_eq!((&received[1]["id"], &received[1]["result"]["content"]), (&json!(1), &json!([])));

    // A late answer is ignored.
    wire.send(&json!({ "jsonrpc": "2.0", "id": server_request["id"], "result": { "action": "decline" } })).await;
    assert_eq!(wire.request(&call(3, "forget")).await["id"], 3);
}

#[tokio::test(start_paused = true)]
async fn server_request_withdrawn_early_is_never_sent() {
    let mut wire = RawStdioClient::to(Arc::new(Withdrawing::default()), DownstreamOptions::default());
    wire.send(&stateless(call(1, "ask"), MODERN)).await;
    wire.send(&stateless(call(2, "forget"), MODERN)).await;
    let mut received = [wire.receive().await, wire.receive().await];
    received.sort_by_key(|message| message["id"].as_u64());
    assert_eq!((&received[0]["id"], &received[0]["result"]["content"]), (&json!(1), &json!([])), "{}", received[0]);
}
