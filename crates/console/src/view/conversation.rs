//! Conversations and their messages.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolway_agent::{
    ContextMeter, RecordIds, StoredCompaction, TaskBlock, message_tokens,
    model::{Message, Part, ResultPart, ToolResult},
};
use toolway_host::{
    Host,
    conversation::{ConversationNote, StoredConversation, StoredMessage},
    record::CallRow,
    time,
};

use super::{call::milliseconds, cut, image, within};
use crate::turns::ConversationUsage;

/// Bytes of all images of a conversation; those of the newest messages are shown.
const MAX_IMAGES: usize = 16 * 1024 * 1024;

/// The recorded calls of a conversation, by id.
#[derive(Debug, Default)]
pub(crate) struct MadeCalls(BTreeMap<String, CallRow>);

impl FromIterator<CallRow> for MadeCalls {
    fn from_iter<T: IntoIterator<Item = CallRow>>(rows: T) -> Self {
        Self(rows.into_iter().map(|row| (row.id.to_string(), row)).collect())
    }
}

/// A conversation in a list.
pub(crate) fn head(conversation: &StoredConversation) -> Value {
    json!({
        "id": conversation.id.to_string(),
        "title": conversation.title,
        "model": conversation.model,
        "surface": conversation.surface,
        "startedAt": time::rfc3339(conversation.started_at),
        "updatedAt": time::rfc3339(conversation.updated_at),
    })
}

/// The messages of a conversation.
pub(crate) fn messages(stored: &[StoredMessage], made: &MadeCalls, host: &Host) -> Vec<Value> {
    views(stored, made, &|tool| tool_title(host, tool))
}

fn views(stored: &[StoredMessage], made: &MadeCalls, title: &dyn Fn(&str) -> Option<String>) -> Vec<Value> {
    let mut left = MAX_IMAGES;
    let mut views: Vec<Value> = stored.iter().rev().map(|stored| message(stored, made, title, &mut left)).collect();
    views.reverse();
    views
}

/// One message, with images of at most `left` bytes. A body that cannot be read is shown as its text.
fn message(
    stored: &StoredMessage,
    made: &MadeCalls,
    title: &dyn Fn(&str) -> Option<String>,
    left: &mut usize,
) -> Value {
    let StoredMessage { seq, role, .. } = stored;
    let Ok(message) = serde_json::from_str::<Message>(&stored.body) else {
        return json!({ "seq": seq, "role": role, "text": stored.text, "calls": [], "results": [] });
    };
    // Toolway wrote it, in the place of a message of the user.
    if let Some(TaskBlock { id, tool, end, text }) = TaskBlock::of(&message) {
        let task = json!({ "id": id, "tool": tool, "end": end.words(), "state": end.as_str() });
        return json!({ "seq": seq, "role": "task", "task": task, "text": text, "calls": [], "results": [] });
    }
    // A file or a resource before a message of the user, not words of the user.
    if let Some(name) = &message.attached {
        let images = message.parts.iter().filter_map(|part| match part {
            Part::Image(found) => image(&found.mime_type, &found.data),
            _ => None,
        });
        let images = within(*left, images);
        *left -= images.iter().map(String::len).sum::<usize>();
        let tokens = message_tokens(&message);
        return json!({
            "seq": seq, "role": "attachment", "name": name, "tokens": tokens, "text": message.text(), "images": images, "calls": [],
            "results": [],
        });
    }
    let records: RecordIds = serde_json::from_str(&stored.body).unwrap_or_default();
    let calls = message.tool_calls();
    let calls: Vec<Value> =
        calls.map(|call| json!({ "id": call.id, "name": call.name, "title": title(&call.name), "arguments": call.arguments_value() })).collect();
    let results = message.parts.iter().filter_map(|part| match part {
        Part::ToolResult(result) => Some(self::result(result, &records, made, left)),
        _ => None,
    });
    json!({ "seq": seq, "role": role, "text": message.text(), "calls": calls, "results": results.collect::<Vec<_>>() })
}

/// A result, with the id of its record, and how its call ended where that is recorded.
fn result(result: &ToolResult, records: &RecordIds, made: &MadeCalls, left: &mut usize) -> Value {
    let (text, images) = contents(result, *left);
    *left -= images.iter().map(String::len).sum::<usize>();
    let record = records.records.get(&result.call_id);
    let row = record.and_then(|id| made.0.get(id));
    json!({
        "callId": result.call_id,
        "recordId": record,
        "name": result.name,
        "isError": result.is_error,
        "state": row.map(|row| row.state.as_str()),
        "durationMs": row.and_then(|row| row.duration).map(milliseconds),
        "waitedMs": row.map(|row| milliseconds(row.waited)),
        "text": text,
        "images": images,
    })
}

/// The title of a tool by its public name; `None` if it has none, or is not offered now.
pub(crate) fn tool_title(host: &Host, tool: &str) -> Option<String> {
    let catalog = host.own_catalog();
    let entry = catalog.find_tool(&tool.parse().ok()?)?;
    let annotated = || {
        let title = entry.item.annotations.as_ref()?.get("title")?;
        Some(title.as_str()?.into_owned())
    };
    entry.item.title.clone().or_else(annotated).map(|title| cut(&title).to_owned())
}

/// How full a context window is, and what a conversation used so far.
pub(crate) fn context(meter: &ContextMeter, used: ConversationUsage) -> Value {
    let parts = meter.parts.iter().map(|part| json!({ "part": part.part.as_str(), "tokens": part.tokens }));
    let parts: Vec<Value> = parts.collect();
    json!({ "window": meter.window, "used": meter.used, "parts": parts, "total": used })
}

/// What requests of a conversation have instead of older messages; null if they have all of them.
pub(crate) fn compaction(notes: &[ConversationNote], messages: usize) -> Option<Value> {
    let StoredCompaction { summarised, shortened, summary } = StoredCompaction::of_notes(notes)?;
    Some(json!({ "summarised": summarised.min(messages), "shortened": shortened.min(messages), "summary": summary }))
}

/// Text of a result, and its images as far as they fit into `most` bytes.
pub(crate) fn contents(result: &ToolResult, most: usize) -> (String, Vec<String>) {
    let texts = result.content.iter().filter_map(|part| match part {
        ResultPart::Text { text } => Some(text.as_str()),
        ResultPart::Image(_) | ResultPart::Audio(_) => None,
    });
    let images = result.content.iter().filter_map(|part| match part {
        ResultPart::Image(found) => image(&found.mime_type, &found.data),
        ResultPart::Text { .. } | ResultPart::Audio(_) => None,
    });
    (texts.collect::<Vec<_>>().join("\n"), within(most, images))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolway_agent::model::{Image, Message, Part, ResultPart, Role, ToolResult};
    use toolway_host::conversation::StoredMessage;

    use super::{MAX_IMAGES, MadeCalls, message, views};

    #[test]
    fn end_of_a_task_is_not_shown_as_words_of_the_user() {
        let view = |text: &str, task: Option<&str>| {
            let sent = Message { task: task.map(str::to_owned), ..Message::user(text) };
            let body = serde_json::to_string(&sent).unwrap();
            let stored = StoredMessage { seq: 0, at: 0, role: "user".to_owned(), text: text.to_owned(), body };
            message(&stored, &MadeCalls::default(), &|_| None, &mut 0)
        };
        let id = "019a1b2c-0000-7000-8000-000000000000";
        let text = format!(
            "[Toolway: background task {id} of tool `jobs__long` has completed. This message …]\n--- begin\n| yes\n--- end"
        );
        let block = view(&text, Some(id));
        assert_eq!((&block["role"], &block["text"]), (&json!("task"), &json!("yes")));
        assert_eq!(
            block["task"],
            json!({ "id": id, "tool": "jobs__long", "end": "has completed", "state": "completed" })
        );
        assert_eq!(view(&text, None)["role"], "user", "the user wrote the same words");
    }

    #[test]
    fn images_of_the_newest_messages_are_shown_within_a_bound() {
        let image = Image { mime_type: "image/png".to_owned(), data: "A".repeat(MAX_IMAGES / 3) };
        let content = vec![ResultPart::Image(image)];
        let result = ToolResult { call_id: "c".to_owned(), name: "t".to_owned(), content, is_error: false };
        let message =
            Message { role: Role::User, parts: vec![Part::ToolResult(result)], raw: None, task: None, attached: None };
        let body = serde_json::to_string(&message).unwrap();
        let stored =
            |seq| StoredMessage { seq, at: 0, role: "user".to_owned(), text: String::new(), body: body.clone() };
        let stored: Vec<StoredMessage> = (0..5).map(stored).collect();
        let views = views(&stored, &MadeCalls::default(), &|_| None);
        let counts: Vec<_> = views.iter().map(|view| view["results"][0]["images"].as_array().unwrap().len()).collect();
        assert_eq!((counts, &views[4]["seq"]), (vec![0, 0, 0, 1, 1], &json!(4)));
    }
}
