//! A stateless server with unusual responses: a task, another revision, invalid server requests, an unusable schema.

use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};
use toolway_wire::{
    error::WireError,
    exchange::{Answer, ExchangeTimeouts, Outcome, Request, ServerRequestDetails, ServerRequestHandler},
    json::Raw,
    message::{ClientCapabilities, RpcError},
    up::EraChoice,
};

use crate::{
    routes::Ada,
    scripted_server::{ScriptedReply, ScriptedServer},
};

/// A server that answers every tool call and prompt with `answer`, and lists `tools`.
async fn server(tools: Value, answer: impl Fn(&Value) -> ScriptedReply + Send + Sync + 'static) -> ScriptedServer {
    ScriptedServer::start(move |message| {
        let said = match message["method"].as_str() {
            Some("server/discover") => {
                ScriptedReply::Result(json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } }))
            }
            Some("tools/list") if tools.is_null() => {
                ScriptedReply::Error(StatusCode::OK, json!({ "code": -32603, "message": "no listing today" }))
            }
            Some("tools/list") => ScriptedReply::Result(json!({ "tools": tools })),
            _ => answer(&message["params"]),
        };
        Box::pin(async { said })
    })
    .await
}

/// Outcome of a call that is answered with this result.
async fn outcome_of(result: Value) -> Outcome {
    let server = server(json!([]), move |_| ScriptedReply::Result(result.clone())).await;
    let peer = server.connect(EraChoice::Modern).await;
    peer.call_tool("any", None).unwrap().outcome_with(Some(&Ada), |_| {}).await
}

fn elicitation() -> Value {
    json!({ "method": "elicitation/create", "params": {
        "message": "Who?", "requestedSchema": { "type": "object", "properties": {} } } })
}

/// Refuses every server request.
struct Refusing;

impl ServerRequestHandler for Refusing {
    fn capabilities(&self) -> ClientCapabilities {
        Ada.capabilities()
    }

    fn answer(&self, _question: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        Box::pin(async { Answer::Refused(RpcError::new(RpcError::REJECTED_BY_USER, "not now")) })
    }
}

#[tokio::test]
async fn task_is_accepted_only_as_the_result_of_a_call() {
    let task = json!({ "resultType": "task", "taskId": "t1", "status": "working" });
    let outcome = outcome_of(task.clone()).await;
    let Outcome::HandedOff(handed) = outcome else { panic!("{outcome:?}") };
    assert_eq!((handed.id.as_str(), handed.status.as_str()), ("t1", "working"));
    assert_eq!(handed.raw.read::<Value>().unwrap(), task);

    let nameless = outcome_of(json!({ "resultType": "task", "status": "working" })).await;
    assert!(matches!(&nameless, Outcome::Failed(WireError::Protocol(_))), "{nameless:?}");

    let server = server(json!([]), move |_| ScriptedReply::Result(task.clone())).await;
    let peer = server.connect(EraChoice::Modern).await;
    let prompt = peer.get_prompt("any", None).unwrap().outcome().await;
    assert!(matches!(&prompt, Outcome::Failed(WireError::Protocol(_))), "{prompt:?}");
    let call = Request::new("tools/call", Some(Raw::of(&json!({ "name": "any" })))).unwrap();
    let answer = peer.answer(call, ExchangeTimeouts::call()).await;
    assert!(matches!(&answer, Err(WireError::Protocol(_))), "a result was expected: {answer:?}");
}

#[tokio::test]
async fn invalid_server_requests_are_a_protocol_error() {
    let twice = format!(r#"{{"resultType":"input_required","inputRequests":{{"a":{0},"a":{0}}}}}"#, elicitation());
    for result in [
        json!({ "resultType": "input_required" }),
        json!({ "resultType": "input_required", "inputRequests": [elicitation()] }),
        json!({ "resultType": "input_required", "inputRequests": { "a": { "method": "tools/call" } } }),
        json!({ "resultType": "maybe" }),
    ] {
        let outcome = outcome_of(result.clone()).await;
        assert!(matches!(&outcome, Outcome::Failed(WireError::Protocol(_))), "{result}: {outcome:?}");
    }
    let server = server(json!([]), move |_| ScriptedReply::Text(twice.clone())).await;
    let peer = server.connect(EraChoice::Modern).await;
    let outcome = peer.call_tool("any", None).unwrap().outcome_with(Some(&Ada), |_| {}).await;
    assert!(matches!(&outcome, Outcome::Failed(WireError::Protocol(_))), "duplicate key: {outcome:?}");
}

#[tokio::test]
async fn several_server_requests_are_answered_together_by_key() {
    let server = server(json!([]), |params| match &params["inputResponses"] {
        Value::Null => ScriptedReply::Result(json!({ "resultType": "input_required",
            "inputRequests": { "first": elicitation(), "second": elicitation() } })),
        _ => ScriptedReply::Result(json!({ "content": [] })),
    })
    .await;
    let peer = server.connect(EraChoice::Modern).await;
    let outcome = peer.call_tool("any", None).unwrap().outcome_with(Some(&Ada), |_| {}).await;
    assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
    let ada = json!({ "action": "accept", "content": { "name": "Ada" } });
    let calls = server.params("tools/call");
    assert_eq!(calls[1]["inputResponses"], json!({ "first": ada, "second": ada }));
    assert_eq!(calls[1].get("requestState"), None, "none was given");
}

/// Only the refusal of a form can be expressed on this wire.
#[tokio::test]
async fn refused_form_is_sent_as_cancelled() {
    let server = server(json!([]), |params| match &params["inputResponses"] {
        Value::Null => {
            ScriptedReply::Result(json!({ "resultType": "input_required", "inputRequests": { "name": elicitation() } }))
        }
        _ => ScriptedReply::Result(json!({ "content": [] })),
    })
    .await;
    let peer = server.connect(EraChoice::Modern).await;
    let outcome = peer.call_tool("any", None).unwrap().outcome_with(Some(&Refusing), |_| {}).await;
    assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
    assert_eq!(server.params("tools/call")[1]["inputResponses"], json!({ "name": { "action": "cancel" } }));
    let outcome = peer.call_tool("any", None).unwrap().outcome().await;
    assert!(matches!(outcome, Outcome::Failed(WireError::Refused(_))), "there is no handler: {outcome:?}");
}

#[tokio::test]
async fn refused_server_request_ends_the_call() {
    let sampling = json!({ "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1 } });
    let asked = json!({ "resultType": "input_required", "inputRequests": { "name": sampling } });
    let server = server(json!([]), move |_| ScriptedReply::Result(asked.clone())).await;
    let peer = server.connect(EraChoice::Modern).await;
    let outcome = peer.call_tool("any", None).unwrap().outcome_with(Some(&Refusing), |_| {}).await;
    let Outcome::Failed(WireError::Refused(why)) = &outcome else { panic!("{outcome:?}") };
    assert!(why.contains("not now"), "{why}");
    assert_eq!(server.params("tools/call").len(), 1, "nothing is sent after it");
}

#[tokio::test]
async fn server_that_refuses_its_own_revision_is_retried_once() {
    let refuse = |listed: Value| {
        let error = json!({ "code": -32022, "message": "unsupported", "data": { "supported": listed } });
        server(json!([]), move |_| ScriptedReply::Error(StatusCode::BAD_REQUEST, error.clone()))
    };
    let stubborn = refuse(json!(["2026-07-28"])).await;
    let peer = stubborn.connect(EraChoice::Modern).await;
    let outcome = peer.call_tool("any", None).unwrap().outcome().await;
    assert!(matches!(&outcome, Outcome::Failed(WireError::Protocol(_))), "{outcome:?}");
    assert_eq!(stubborn.params("tools/call").len(), 2);

    let foreign = refuse(json!(["2199-01-01"])).await;
    let peer = foreign.connect(EraChoice::Modern).await;
    let outcome = peer.call_tool("any", None).unwrap().outcome().await;
    assert!(matches!(&outcome, Outcome::Refused(error) if error.code() == -32022), "{outcome:?}");
    assert_eq!(foreign.params("tools/call").len(), 1, "no common revision");
}

#[tokio::test]
async fn header_mismatch_is_returned_if_no_listing_is_available() {
    let mismatch =
        |_: &Value| ScriptedReply::Error(StatusCode::BAD_REQUEST, json!({ "code": -32020, "message": "headers" }));
    let server = server(Value::Null, mismatch).await;
    let peer = server.connect(EraChoice::Modern).await;
    let call = peer.call_tool("any", None).unwrap().outcome().await;
    assert!(matches!(&call, Outcome::Refused(error) if error.code() == -32020), "{call:?}");
    let prompt = peer.get_prompt("any", None).unwrap().outcome().await;
    assert!(matches!(&prompt, Outcome::Refused(error) if error.code() == -32020), "{prompt:?}");
    assert_eq!(server.methods()[1..], ["tools/call", "tools/list", "prompts/get"], "only tools have such headers");
}

#[tokio::test]
async fn tool_with_invalid_header_annotations_is_reported_and_not_listed() {
    let tool = |name: &str, header: &str| {
        json!({ "name": name, "inputSchema": { "type": "object",
            "properties": { "region": { "type": "string", "x-mcp-header": header } } } })
    };
    let server =
        server(json!([tool("good", "Region"), tool("bad", "No Such Name")]), |_| ScriptedReply::EmptyStream).await;
    let listing = server.connect(EraChoice::Modern).await.list_tools().await.unwrap();
    let names: Vec<_> = listing.items.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["good"]);
    assert_eq!(listing.malformed.len(), 1);
    assert!(listing.malformed[0].problem.contains("`bad`: invalid x-mcp-header"), "{}", listing.malformed[0].problem);
}
