//! A stored conversation as a file: Markdown for readers, JSON with the messages as they were stored.

use serde_json::{Value, json};
use toolway_host::{
    conversation::{StoredConversation, StoredMessage},
    time,
};
use toolway_wire::{
    json::Raw,
    message::splice::{self, Edit},
};

use crate::assistant::StoredAssistant;

/// A conversation without its messages.
pub fn head(head: &StoredConversation) -> Value {
    json!({
        "id": head.id.to_string(),
        "title": head.title,
        "model": head.model,
        "surface": head.surface,
        "startedAt": time::rfc3339(head.started_at),
        "updatedAt": time::rfc3339(head.updated_at),
    })
}

/// A conversation with its messages: text for readers, `body` as it was stored.
pub fn json(conversation: &StoredConversation, assistant: Option<&StoredAssistant>, messages: &[StoredMessage]) -> Raw {
    let message = |message: &StoredMessage| {
        let StoredMessage { seq, at, role, text, .. } = message;
        let view = json!({ "seq": seq, "at": time::rfc3339(*at), "role": role, "text": text, "body": null });
        match Raw::parse(message.body.clone()) {
            Ok(body) => splice::edited(&Raw::of(&view), &[Edit::Set("body", body)]),
            Err(_) => Raw::of(&view),
        }
    };
    let messages: Vec<Raw> = messages.iter().map(message).collect();
    let mut view = head(conversation);
    if let Some(StoredAssistant { name, values }) = assistant {
        view["assistant"] = json!({ "name": name, "values": values.json() });
    }
    splice::edited(&Raw::of(&view), &[Edit::Set("messages", splice::array(&messages))])
}

/// A conversation as Markdown, with a heading for each message.
pub fn markdown(head: &StoredConversation, messages: &[StoredMessage]) -> String {
    let mut page = format!("# {}\n\nConversation {} with {}\n", head.title, head.id, head.model);
    for message in messages {
        let text = match message.role.as_str() {
            // Results and attachments are not markdown.
            "tool" | "attachment" => fenced(&message.text),
            _ => message.text.clone(),
        };
        page.push_str(&format!("\n## {}\n\n{text}\n", message.role));
    }
    page
}

/// A text that cannot end its own block.
fn fenced(text: &str) -> String {
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(4.max(longest + 1));
    format!("{fence}\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::fenced;

    #[test]
    fn a_result_cannot_end_its_block() {
        assert_eq!(fenced("plain"), "````\nplain\n````");
        assert_eq!(fenced("a\n`````\n# b"), "``````\na\n`````\n# b\n``````");
    }
}
