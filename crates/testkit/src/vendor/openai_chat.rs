//! An answer as Chat Completions streams it, and as compatible servers do.

use serde_json::{Value, json};

use super::{
    reply::{Answer, Fault, Piece, Stop},
    stream::{Event, pieces},
};

/// All events of an answer.
pub(super) fn events(answer: &Answer, fault: Option<Fault>) -> Vec<Event> {
    let mut events = vec![chunk(&json!({ "role": "assistant", "content": "" }), &Value::Null)];
    if fault == Some(Fault::Unknown) {
        events.push(chunk(&json!({ "hologram": { "data": "AAAA" } }), &Value::Null));
        events.push(Event::data(&json!({ "id": "chatcmpl-0", "object": "hologram.chunk", "scene": "BB" })));
    }
    let content = if answer.stop == Stop::Refusal { "refusal" } else { "content" };
    let mut calls = Vec::new();
    for piece in &answer.pieces {
        match piece {
            Piece::Text(text) => events.extend(text_deltas(content, text)),
            Piece::Reasoning(text) => events.extend(text_deltas("reasoning_content", text)),
            Piece::Call { id, name, arguments } => calls.push(call_deltas(calls.len(), id, name, arguments, fault)),
        }
    }
    if let Some((signature, first)) = answer.signature.as_ref().zip(calls.first_mut().and_then(|call| call.first_mut()))
    {
        first["extra_content"] = extra_content(signature);
    }
    let call_chunk = |delta: &Value| chunk(&json!({ "tool_calls": [delta] }), &Value::Null);
    if fault == Some(Fault::Interleaved) {
        let longest = calls.iter().map(Vec::len).max().unwrap_or_default();
        let deltas = (0..longest).flat_map(|at| calls.iter().filter_map(move |deltas| deltas.get(at)));
        events.extend(deltas.map(call_chunk));
    } else {
        events.extend(calls.iter().flatten().map(call_chunk));
    }
    let reason = match (answer.stop, answer.has_calls() && fault != Some(Fault::WrongReason)) {
        (Stop::Length, _) => "length",
        (Stop::Refusal, _) => "content_filter",
        (Stop::Done, true) => "tool_calls",
        (Stop::Done, false) => "stop",
    };
    if fault != Some(Fault::NoReason) {
        events.push(chunk(&json!({}), &reason.into()));
    }
    events.push(usage(answer));
    events.push(Event { name: None, data: "[DONE]".to_owned() });
    events
}

/// The member of a call that Gemini expects back.
pub(super) fn extra_content(signature: &str) -> Value {
    json!({ "google": { "thought_signature": signature } })
}

/// One chunk of the stream.
pub(super) fn chunk(delta: &Value, reason: &Value) -> Event {
    let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": reason });
    Event::data(&json!({
        "id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 1_694_268_190, "model": "gpt-mock",
        "system_fingerprint": "fp_0", "choices": [choice], "usage": null,
    }))
}

fn usage(answer: &Answer) -> Event {
    let tokens = answer.tokens;
    Event::data(&json!({
        "id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 1_694_268_190, "model": "gpt-mock",
        "choices": [],
        "usage": {
            "prompt_tokens": tokens.input, "completion_tokens": tokens.output,
            "total_tokens": tokens.input + tokens.output,
            "prompt_tokens_details": { "cached_tokens": tokens.cached, "audio_tokens": 0 },
            "completion_tokens_details": { "reasoning_tokens": tokens.reasoning, "audio_tokens": 0 },
        },
    }))
}

fn text_deltas(key: &str, text: &str) -> Vec<Event> {
    pieces(text).into_iter().map(|text| chunk(&json!({ key: text }), &Value::Null)).collect()
}

/// The deltas of one call: id and name first, then the arguments in pieces.
fn call_deltas(position: usize, id: &str, name: &str, arguments: &Value, fault: Option<Fault>) -> Vec<Value> {
    let text = arguments.to_string();
    match fault {
        Some(Fault::MissingId) => {
            let function = json!({ "name": name, "arguments": text });
            return vec![json!({ "index": 0, "type": "function", "function": function })];
        }
        Some(Fault::ObjectArguments) => {
            return vec![json!({ "function": { "name": name, "arguments": arguments } })];
        }
        _ => {}
    }
    let mut deltas = vec![json!({ "id": id, "type": "function", "function": { "name": name, "arguments": "" } })];
    if fault == Some(Fault::LateName) {
        deltas = vec![json!({ "id": id, "type": "function" }), json!({ "function": { "name": name } })];
    }
    deltas.extend(pieces(&text).into_iter().map(|piece| json!({ "function": { "arguments": piece } })));
    for (at, delta) in deltas.iter_mut().enumerate() {
        match fault {
            Some(Fault::MissingIndex) => {}
            Some(Fault::RepeatedId) => delta["id"] = id.into(),
            Some(Fault::ConstantIndex) => delta["index"] = 0.into(),
            Some(Fault::GappedIndex) => delta["index"] = (2 * position + 1).into(),
            Some(Fault::ChangingId) => {
                delta["index"] = position.into();
                delta["id"] = if at == 0 { id.into() } else { format!("{id}-{at}").into() };
            }
            _ => delta["index"] = position.into(),
        }
    }
    deltas
}
