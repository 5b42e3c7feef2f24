//! An answer as Gemini's `streamGenerateContent?alt=sse` streams it. Calls come whole and without an id.

use serde_json::{Value, json};

use super::{
    reply::{Answer, Fault, Piece, Stop, Tokens},
    stream::{Event, pieces},
};

/// Signature of reasoning, on the first call.
const SIGNATURE: &str = "CiQBVKhc7geminiThoughtSignature1";

/// All events of an answer. The last one has the reason.
pub(super) fn events(answer: &Answer, fault: Option<Fault>) -> Vec<Event> {
    let mut lists: Vec<Value> = Vec::new();
    if fault == Some(Fault::Unknown) {
        lists.push(json!([{ "hologram": { "data": "AAAA" } }]));
    }
    let (mut is_signed, mut calls) = (false, Vec::new());
    let has_reasoning = answer.pieces.iter().any(|piece| matches!(piece, Piece::Reasoning(_)));
    for piece in &answer.pieces {
        match piece {
            Piece::Text(text) => lists.extend(pieces(text).into_iter().map(|text| json!([{ "text": text }]))),
            Piece::Reasoning(text) => {
                lists.extend(pieces(text).into_iter().map(|text| json!([{ "text": text, "thought": true }])));
            }
            Piece::Call { name, arguments, .. } => {
                let mut part = json!({ "functionCall": { "name": name, "args": arguments } });
                if has_reasoning && !std::mem::replace(&mut is_signed, true) {
                    part["thoughtSignature"] = SIGNATURE.into();
                }
                calls.push(part);
            }
        }
    }
    // Parallel calls come in one event.
    lists.extend((!calls.is_empty()).then(|| calls.into()));
    let reason = match answer.stop {
        Stop::Length => "MAX_TOKENS",
        Stop::Refusal => "SAFETY",
        Stop::Done => "STOP",
    };
    let mut events: Vec<Event> = lists.iter().map(|parts| chunk(parts, None, Some(&answer.tokens))).collect();
    if fault == Some(Fault::Unknown) {
        events.push(Event::data(&json!({ "hologramMetadata": { "scene": "BB" } })));
    }
    events.push(chunk(&json!([{ "text": "" }]), Some(reason), Some(&answer.tokens)));
    events
}

/// One event of the stream.
pub(super) fn chunk(parts: &Value, reason: Option<&str>, tokens: Option<&Tokens>) -> Event {
    let mut candidate = json!({ "content": { "parts": parts, "role": "model" }, "index": 0 });
    let mut event = json!({ "modelVersion": "gemini-mock", "responseId": "r0" });
    if let Some(reason) = reason {
        candidate["finishReason"] = reason.into();
    }
    if let Some(tokens) = tokens {
        event["usageMetadata"] = json!({
            "promptTokenCount": tokens.input, "cachedContentTokenCount": tokens.cached,
            "candidatesTokenCount": tokens.output - tokens.reasoning, "thoughtsTokenCount": tokens.reasoning,
            "totalTokenCount": tokens.input + tokens.output,
        });
    }
    event["candidates"] = json!([candidate]);
    Event::data(&event)
}
