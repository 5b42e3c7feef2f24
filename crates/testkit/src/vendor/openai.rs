//! An answer as OpenAI's Responses API streams it.

use serde_json::{Value, json};

use super::{
    reply::{Answer, Fault, Piece, Stop},
    stream::{Event, pieces},
};

/// Reasoning as it is sent back to a vendor that stores nothing.
const ENCRYPTED: &str = "gAAAAABo-encrypted-reasoning";

/// All events of an answer.
pub(super) fn events(answer: &Answer, fault: Option<Fault>) -> Vec<Event> {
    let mut response = json!({
        "id": "resp_0", "object": "response", "created_at": 1_741_290_958, "status": "in_progress", "model": "gpt-mock",
        "output": [], "store": false, "usage": null, "error": null, "incomplete_details": null,
    });
    let mut events: Vec<Value> = ["response.created", "response.in_progress"]
        .iter()
        .map(|kind| json!({ "type": kind, "response": response }))
        .collect();
    let mut output = Vec::new();
    if fault == Some(Fault::Unknown) {
        unknown(&mut events, &mut output);
    }
    for piece in &answer.pieces {
        item(piece, answer, output.len(), &mut events, &mut output);
    }
    let tokens = answer.tokens;
    response["output"] = output.into();
    response["usage"] = json!({
        "input_tokens": tokens.input, "input_tokens_details": { "cached_tokens": tokens.cached },
        "output_tokens": tokens.output, "output_tokens_details": { "reasoning_tokens": tokens.reasoning },
        "total_tokens": tokens.input + tokens.output,
    });
    let kind = match answer.stop {
        Stop::Length => {
            response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
            "incomplete"
        }
        Stop::Done | Stop::Refusal => "completed",
    };
    response["status"] = kind.into();
    events.push(json!({ "type": format!("response.{kind}"), "response": response }));
    let numbered = (0..).zip(events).map(|(number, mut event)| {
        event["sequence_number"] = Value::from(number);
        Event::typed(&event)
    });
    numbered.collect()
}

/// An item and an event of a later version.
fn unknown(events: &mut Vec<Value>, output: &mut Vec<Value>) {
    let item = json!({ "id": "hg_0", "type": "hologram_call", "status": "completed", "scene": "AAAA" });
    events.push(json!({ "type": "response.output_item.added", "output_index": 0, "item": item }));
    events.push(json!({ "type": "response.hologram.delta", "output_index": 0, "item_id": "hg_0", "delta": "BB" }));
    events.push(json!({ "type": "response.output_item.done", "output_index": 0, "item": item }));
    output.push(item);
}

fn item(piece: &Piece, answer: &Answer, at: usize, events: &mut Vec<Value>, output: &mut Vec<Value>) {
    let (added, between, done) = match piece {
        Piece::Text(text) => message(text, at, answer.stop == Stop::Refusal),
        Piece::Reasoning(text) => reasoning(text, at),
        Piece::Call { id, name, arguments } => call(id, name, &arguments.to_string(), at),
    };
    events.push(json!({ "type": "response.output_item.added", "output_index": at, "item": added }));
    events.extend(between);
    events.push(json!({ "type": "response.output_item.done", "output_index": at, "item": done }));
    output.push(done);
}

fn message(text: &str, at: usize, refused: bool) -> (Value, Vec<Value>, Value) {
    let id = format!("msg_{at}");
    let (kind, key) = if refused { ("refusal", "refusal") } else { ("output_text", "text") };
    let event = |kind: &str, key: &str, value: Value| json!({ "type": kind, "item_id": id, "output_index": at, "content_index": 0, key: value });
    let part = |text: &str| match refused {
        true => json!({ "type": kind, key: text }),
        false => json!({ "type": kind, key: text, "annotations": [], "logprobs": [] }),
    };
    let mut events = vec![event("response.content_part.added", "part", part(""))];
    let deltas = pieces(text);
    events.extend(deltas.into_iter().map(|text| event(&format!("response.{kind}.delta"), "delta", text.into())));
    events.push(event(&format!("response.{kind}.done"), key, text.into()));
    events.push(event("response.content_part.done", "part", part(text)));
    let item = |status: &str, content: Value| json!({ "id": id, "type": "message", "status": status, "role": "assistant", "content": content });
    (item("in_progress", json!([])), events, item("completed", json!([part(text)])))
}

fn reasoning(text: &str, at: usize) -> (Value, Vec<Value>, Value) {
    let id = format!("rs_{at}");
    let event = |kind: &str, key: &str, value: Value| json!({ "type": kind, "item_id": id, "output_index": at, "summary_index": 0, key: value });
    let part = |text: &str| json!({ "type": "summary_text", "text": text });
    let mut events = vec![event("response.reasoning_summary_part.added", "part", part(""))];
    let deltas = pieces(text);
    events.extend(deltas.into_iter().map(|text| event("response.reasoning_summary_text.delta", "delta", text.into())));
    events.push(event("response.reasoning_summary_text.done", "text", text.into()));
    events.push(event("response.reasoning_summary_part.done", "part", part(text)));
    let item =
        |summary: Value| json!({ "id": id, "type": "reasoning", "encrypted_content": ENCRYPTED, "summary": summary });
    (item(json!([])), events, item(json!([part(text)])))
}

/// A call of a tool. `<namespace>::<tool>` is a tool that was offered in a namespace.
fn call(call_id: &str, name: &str, arguments: &str, at: usize) -> (Value, Vec<Value>, Value) {
    let namespaced = name.split_once("::");
    let name = namespaced.map_or(name, |(_, tool)| tool);
    let id = format!("fc_{at}");
    let event =
        |kind: &str, key: &str, value: &str| json!({ "type": kind, "item_id": id, "output_index": at, key: value });
    let deltas = pieces(arguments).into_iter();
    let mut events: Vec<Value> =
        deltas.map(|text| event("response.function_call_arguments.delta", "delta", &text)).collect();
    events.push(event("response.function_call_arguments.done", "arguments", arguments));
    let item = |status: &str, arguments: &str| {
        let mut item = json!({
            "id": id, "type": "function_call", "status": status, "call_id": call_id, "name": name,
            "arguments": arguments,
        });
        if let Some((namespace, _)) = namespaced {
            item["namespace"] = namespace.into();
        }
        item
    };
    (item("in_progress", ""), events, item("completed", arguments))
}
