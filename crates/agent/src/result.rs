//! Results of calls as the model sees them: text or structured content, images, errors; bounded, with the rest kept.

use serde_json::Value;
use toolway_host::{
    call::CallOutcome,
    record::{Delivery, redact::Redactor},
};
use toolway_model::{Image, ResultPart, ToolResult, value_of};
use toolway_wire::json::Raw;

/// Characters of one result that the model gets at once.
pub(crate) const SHOWN: usize = 40_000;
/// Bytes of an image in base64.
const MAX_IMAGE: usize = 5 * 1024 * 1024;

/// A result for the model, and the text that was cut off.
pub(crate) struct Shown {
    pub(crate) result: ToolResult,
    /// The whole text, if it was cut.
    pub(crate) rest: Option<String>,
}

/// Converts the outcome of a call; one without an answer says whether it was sent. Secrets are replaced, as in its record.
pub(crate) fn show(
    call_id: &str,
    name: &str,
    outcome: &CallOutcome,
    delivery: Delivery,
    result_id: &str,
    redactor: &Redactor,
) -> Shown {
    let WholeResult { content, is_error } = whole(outcome, |problem| delivery.said_after(problem), redactor);
    let (content, rest) = cut(content, result_id);
    let (call_id, name) = (call_id.to_owned(), name.to_owned());
    Shown { result: ToolResult { call_id, name, content, is_error }, rest }
}

/// A result that was not cut.
pub(crate) struct WholeResult {
    pub(crate) content: Vec<ResultPart>,
    pub(crate) is_error: bool,
}

/// The whole outcome of a call; `say` words a problem. Secrets are replaced, as in its record.
pub(crate) fn whole(outcome: &CallOutcome, say: impl Fn(&str) -> String, redactor: &Redactor) -> WholeResult {
    match outcome {
        CallOutcome::Answered(raw) => {
            let mut value = value_of(raw);
            redactor.value(&mut value);
            WholeResult { content: contents(&value, raw, redactor), is_error: value["isError"] == true }
        }
        other => {
            let text = redactor.plain(&say(&other.to_string())).into_owned();
            WholeResult { content: vec![ResultPart::Text { text }], is_error: true }
        }
    }
}

/// The text of a stored result, as the model gets it.
pub(crate) fn text_of_stored(result: &str) -> String {
    let Ok(raw) = Raw::parse(result.to_owned()) else { return result.to_owned() };
    let WholeResult { content, .. } = whole(&CallOutcome::Answered(raw), str::to_owned, &Redactor::default());
    let text = content.into_iter().map(|part| match part {
        ResultPart::Text { text } => text,
        ResultPart::Image(image) => format!("[image of type {}]", image.mime_type),
    });
    text.collect::<Vec<_>>().join("\n")
}

/// The first result of a call that its server continues as a task.
pub(crate) fn started_task(call_id: &str, name: &str, task: &str) -> ToolResult {
    let text = format!(
        "{} the task goes on in the background. Its result will be given to you in a message of its own. Do not wait for it \
         and do not call the tool again; `task_status` shows how far it is, `task_cancel` cancels it.",
        started_words(task)
    );
    let content = vec![ResultPart::Text { text }];
    ToolResult { call_id: call_id.to_owned(), name: name.to_owned(), content, is_error: false }
}

/// The beginning of the first result of a call that its server continues as a task.
pub(crate) fn started_words(task: &str) -> String {
    format!("started, id {task};")
}

/// What the model is told when it cancels a task.
pub(crate) fn cancelling_words(task: &str) -> String {
    format!("task {task} is being cancelled")
}

/// An error that the agent itself gives to the model.
pub(crate) fn error(call_id: &str, name: &str, text: String) -> ToolResult {
    let content = vec![ResultPart::Text { text }];
    ToolResult { call_id: call_id.to_owned(), name: name.to_owned(), content, is_error: true }
}

/// The content of a tool result, a prompt or a resource. Structured content counts only where there is no other.
/// That is the text of the server, with every digit.
fn contents(value: &Value, raw: &Raw, redactor: &Redactor) -> Vec<ResultPart> {
    let blocks = value["content"].as_array().or(value["contents"].as_array());
    let mut parts: Vec<ResultPart> = blocks.into_iter().flatten().map(content).collect();
    for message in value["messages"].as_array().into_iter().flatten() {
        parts.push(content(&message["content"]));
    }
    if parts.is_empty() {
        let other = raw.get("structuredContent");
        let text = other.as_ref().unwrap_or(raw).to_string();
        parts.push(ResultPart::Text { text: redactor.plain(&text).into_owned() });
    }
    parts
}

fn content(block: &Value) -> ResultPart {
    let text = |text: String| ResultPart::Text { text };
    let member = |key: &str| block[key].as_str().unwrap_or_default();
    match member("type") {
        "image" if member("data").len() <= MAX_IMAGE => {
            ResultPart::Image(Image { mime_type: member("mimeType").to_owned(), data: member("data").to_owned() })
        }
        "image" => text(format!("[image of {} bytes left out: it is too large]", member("data").len())),
        "audio" => text(format!("[audio left out: {}]", member("mimeType"))),
        "resource_link" => text(format!("[resource {} {}]", member("uri"), member("title"))),
        "resource" => content(&block["resource"]),
        "text" => text(member("text").to_owned()),
        // Contents of resources have no type.
        _ => match (block["text"].as_str(), block["blob"].as_str()) {
            (Some(plain), _) => text(plain.to_owned()),
            (None, Some(blob)) => {
                text(format!("[binary content of {} left out: {} bytes of base64]", member("uri"), blob.len()))
            }
            (None, None) => text(block.to_string()),
        },
    }
}

pub(crate) fn cut(content: Vec<ResultPart>, result_id: &str) -> (Vec<ResultPart>, Option<String>) {
    let length = |part: &ResultPart| if let ResultPart::Text { text } = part { text.chars().count() } else { 0 };
    if content.iter().map(length).sum::<usize>() <= SHOWN {
        return (content, None);
    }
    let mut whole = String::new();
    let mut images = Vec::new();
    for part in content {
        match part {
            ResultPart::Text { text } => {
                whole.push_str(&text);
                whole.push('\n');
            }
            image @ ResultPart::Image(_) => images.push(image),
        }
    }
    let mut parts = vec![ResultPart::Text { text: page(&whole, 0, result_id) }];
    parts.append(&mut images);
    (parts, Some(whole))
}

/// A part of a kept text from a character on, with the way to the next part.
pub(crate) fn page(whole: &str, offset: usize, result_id: &str) -> String {
    let total = whole.chars().count();
    let shown: String = whole.chars().skip(offset).take(SHOWN).collect();
    let end = offset + shown.chars().count();
    if end >= total {
        return shown;
    }
    format!(
        "{shown}\n[cut by Toolway after {end} of {total} characters; call `read_result` with {{\"id\": \"{result_id}\", \
         \"offset\": {end}}} for more]"
    )
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::*;

    fn shown(text: &'static str) -> ToolResult {
        let outcome = CallOutcome::Answered(Raw::parse(text).unwrap());
        show("1", "read", &outcome, Delivery::Answered, "r1", &Redactor::default()).result
    }

    fn text(result: &ToolResult) -> &str {
        let ResultPart::Text { text } = &result.content[0] else { panic!("text") };
        text
    }

    #[test]
    fn text_wins_over_structured_content_which_stands_in_where_there_is_no_text() {
        let both = shown(r#"{"content":[{"type":"text","text":"hi"}],"structuredContent":{"a":1}}"#);
        assert_eq!((both.content.len(), text(&both)), (1, "hi"));
        assert_eq!(text(&shown(r#"{"content":[],"structuredContent":{"a":1}}"#)), r#"{"a":1}"#);
    }

    #[test]
    fn images_links_and_errors_are_kept() {
        let result = shown(
            r#"{"content":[{"type":"image","mimeType":"image/png","data":"AA=="},
                {"type":"resource_link","uri":"file:///a","title":"A"},{"type":"audio","mimeType":"audio/wav","data":""}],
                "isError":true}"#,
        );
        assert!(result.is_error);
        assert!(matches!(&result.content[0], ResultPart::Image(image) if image.mime_type == "image/png"));
        assert!(matches!(&result.content[1], ResultPart::Text { text } if text.contains("file:///a")));
    }

    #[test]
    fn a_long_text_is_cut_and_can_be_read_on() {
        let whole = "ä".repeat(SHOWN + 5);
        let raw = Raw::of(&serde_json::json!({ "content": [{ "type": "text", "text": whole }] }));
        let shown = show("1", "read", &CallOutcome::Answered(raw), Delivery::Answered, "r1", &Redactor::default());
        assert!(text(&shown.result).contains(&format!("\"offset\": {SHOWN}")));
        assert_eq!(page(&shown.rest.unwrap(), SHOWN, "r1"), "äääää\n");
    }
}
