//! Which URLs of a conversation the host may take for known: those of the user and of results, never those of the model.

use toolway_host::policy::SeenUrls;
use toolway_model::{Message, Part, ResultPart, Role, ToolResult};

use crate::{answering::CORRECTION, task_block};

/// Notes a message that follows `earlier` ones.
pub(crate) fn note(seen: &SeenUrls, earlier: &[Message], message: &Message) {
    match message.role {
        // It quotes the model.
        Role::User if message.text().starts_with(CORRECTION) => seen.note_model(&message.text()),
        Role::User if task_block::is_task_block(message) => seen.note_result(&task_block::server_text(message), ""),
        // A server, or the author of a file, wrote it.
        Role::User if message.attached.is_some() => seen.note_result(&message.text(), ""),
        Role::User => seen.note_user(&message.text()),
        Role::Assistant => message.parts.iter().for_each(|part| match part {
            Part::ToolCall(call) => seen.note_arguments(&call.arguments.to_string()),
            Part::Text { text } | Part::Reasoning { text, .. } => seen.note_model(text),
            Part::Image(_) | Part::Audio(_) | Part::ToolResult(_) => {}
        }),
        Role::Tool => {
            for part in &message.parts {
                let Part::ToolResult(result) = part else { continue };
                let arguments = arguments_of(earlier, &result.call_id);
                result_texts(result).for_each(|text| seen.note_result(text, &arguments));
            }
        }
    }
}

/// The arguments of the call that a result belongs to, as JSON.
fn arguments_of(earlier: &[Message], id: &str) -> String {
    let calls = earlier.iter().rev().flat_map(Message::tool_calls);
    calls.filter(|call| call.id == id).map(|call| call.arguments.to_string()).next().unwrap_or_default()
}

fn result_texts(result: &ToolResult) -> impl Iterator<Item = &str> {
    result.content.iter().filter_map(|part| match part {
        ResultPart::Text { text } => Some(text.as_str()),
        ResultPart::Image(_) | ResultPart::Audio(_) => None,
    })
}
