//! An answer as Anthropic Messages streams it.

use serde_json::{Value, json};

use super::{
    reply::{Answer, Fault, Piece, Stop},
    stream::{Event, pieces},
};

/// Signature of reasoning.
const SIGNATURE: &str = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk";

/// All events of an answer.
pub(super) fn events(answer: &Answer, fault: Option<Fault>) -> Vec<Event> {
    let tokens = answer.tokens;
    let usage = json!({
        "input_tokens": tokens.input - tokens.cached - tokens.cache_write,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": 1,
    });
    let message = json!({
        "id": "msg_01", "type": "message", "role": "assistant", "model": "claude-mock", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    let mut events = vec![json!({ "type": "message_start", "message": message }), json!({ "type": "ping" })];
    let mut index = 0;
    if fault == Some(Fault::Unknown) {
        unknown(&mut events);
        index = 1;
    }
    for piece in &answer.pieces {
        block(piece, index, &mut events);
        index += 1;
    }
    let reason = match (answer.stop, answer.has_calls()) {
        (Stop::Length, _) => "max_tokens",
        (Stop::Refusal, _) => "refusal",
        (Stop::Done, true) => "tool_use",
        (Stop::Done, false) => "end_turn",
    };
    let delta = json!({ "stop_reason": reason, "stop_sequence": null });
    events.push(json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": tokens.output } }));
    events.push(json!({ "type": "message_stop" }));
    events.iter().map(Event::typed).collect()
}

/// A block, a delta and an event of a later version.
fn unknown(events: &mut Vec<Value>) {
    let block = json!({ "type": "hologram", "data": "AAAA" });
    events.push(json!({ "type": "content_block_start", "index": 0, "content_block": block }));
    events.push(
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "hologram_delta", "data": "BB" } }),
    );
    events.push(json!({ "type": "content_block_stop", "index": 0 }));
    events.push(json!({ "type": "message_aside", "note": "later" }));
}

fn block(piece: &Piece, index: usize, events: &mut Vec<Value>) {
    let delta = |delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let (start, deltas): (Value, Vec<Value>) = match piece {
        Piece::Text(text) => {
            let deltas = pieces(text).into_iter().map(|text| delta(json!({ "type": "text_delta", "text": text })));
            (json!({ "type": "text", "text": "" }), deltas.collect())
        }
        Piece::Reasoning(text) => {
            let thoughts = pieces(text).into_iter().map(|text| json!({ "type": "thinking_delta", "thinking": text }));
            let signature = json!({ "type": "signature_delta", "signature": SIGNATURE });
            let deltas = thoughts.chain([signature]).map(delta).collect();
            (json!({ "type": "thinking", "thinking": "", "signature": "" }), deltas)
        }
        Piece::Call { id, name, arguments } => {
            let input = [String::new()].into_iter().chain(pieces(&arguments.to_string()));
            let deltas = input.map(|text| delta(json!({ "type": "input_json_delta", "partial_json": text })));
            (json!({ "type": "tool_use", "id": id, "name": name, "input": {} }), deltas.collect())
        }
    };
    events.push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
    events.extend(deltas);
    events.push(json!({ "type": "content_block_stop", "index": index }));
}
