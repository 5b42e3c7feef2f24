//! Tool-call deltas of servers that are compatible with Chat Completions, each in its own way.

use serde_json::{Value, json};
use toolway_model::StopReason;
use toolway_testkit::vendor::{Fault, Reply, VendorKind};

use crate::stage::{answer, hello, model};

const FAULTS: [Fault; 11] = [
    Fault::MissingIndex,
    Fault::ConstantIndex,
    Fault::GappedIndex,
    Fault::RepeatedId,
    Fault::MissingId,
    Fault::ObjectArguments,
    Fault::ChangingId,
    Fault::LateName,
    Fault::Interleaved,
    Fault::WrongReason,
    Fault::NoReason,
];

#[tokio::test]
async fn no_call_is_lost_or_doubled_whatever_the_deltas_look_like() {
    let calls = [
        ("read", json!({ "path": "a.txt", "deep": { "list": [1, "}"] } })),
        ("read", json!({ "path": "b.txt" })),
        ("list", json!({})),
        ("read", json!({ "path": "a.txt", "deep": { "list": [1, "}"] } })),
    ];
    for fault in FAULTS {
        for count in 1..=calls.len() {
            let calls = &calls[..count];
            let reply = (0..).zip(calls).fold(Reply::text("Looking."), |reply, (number, (name, arguments))| {
                reply.call(&format!("c{number}"), name, arguments.clone())
            });
            let (_vendor, model) = model(VendorKind::OpenaiChat, vec![reply.fault(fault)]).await;
            let (found, message) = answer(&model, hello()).await;
            let expected: Vec<(String, Value)> =
                calls.iter().map(|(name, arguments)| ((*name).to_owned(), arguments.clone())).collect();
            assert_eq!((found.calls, found.reason), (expected, StopReason::ToolCalls), "{fault:?}");
            let mut ids: Vec<&str> = message.tool_calls().map(|call| call.id.as_str()).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), count, "{fault:?}: ids are unique");
        }
    }
}

async fn calls_of(deltas: &[Value]) -> Vec<(String, Value)> {
    let chunk = |delta: &Value| format!("data: {}\n\n", json!({ "choices": [{ "delta": { "tool_calls": [delta] } }] }));
    let mut stream: String = deltas.iter().map(chunk).collect();
    stream.push_str("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n");
    let (_vendor, model) = model(VendorKind::OpenaiChat, vec![Reply::stream(&stream)]).await;
    answer(&model, hello()).await.0.calls
}

fn call(name: &str, arguments: Value) -> (String, Value) {
    (name.to_owned(), arguments)
}

#[tokio::test]
async fn calls_without_ids_and_arguments_are_told_apart_by_their_names() {
    let deltas = ["first", "second"].map(|name| json!({ "index": 0, "function": { "name": name, "arguments": "" } }));
    assert_eq!(calls_of(&deltas).await, [call("first", json!({})), call("second", json!({}))]);
}

#[tokio::test]
async fn a_name_that_is_repeated_in_every_delta_is_one_call() {
    let deltas = ["{\"a\"", ": 1", "}"]
        .map(|piece| json!({ "index": 0, "id": "c", "function": { "name": "first", "arguments": piece } }));
    assert_eq!(calls_of(&deltas).await, [call("first", json!({ "a": 1 }))]);
    let deltas = ["{\"a\"", ": 1", "}"].map(|piece| json!({ "function": { "name": "first", "arguments": piece } }));
    assert_eq!(calls_of(&deltas).await, [call("first", json!({ "a": 1 }))]);
}

#[tokio::test]
async fn a_piece_with_an_index_of_its_own_belongs_to_the_last_call() {
    let deltas = [
        json!({ "index": 0, "id": "c", "function": { "name": "first", "arguments": "{" } }),
        json!({ "index": 1, "function": { "arguments": "}" } }),
    ];
    assert_eq!(calls_of(&deltas).await, [call("first", json!({}))]);
}

#[tokio::test]
async fn an_id_that_comes_late_belongs_to_the_call_of_its_index() {
    let deltas = [
        json!({ "index": 0, "function": { "name": "first", "arguments": "{" } }),
        json!({ "index": 0, "id": "c", "function": { "arguments": "}" } }),
    ];
    assert_eq!(calls_of(&deltas).await, [call("first", json!({}))]);
}

#[tokio::test]
async fn a_call_without_a_name_is_not_lost() {
    let deltas = [json!({ "index": 0, "id": "c", "function": { "arguments": "{\"a\": 1}" } })];
    assert_eq!(calls_of(&deltas).await, [call("", json!({ "a": 1 }))]);
}

#[tokio::test]
async fn arguments_that_are_not_json_are_kept_as_text() {
    let deltas = [json!({ "index": 0, "id": "c", "function": { "name": "first", "arguments": "{oops" } })];
    assert_eq!(calls_of(&deltas).await, [call("first", json!("{oops"))]);
}

#[tokio::test]
async fn reasoning_details_are_sent_back_and_both_spellings_of_reasoning_are_read() {
    for key in ["reasoning", "reasoning_content"] {
        let details = json!([{ "type": "reasoning.encrypted", "data": "AAAA" }]);
        let delta = json!({ key: "hm", "reasoning_details": details, "content": "hi" });
        let chunk = json!({ "choices": [{ "delta": delta, "finish_reason": "stop" }] });
        let (_vendor, model) = model(VendorKind::OpenaiChat, vec![Reply::stream(&format!("data: {chunk}\n\n"))]).await;
        let (found, message) = answer(&model, hello()).await;
        assert_eq!((found.reasoning.as_str(), found.text.as_str()), ("hm", "hi"));
        assert_eq!(message.raw.unwrap().items[0].get("reasoning_details").unwrap().read::<Value>().unwrap(), details);
    }
}
