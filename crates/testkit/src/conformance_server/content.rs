//! Content of results: text, image, audio and resource blocks.

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

/// Result with these content blocks.
pub(super) fn result(blocks: &[Value]) -> Raw {
    Raw::of(&json!({ "content": blocks }))
}

/// Result with this text.
pub(super) fn text_result(message: &str) -> Raw {
    result(&[text(message)])
}

/// Error result with this text.
pub(super) fn error_result(message: &str) -> Raw {
    Raw::of(&json!({ "content": [text(message)], "isError": true }))
}
