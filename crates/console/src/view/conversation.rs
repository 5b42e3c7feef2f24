//! Conversations and their messages.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolway_agent::{
    RecordIds,
    model::{Message, Part, ResultPart, ToolResult},
};
use toolway_store::{
    calls::CallRow,
    conversations::{Conversation, StoredMessage},
    time,
};

use super::{call::milliseconds, image, within};

/// Bytes of all images of a result.
const MAX_IMAGES: usize = 4 * 1024 * 1024;

/// The recorded calls of a conversation, by id.
#[derive(Debug, Default)]
pub(crate) struct MadeCalls(BTreeMap<String, CallRow>);

impl FromIterator<CallRow> for MadeCalls {
    fn from_iter<T: IntoIterator<Item = CallRow>>(rows: T) -> Self {
        Self(rows.into_iter().map(|row| (row.id.to_string(), row)).collect())
    }
}

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
pub(crate) fn message(stored: &StoredMessage, made: &MadeCalls) -> Value {
    let (seq, role) = (stored.seq, &stored.role);
    let Ok(message) = serde_json::from_str::<Message>(&stored.body) else {
        return json!({ "seq": seq, "role": role, "text": stored.text, "calls": [], "results": [] });
    };
    let records: RecordIds = serde_json::from_str(&stored.body).unwrap_or_default();
    let calls = message.tool_calls();
    let calls: Vec<Value> =
        calls.map(|call| json!({ "id": call.id, "name": call.name, "arguments": call.arguments })).collect();
    let results = message.parts.iter().filter_map(|part| match part {
        Part::ToolResult(result) => Some(self::result(result, &records, made)),
        _ => None,
    });
    json!({ "seq": seq, "role": role, "text": message.text(), "calls": calls, "results": results.collect::<Vec<_>>() })
}

/// A result, with the id of its record, and how its call ended where that is recorded.
fn result(result: &ToolResult, records: &RecordIds, made: &MadeCalls) -> Value {
    let (text, images) = contents(result, MAX_IMAGES);
    let record = records.records.get(&result.call_id);
    let row = record.and_then(|id| made.0.get(id));
    json!({
        "callId": result.call_id,
        "recordId": record,
        "name": result.name,
        "isError": result.is_error,
        "state": row.map(|row| row.state.as_str()),
        "durationMs": row.and_then(|row| row.duration).map(milliseconds),
        "text": text,
        "images": images,
    })
}

/// Text of a result, and its images as far as they fit into `most` bytes.
pub(crate) fn contents(result: &ToolResult, most: usize) -> (String, Vec<String>) {
    let texts = result.content.iter().filter_map(|part| match part {
        ResultPart::Text { text } => Some(text.as_str()),
        ResultPart::Image(_) => None,
    });
    let images = result.content.iter().filter_map(|part| match part {
        ResultPart::Image(found) => image(&found.mime_type, &found.data),
        ResultPart::Text { .. } => None,
    });
    (texts.collect::<Vec<_>>().join("\n"), within(most, images))
}
