//! Rounds of questions in the stateless era, when something comes in between: an error, or the caller's leave.

use http::StatusCode;
use serde_json::{Value, json};
use toolway_wire::{
    exchange::{Answer, ExchangeEvent, Outcome},
    up::EraChoice,
};

use crate::{
    by_hand::{ByHand, Said},
    ways::Ada,
};

/// A stateless server with one tool, which is answered with `call`.
async fn server(call: fn(&Value) -> Said) -> ByHand {
    ByHand::start(move |message| {
        let said = match message["method"].as_str() {
            Some("server/discover") => {
                Said::Result(json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } }))
            }
            Some("tools/list") => {
                Said::Result(json!({ "tools": [{ "name": "greet", "inputSchema": { "type": "object" } }] }))
            }
            _ => call(&message["params"]),
        };
        Box::pin(async { said })
    })
    .await
}

/// Asks for a name, then for nothing but patience.
fn ask_then_wait(params: &Value) -> Said {
    let asked = json!({ "name": { "method": "elicitation/create", "params": {
        "message": "Who?", "requestedSchema": { "type": "object", "properties": {} } } } });
    match params["requestState"].as_str() {
        None => Said::Result(json!({ "resultType": "input_required", "inputRequests": asked, "requestState": "1" })),
        Some(_) => Said::Result(json!({ "resultType": "input_required", "requestState": "2" })),
    }
}

/// Asks for a name, and does not like the headers the first time it is given one.
fn ask_then_refuse_headers(params: &Value) -> Said {
    match (params["requestState"].as_str(), params["_meta"]["progressToken"].as_u64()) {
        (None, _) => ask_then_wait(params),
        (Some(_), Some(id)) if id < 4 => {
            Said::Error(StatusCode::BAD_REQUEST, json!({ "code": -32020, "message": "headers do not match" }))
        }
        _ => Said::Result(json!({ "content": [] })),
    }
}

#[tokio::test]
async fn a_second_chance_takes_the_answers_along() {
    let server = server(ask_then_refuse_headers).await;
    let peer = server.connect(EraChoice::Modern).await;
    let outcome = peer.call_tool("greet", None).unwrap().outcome_with(Some(&Ada), |_| {}).await;
    assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
    let calls = server.params("tools/call");
    assert_eq!(calls.len(), 3);
    assert_eq!(calls[1]["inputResponses"], calls[2]["inputResponses"]);
    assert_eq!(calls[2]["requestState"], "1");
    assert_eq!(server.methods()[1..], ["tools/call", "tools/call", "tools/list", "tools/call"]);
}

#[tokio::test]
async fn nothing_is_sent_for_a_caller_that_left_between_rounds() {
    let server = server(ask_then_wait).await;
    let peer = server.connect(EraChoice::Modern).await;
    let mut exchange = peer.call_tool("greet", None).unwrap();
    let Some(ExchangeEvent::ServerRequest(ask)) = exchange.next().await else { panic!("no question") };
    exchange.cancel("enough");
    ask.answer(Answer::declined());
    peer.ping().await.unwrap();
    assert_eq!(server.methods(), ["server/discover", "tools/call", "server/discover"]);
}
