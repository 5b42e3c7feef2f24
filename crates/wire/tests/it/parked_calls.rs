//! Parked calls: asked again, answered in part, answered twice, abandoned, expired.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use toolway_wire::{
    down::{Caller, DownstreamOptions, Profile, Service, ServiceSubscription},
    exchange::{
        self, Cause, Exchange, ExchangeTimeouts, Feed, Outcome, Request, ServerRequestDetails, ServerRequestId,
    },
    json::Raw,
    limit::Limits,
    message::RpcError,
    notice::SubscriptionFilter,
    seal::Sealer,
};

use crate::{
    raw_clients::{RawHttpClient, RawStdioClient, call, refused, request, stateless},
    test_service::TestService,
};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// Sends two server requests at once; `fickle` withdraws them, `hasty` ends without them; `page` requires a URL
/// elicitation first, once.
#[derive(Clone, Default)]
struct Asking {
    changed: Arc<Notify>,
    opened: Arc<Mutex<usize>>,
    /// The answer that arrived after the end.
    late: Arc<Mutex<Option<String>>>,
    told: Arc<Notify>,
}

impl Asking {
    async fn answer(self, name: String, feed: Feed) {
        let ask = |number, key: &str| {
            let params = json!({ "message": key, "requestedSchema": { "type": "object" } });
            feed.ask(ServerRequestDetails {
                id: ServerRequestId(number),
                key: Some(key.to_owned()),
                method: "elicitation/create".to_owned(),
                params: Some(Raw::of(&params)),
                cause: Cause::Request,
            })
        };
        let (first, second) = (ask(1, "first"), ask(2, "second"));
        if name == "fickle" {
            self.changed.notified().await;
            feed.withdraw(ServerRequestId(1));
            feed.withdraw(ServerRequestId(2));
            feed.end(Outcome::Answered(text("never mind")));
            return;
        }
        if name == "hasty" {
            self.changed.notified().await;
            feed.end(Outcome::Answered(text("done without")));
            *self.late.lock() = Some(format!("{:?}", first.await.into_result()));
            self.told.notify_one();
            return;
        }
        let said = [first.await, second.await].map(|answer| match answer.into_result() {
            Ok(given) => given.to_string(),
            Err(error) => error.to_string(),
        });
        feed.end(Outcome::Answered(text(&said.join(" "))));
    }

    fn page(&self) -> Exchange {
        *self.opened.lock() += 1;
        if *self.opened.lock() == 2 {
            return Exchange::ended(Outcome::Answered(text("welcome")));
        }
        let page =
            json!({ "mode": "url", "url": "https://sign.example/in", "elicitationId": "e1", "message": "Sign in" });
        let data = json!({ "elicitations": [page] });
        let error = RpcError::with_data(RpcError::URL_ELICITATION_REQUIRED, "sign in first", data);
        Exchange::ended(Outcome::Refused(error))
    }
}

impl Service for Asking {
    fn profile(&self, caller: &Caller) -> Profile {
        TestService::new().profile(caller)
    }

    fn open(&self, request: Request, _caller: &Caller) -> Exchange {
        let name = request.param("name").and_then(|name| name.as_str().map(String::from)).unwrap_or_default();
        match name.as_str() {
            "page" => self.page(),
            "change" => {
                self.changed.notify_one();
                Exchange::ended(Outcome::Answered(text("changed")))
            }
            _ => {
                let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), 8);
                tokio::runtime::Handle::current().spawn(self.clone().answer(name, feed));
                exchange
            }
        }
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        Box::pin(std::future::ready(ServiceSubscription { accepted: wanted, notices: mpsc::channel(1).1 }))
    }
}

fn text(text: &str) -> Raw {
    Raw::of(&json!({ "content": [{ "type": "text", "text": text }] }))
}

fn asking() -> RawStdioClient {
    RawStdioClient::to(Arc::new(Asking::default()), DownstreamOptions::default())
}

/// A call, or the retry of one: with this state and these answers.
fn retry(mut message: Value, state: &Value, answers: Option<Value>) -> Value {
    if !state.is_null() {
        message["params"]["requestState"] = state.clone();
    }
    if let Some(answers) = answers {
        message["params"]["inputResponses"] = answers;
    }
    stateless(message, MODERN)
}

fn asked(message: &Value) -> (Vec<String>, Value) {
    assert_eq!(message["result"]["resultType"], "input_required", "{message}");
    let requests = message["result"]["inputRequests"].as_object().unwrap();
    (requests.keys().cloned().collect(), message["result"]["requestState"].clone())
}

fn accept(word: &str) -> Value {
    json!({ "action": "accept", "content": { "word": word } })
}

#[tokio::test]
async fn unanswered_requests_are_asked_again_under_a_new_state() {
    let mut wire = asking();
    let (keys, state) = asked(&wire.request(&retry(call(1, "x"), &Value::Null, None)).await);
    assert_eq!(keys, ["first", "second"]);
    let (same, second) = asked(&wire.request(&retry(call(2, "x"), &state, None)).await);
    assert_eq!(same, keys, "without an answer nothing changes");
    let partly = retry(call(3, "x"), &second, Some(json!({ "first": accept("one"), "unknown": accept("ignored") })));
    let (rest, third) = asked(&wire.request(&partly).await);
    assert_eq!(rest, ["second"]);
    assert!(state != second && second != third);
    let answers = Some(json!({ "second": accept("two") }));
    for dead in [&state, &second] {
        assert_eq!(refused(&wire.request(&retry(call(4, "x"), dead, answers.clone())).await), (json!(4), -32602));
    }
    let done = wire.request(&retry(call(5, "x"), &third, answers)).await;
    let said = done["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("one") && said.contains("two"), "{done}");
}

#[tokio::test]
async fn only_one_of_two_concurrent_retries_continues() {
    let http_client = RawHttpClient::with(Arc::new(Asking::default()), DownstreamOptions::default());
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "x")];
    let (_, state) = asked(&http_client.post(&headers, &retry(call(1, "x"), &Value::Null, None)).await.message());
    let answers = json!({ "first": accept("one"), "second": accept("two") });
    let again = retry(call(2, "x"), &state, Some(answers));
    let both = tokio::join!(http_client.post(&headers, &again), http_client.post(&headers, &again));
    let both = [both.0.message(), both.1.message()];
    assert_eq!(both.iter().filter(|one| one["result"]["resultType"] == "complete").count(), 1, "{both:?}");
    assert_eq!(both.iter().filter(|one| one["error"]["code"] == -32602).count(), 1, "{both:?}");
}

#[tokio::test]
async fn withdrawn_requests_need_no_answer() {
    let mut wire = asking();
    let (_, state) = asked(&wire.request(&retry(call(1, "fickle"), &Value::Null, None)).await);
    wire.request(&stateless(call(2, "change"), MODERN)).await;
    let answered = wire.request(&retry(call(3, "fickle"), &state, None)).await;
    assert_eq!(answered["result"]["content"][0]["text"], "never mind", "{answered}");
}

/// A call may have ended when its client retries; then the answers are dropped.
#[tokio::test]
async fn answers_to_an_ended_call_are_dropped() {
    let service = Asking::default();
    let mut wire = RawStdioClient::to(Arc::new(service.clone()), DownstreamOptions::default());
    let (_, state) = asked(&wire.request(&retry(call(1, "hasty"), &Value::Null, None)).await);
    wire.request(&stateless(call(2, "change"), MODERN)).await;
    let answers = json!({ "first": accept("late"), "second": accept("late") });
    let answered = wire.request(&retry(call(3, "hasty"), &state, Some(answers))).await;
    assert_eq!(answered["result"]["content"][0]["text"], "done without", "{answered}");
    service.told.notified().await;
    let told = service.late.lock().clone().unwrap();
    assert!(told.contains("no handler is available"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn late_retry_is_told_that_the_call_expired() {
    let mut wire = asking();
    let prompt = |id: u64| request(id, "prompts/get", json!({ "name": "x" }));
    let (_, tool_state) = asked(&wire.request(&retry(call(1, "x"), &Value::Null, None)).await);
    let (_, prompt_state) = asked(&wire.request(&retry(prompt(2), &Value::Null, None)).await);
    tokio::time::sleep(Duration::from_secs(601)).await;
    let late = wire.request(&retry(call(3, "x"), &tool_state, None)).await;
    assert_eq!(
        (&late["result"]["isError"], &late["result"]["resultType"]),
        (&json!(true), &json!("complete")),
        "{late}"
    );
    assert!(late["result"]["content"][0]["text"].as_str().unwrap().contains("call again"));
    assert_eq!(refused(&wire.request(&retry(prompt(4), &prompt_state, None)).await), (json!(4), -32603));
}

#[tokio::test]
async fn retry_after_a_restart_with_the_same_key_is_expired() {
    let sealer = Some(Arc::new(Sealer::with_key(&[7; 32]).unwrap()));
    let options = DownstreamOptions { sealer, ..DownstreamOptions::default() };
    let mut before = RawStdioClient::to(Arc::new(Asking::default()), options.clone());
    let (_, state) = asked(&before.request(&retry(call(1, "x"), &Value::Null, None)).await);
    drop(before);
    let mut after = RawStdioClient::to(Arc::new(Asking::default()), options);
    let over = after.request(&retry(call(2, "x"), &state, None)).await;
    assert_eq!(over["result"]["isError"], true, "{over}");
    assert_eq!(
        refused(&after.request(&retry(call(3, "y"), &state, None)).await),
        (json!(3), -32602),
        "another request"
    );
    let mut other = asking();
    assert_eq!(refused(&other.request(&retry(call(4, "x"), &state, None)).await), (json!(4), -32602), "another key");
}

#[tokio::test]
async fn parked_calls_per_caller_are_limited() {
    let limits = Limits { parked_calls_per_caller: 2, ..Limits::default() };
    let mut wire =
        RawStdioClient::to(Arc::new(Asking::default()), DownstreamOptions { limits, ..DownstreamOptions::default() });
    let mut states = Vec::new();
    for id in [1, 2] {
        states.push(asked(&wire.request(&retry(call(id, "x"), &Value::Null, None)).await).1);
    }
    assert_eq!(refused(&wire.request(&retry(call(3, "x"), &Value::Null, None)).await), (json!(3), -32603));
    let answers = json!({ "first": accept("one"), "second": accept("two") });
    wire.request(&retry(call(4, "x"), &states[0], Some(answers))).await;
    asked(&wire.request(&retry(call(5, "x"), &Value::Null, None)).await);
}

/// A stateless call of a client that supports URL elicitation.
fn with_pages(message: Value) -> Value {
    let mut message = stateless(message, MODERN);
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": { "url": {} } });
    message
}

#[tokio::test]
async fn url_elicitation_is_a_server_request_and_then_the_call_is_repeated() {
    let mut wire = asking();
    let first = wire.request(&with_pages(call(1, "page"))).await;
    let (keys, state) = asked(&first);
    let question = &first["result"]["inputRequests"][&keys[0]];
    assert_eq!(
        question,
        &json!({ "method": "elicitation/create",
            "params": { "mode": "url", "message": "Sign in", "url": "https://sign.example/in", "elicitationId": "e1" } })
    );
    let mut again = call(2, "page");
    again["params"]["requestState"] = state.clone();
    again["params"]["inputResponses"] = json!({ &keys[0]: { "action": "decline" } });
    assert_eq!(wire.request(&with_pages(again.clone())).await["result"]["isError"], true, "nothing was called");
    again["params"]["inputResponses"] = json!({ &keys[0]: { "action": "accept" } });
    let done = wire.request(&with_pages(again)).await;
    assert_eq!(done["result"]["content"][0]["text"], "welcome", "{done}");
}

#[tokio::test]
async fn client_without_url_elicitation_gets_an_error_of_its_era() {
    let lacking = asking().request(&stateless(call(1, "page"), MODERN)).await;
    assert_eq!(refused(&lacking), (json!(1), -32021));
    assert_eq!(lacking["error"]["data"], json!({ "requiredCapabilities": { "elicitation": { "url": {} } } }));

    let mut old = asking();
    old.session(LEGACY).await;
    let told = old.request(&call(1, "page")).await;
    assert_eq!(told["result"]["isError"], true, "{told}");
    assert!(told["result"]["content"][0]["text"].as_str().unwrap().contains("https://sign.example/in"));
    let told = asking_session().await.request(&request(2, "prompts/get", json!({ "name": "page" }))).await;
    assert_eq!(refused(&told), (json!(2), -32603));

    let mut able = asking();
    let params = json!({ "protocolVersion": LEGACY, "capabilities": { "elicitation": { "url": {} } } });
    able.request(&request(0, "initialize", params)).await;
    let told = able.request(&call(1, "page")).await;
    assert_eq!(refused(&told), (json!(1), -32042));
    assert_eq!(told["error"]["data"]["elicitations"][0]["elicitationId"], "e1", "it supports URL elicitation");
}

async fn asking_session() -> RawStdioClient {
    let mut wire = asking();
    wire.session(LEGACY).await;
    wire
}
