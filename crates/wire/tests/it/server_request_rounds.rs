//! Rounds of server requests in the stateless era, interrupted by an error or a disconnect.

use http::StatusCode;
use serde_json::{Value, json};
use toolway_wire::{
    exchange::{Answer, ExchangeEvent, Outcome},
    up::EraChoice,
};

use crate::{
    routes::Ada,
    scripted_server::{ScriptedReply, ScriptedServer},
};

/// A stateless server with one tool that `call` answers.
async fn server(call: fn(&Value) -> ScriptedReply) -> ScriptedServer {
    ScriptedServer::start(move |message| {
        let said = match message["method"].as_str() {
            Some("server/discover") => {
                ScriptedReply::Result(json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } }))
            }
            Some("tools/list") => {
                ScriptedReply::Result(json!({ "tools": [{ "name": "greet", "inputSchema": { "type": "object" } }] }))
            }
            _ => call(&message["params"]),
        };
        Box::pin(async { said })
    })
    .await
}

/// Asks for a name, then requests another round without questions.
fn ask_then_wait(params: &Value) -> ScriptedReply {
    let asked = json!({ "name": { "method": "elicitation/create", "params": {
        "message": "Who?", "requestedSchema": { "type": "object", "properties": {} } } } });
    match params["requestState"].as_str() {
        None => ScriptedReply::Result(
            json!({ "resultType": "input_required", "inputRequests": asked, "requestState": "1" }),
        ),
        Some(_) => ScriptedReply::Result(json!({ "resultType": "input_required", "requestState": "2" })),
    }
}

/// Asks for a name, and refuses the headers of the first retry.
fn ask_then_refuse_headers(params: &Value) -> ScriptedReply {
    match (params["requestState"].as_str(), params["_meta"]["progressToken"].as_u64()) {
        (None, _) => ask_then_wait(params),
        (Some(_), Some(id)) if id < 4 => {
            ScriptedReply::Error(StatusCode::BAD_REQUEST, json!({ "code": -32020, "message": "headers do not match" }))
        }
        _ => ScriptedReply::Result(json!({ "content": [] })),
    }
}

#[tokio::test]
async fn retry_after_header_mismatch_repeats_the_answers() {
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
async fn cancelled_call_sends_no_further_round() {
    let server = server(ask_then_wait).await;
    let peer = server.connect(EraChoice::Modern).await;
    let mut exchange = peer.call_tool("greet", None).unwrap();
    let Some(ExchangeEvent::ServerRequest(ask)) = exchange.next().await else { panic!("no question") };
    exchange.cancel("enough");
    ask.answer(Answer::declined());
    peer.ping().await.unwrap();
    assert_eq!(server.methods(), ["server/discover", "tools/call", "server/discover"]);
}
