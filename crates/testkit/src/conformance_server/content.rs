//! What tools and prompts say: blocks of text, a picture, a sound, a resource.

use serde_json::{Value, json};
use toolway_wire::json::Raw;

/// One red pixel, as PNG.
pub(super) const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
/// A millisecond of silence, as WAV.
const SOUND: &str = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";

pub(super) fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

pub(super) fn picture() -> Value {
    json!({ "type": "image", "data": PICTURE, "mimeType": "image/png" })
}

pub(super) fn sound() -> Value {
    json!({ "type": "audio", "data": SOUND, "mimeType": "audio/wav" })
}

pub(super) fn resource(uri: &str, mime_type: &str, text: &str) -> Value {
    json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime_type, "text": text } })
}

/// The result of a call that gives these blocks.
pub(super) fn result(blocks: &[Value]) -> Raw {
    Raw::of(&json!({ "content": blocks }))
}

/// The result of a call that says this.
pub(super) fn said(words: &str) -> Raw {
    result(&[text(words)])
}

/// The result of a call that failed and says so.
pub(super) fn failed(words: &str) -> Raw {
    Raw::of(&json!({ "content": [text(words)], "isError": true }))
}
