//! Conversations and their messages.

use serde_json::{Value, json};
use toolway_agent::model::{Message, Part, ResultPart, ToolResult};
use toolway_store::{
    conversations::{Conversation, StoredMessage},
    time,
};

use super::image;

/// A conversation in a list.
pub(crate) fn head(conversation: &Conversation) -> Value {
    json!({
        "id": conversation.id.to_string(),
        "title": conversation.title,
        "model": conversation.model,
        "surface": conversation.surface,
        "startedAt": time::rfc3339(conversation.started_at),
        "updatedAt": time::rfc3339(conversation.updated_at),
    })
}

/// One message. A body that cannot be read is shown as its text.
pub(crate) fn message(stored: &StoredMessage) -> Value {
    let (seq, role) = (stored.seq, &stored.role);
    let Ok(message) = serde_json::from_str::<Message>(&stored.body) else {
        return json!({ "seq": seq, "role": role, "text": stored.text, "calls": [], "results": [] });
    };
    let calls = message.tool_calls();
    let calls: Vec<Value> =
        calls.map(|call| json!({ "id": call.id, "name": call.name, "arguments": call.arguments })).collect();
    let results = message.parts.iter().filter_map(|part| match part {
        Part::ToolResult(result) => Some(self::result(result)),
        _ => None,
    });
    json!({ "seq": seq, "role": role, "text": message.text(), "calls": calls, "results": results.collect::<Vec<_>>() })
}

fn result(result: &ToolResult) -> Value {
    let (text, images) = contents(result);
    json!({ "callId": result.call_id, "name": result.name, "isError": result.is_error, "text": text, "images": images })
}

/// Text and images of a result.
pub(crate) fn contents(result: &ToolResult) -> (String, Vec<String>) {
    let texts = result.content.iter().filter_map(|part| match part {
        ResultPart::Text { text } => Some(text.as_str()),
        ResultPart::Image(_) => None,
    });
    let images = result.content.iter().filter_map(|part| match part {
        ResultPart::Image(found) => image(&found.mime_type, &found.data),
        ResultPart::Text { .. } => None,
    });
    (texts.collect::<Vec<_>>().join("\n"), images.collect())
}
