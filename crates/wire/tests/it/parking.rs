//! Calls that wait for their caller's answers: asked again, answered in part, answered twice, given up, forgotten.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use toolway_wire::{
    down::{Caller, DownstreamOptions, Heard, Profile, Service},
    exchange::{self, ServerRequestId, Cause, Exchange, Feed, Outcome, ServerRequestDetails, Request, ExchangeTimeouts},
    json::Raw,
    limit::Limits,
    message::RpcError,
    notice::Wanted,
    seal::Sealer,
};

use crate::{
    callers::{Door, Wire, call, refused, request, stateless},
    service::Parrot,
};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// Asks two things at once, `fickle` until it changes its mind, `hasty` until it is over; `page` wants a page to be opened first, once.
#[derive(Clone, Default)]
struct Curious {
    changed: Arc<Notify>,
    opened: Arc<Mutex<usize>>,
    /// What it was told when it was over.
    late: Arc<Mutex<Option<String>>>,
    told: Arc<Notify>,
}

impl Curious {
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

impl Service for Curious {
    fn profile(&self, caller: &Caller) -> Profile {
        Parrot::new().profile(caller)
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

    fn listen<'a>(&'a self, wanted: Wanted, _caller: &'a Caller) -> BoxFuture<'a, Heard> {
        Box::pin(std::future::ready(Heard { honoured: wanted, notices: mpsc::channel(1).1 }))
    }
}

fn text(text: &str) -> Raw {
    Raw::of(&json!({ "content": [{ "type": "text", "text": text }] }))
}

fn curious() -> Wire {
    Wire::to(Arc::new(Curious::default()), DownstreamOptions::default())
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
async fn what_was_not_answered_is_asked_again_under_a_new_state() {
    let mut wire = curious();
    let (keys, state) = asked(&wire.ask(&retry(call(1, "x"), &Value::Null, None)).await);
    assert_eq!(keys, ["first", "second"]);
    let (same, second) = asked(&wire.ask(&retry(call(2, "x"), &state, None)).await);
    assert_eq!(same, keys, "without an answer nothing changes");
    let partly = retry(call(3, "x"), &second, Some(json!({ "first": accept("one"), "stranger": accept("ignored") })));
    let (rest, third) = asked(&wire.ask(&partly).await);
    assert_eq!(rest, ["second"]);
    assert!(state != second && second != third);
    let answers = Some(json!({ "second": accept("two") }));
    for dead in [&state, &second] {
        assert_eq!(refused(&wire.ask(&retry(call(4, "x"), dead, answers.clone())).await), (json!(4), -32602));
    }
    let done = wire.ask(&retry(call(5, "x"), &third, answers)).await;
    let said = done["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("one") && said.contains("two"), "{done}");
}

#[tokio::test]
async fn of_two_retries_at_once_one_goes_on() {
    let door = Door::with(Arc::new(Curious::default()), DownstreamOptions::default());
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "x")];
    let (_, state) = asked(&door.post(&headers, &retry(call(1, "x"), &Value::Null, None)).await.message());
    let answers = json!({ "first": accept("one"), "second": accept("two") });
    let again = retry(call(2, "x"), &state, Some(answers));
    let both = tokio::join!(door.post(&headers, &again), door.post(&headers, &again));
    let both = [both.0.message(), both.1.message()];
    assert_eq!(both.iter().filter(|one| one["result"]["resultType"] == "complete").count(), 1, "{both:?}");
    assert_eq!(both.iter().filter(|one| one["error"]["code"] == -32602).count(), 1, "{both:?}");
}

#[tokio::test]
async fn a_server_that_changed_its_mind_meanwhile_has_the_last_word() {
    let mut wire = curious();
    let (_, state) = asked(&wire.ask(&retry(call(1, "fickle"), &Value::Null, None)).await);
    wire.ask(&stateless(call(2, "change"), MODERN)).await;
    let answered = wire.ask(&retry(call(3, "fickle"), &state, None)).await;
    assert_eq!(answered["result"]["content"][0]["text"], "never mind", "{answered}");
}

/// A call may be over by the time its caller comes back: then the answers are nobody's, and nobody acts on them.
#[tokio::test]
async fn answers_to_a_call_that_is_over_are_not_given() {
    let curious = Curious::default();
    let mut wire = Wire::to(Arc::new(curious.clone()), DownstreamOptions::default());
    let (_, state) = asked(&wire.ask(&retry(call(1, "hasty"), &Value::Null, None)).await);
    wire.ask(&stateless(call(2, "change"), MODERN)).await;
    let answers = json!({ "first": accept("late"), "second": accept("late") });
    let answered = wire.ask(&retry(call(3, "hasty"), &state, Some(answers))).await;
    assert_eq!(answered["result"]["content"][0]["text"], "done without", "{answered}");
    curious.told.notified().await;
    let told = curious.late.lock().clone().unwrap();
    assert!(told.contains("nobody is there"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_back_too_late_can_read_that_it_is_over() {
    let mut wire = curious();
    let prompt = |id: u64| request(id, "prompts/get", json!({ "name": "x" }));
    let (_, tool_state) = asked(&wire.ask(&retry(call(1, "x"), &Value::Null, None)).await);
    let (_, prompt_state) = asked(&wire.ask(&retry(prompt(2), &Value::Null, None)).await);
    tokio::time::sleep(Duration::from_secs(601)).await;
    let late = wire.ask(&retry(call(3, "x"), &tool_state, None)).await;
    assert_eq!(
        (&late["result"]["isError"], &late["result"]["resultType"]),
        (&json!(true), &json!("complete")),
        "{late}"
    );
    assert!(late["result"]["content"][0]["text"].as_str().unwrap().contains("call again"));
    assert_eq!(refused(&wire.ask(&retry(prompt(4), &prompt_state, None)).await), (json!(4), -32603));
}

#[tokio::test]
async fn after_a_restart_with_the_same_key_the_caller_learns_that_it_is_over() {
    let sealer = Some(Arc::new(Sealer::with_key(&[7; 32]).unwrap()));
    let options = DownstreamOptions { sealer, ..DownstreamOptions::default() };
    let mut before = Wire::to(Arc::new(Curious::default()), options.clone());
    let (_, state) = asked(&before.ask(&retry(call(1, "x"), &Value::Null, None)).await);
    drop(before);
    let mut after = Wire::to(Arc::new(Curious::default()), options);
    let over = after.ask(&retry(call(2, "x"), &state, None)).await;
    assert_eq!(over["result"]["isError"], true, "{over}");
    assert_eq!(refused(&after.ask(&retry(call(3, "y"), &state, None)).await), (json!(3), -32602), "another request");
    let mut stranger = curious();
    assert_eq!(refused(&stranger.ask(&retry(call(4, "x"), &state, None)).await), (json!(4), -32602), "another key");
}

#[tokio::test]
async fn one_caller_can_leave_only_so_many_waiting() {
    let limits = Limits { parked_calls_per_caller: 2, ..Limits::default() };
    let mut wire = Wire::to(Arc::new(Curious::default()), DownstreamOptions { limits, ..DownstreamOptions::default() });
    let mut states = Vec::new();
    for id in [1, 2] {
        states.push(asked(&wire.ask(&retry(call(id, "x"), &Value::Null, None)).await).1);
    }
    assert_eq!(refused(&wire.ask(&retry(call(3, "x"), &Value::Null, None)).await), (json!(3), -32603));
    let answers = json!({ "first": accept("one"), "second": accept("two") });
    wire.ask(&retry(call(4, "x"), &states[0], Some(answers))).await;
    asked(&wire.ask(&retry(call(5, "x"), &Value::Null, None)).await);
}

/// A stateless call by somebody who can open pages.
fn with_pages(message: Value) -> Value {
    let mut message = stateless(message, MODERN);
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": { "url": {} } });
    message
}

#[tokio::test]
async fn a_page_to_be_opened_first_is_a_question_and_then_the_call_is_made_again() {
    let mut wire = curious();
    let first = wire.ask(&with_pages(call(1, "page"))).await;
    let (keys, state) = asked(&first);
    let question = &first["result"]["inputRequests"][&keys[0]];
    assert_eq!(
        question,
        &json!({ "method": "elicitation/create",
            "params": { "mode": "url", "message": "Sign in", "url": "https://sign.example/in" } })
    );
    let mut again = call(2, "page");
    again["params"]["requestState"] = state.clone();
    again["params"]["inputResponses"] = json!({ &keys[0]: { "action": "decline" } });
    assert_eq!(wire.ask(&with_pages(again.clone())).await["result"]["isError"], true, "nothing was called");
    again["params"]["inputResponses"] = json!({ &keys[0]: { "action": "accept" } });
    let done = wire.ask(&with_pages(again)).await;
    assert_eq!(done["result"]["content"][0]["text"], "welcome", "{done}");
}

#[tokio::test]
async fn whoever_cannot_open_pages_is_told_so_in_its_own_words() {
    let lacking = curious().ask(&stateless(call(1, "page"), MODERN)).await;
    assert_eq!(refused(&lacking), (json!(1), -32021));
    assert_eq!(lacking["error"]["data"], json!({ "requiredCapabilities": { "elicitation": { "url": {} } } }));

    let mut old = curious();
    old.session(LEGACY).await;
    let told = old.ask(&call(1, "page")).await;
    assert_eq!(told["result"]["isError"], true, "{told}");
    assert!(told["result"]["content"][0]["text"].as_str().unwrap().contains("https://sign.example/in"));
    let told = curious_session().await.ask(&request(2, "prompts/get", json!({ "name": "page" }))).await;
    assert_eq!(refused(&told), (json!(2), -32603));

    let mut able = curious();
    let params = json!({ "protocolVersion": LEGACY, "capabilities": { "elicitation": { "url": {} } } });
    able.ask(&request(0, "initialize", params)).await;
    let told = able.ask(&call(1, "page")).await;
    assert_eq!(refused(&told), (json!(1), -32042));
    assert_eq!(told["error"]["data"]["elicitations"][0]["elicitationId"], "e1", "it knows what that means");
}

async fn curious_session() -> Wire {
    let mut wire = curious();
    wire.session(LEGACY).await;
    wire
}
