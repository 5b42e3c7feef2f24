//! Results of calls as the model sees them: contents of servers (`content`) or an error; bounded, with the rest kept.

use toolway_host::{
    call::CallOutcome,
    record::{Delivery, redact::Redactor},
};
use toolway_model::{ResultPart, ToolCall, ToolResult, value_of};
use toolway_wire::json::Raw;

use crate::content::{self, Structured};

/// Characters of one result that a model gets at once at most.
pub(crate) const SHOWN: usize = 40_000;

/// Characters of one result that a model gets at once, however small its window is.
pub(crate) const LEAST_SHOWN: usize = 2_000;

/// A result for the model, and the text that was cut off.
pub(crate) struct Shown {
    pub(crate) result: ToolResult,
    /// The whole text, if it was cut.
    pub(crate) rest: Option<String>,
}

/// How a result is shown.
pub(crate) struct Showing<'a> {
    /// Id under which the rest is kept.
    pub(crate) result_id: &'a str,
    pub(crate) structured: Structured,
    /// Characters that the model gets at once.
    pub(crate) page: usize,
    pub(crate) redactor: &'a Redactor,
}

/// Converts the outcome of a call; one without an answer says whether it was sent. Secrets are replaced, as in its record.
pub(crate) fn show(call: &ToolCall, outcome: &CallOutcome, delivery: Delivery, showing: &Showing<'_>) -> Shown {
    let say = |problem: &str| delivery.said_after(problem);
    let WholeResult { content, is_error } = whole(outcome, say, showing.structured, showing.redactor);
    let (content, rest) = cut(content, showing.result_id, showing.page);
    let (call_id, name) = (call.id.clone(), call.name.clone());
    Shown { result: ToolResult { call_id, name, content, is_error }, rest }
}

/// A result that was not cut.
pub(crate) struct WholeResult {
    pub(crate) content: Vec<ResultPart>,
    pub(crate) is_error: bool,
}

/// The whole outcome of a call; `say` words a problem. Secrets are replaced, as in its record.
pub(crate) fn whole(
    outcome: &CallOutcome,
    say: impl Fn(&str) -> String,
    structured: Structured,
    redactor: &Redactor,
) -> WholeResult {
    match outcome {
        CallOutcome::Answered(raw) => {
            let mut value = value_of(raw);
            redactor.value(&mut value);
            let content = content::parts(&value, raw, structured, redactor);
            WholeResult { content, is_error: value["isError"] == true }
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
    let outcome = CallOutcome::Answered(raw);
    let WholeResult { content, .. } = whole(&outcome, str::to_owned, Structured::Declared, &Redactor::default());
    let text = content.into_iter().map(|part| match part {
        ResultPart::Text { text } => text,
        ResultPart::Image(image) => format!("[image of type {}]", image.mime_type),
        ResultPart::Audio(audio) => format!("[audio of type {}]", audio.mime_type),
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

/// Cuts a result after so many characters; returns the whole text if it was cut.
pub(crate) fn cut(content: Vec<ResultPart>, result_id: &str, most: usize) -> (Vec<ResultPart>, Option<String>) {
    let length = |part: &ResultPart| if let ResultPart::Text { text } = part { text.chars().count() } else { 0 };
    if content.iter().map(length).sum::<usize>() <= most {
        return (content, None);
    }
    let mut whole = String::new();
    let mut media = Vec::new();
    for part in content {
        match part {
            ResultPart::Text { text } => {
                whole.push_str(&text);
                whole.push('\n');
            }
            medium @ (ResultPart::Image(_) | ResultPart::Audio(_)) => media.push(medium),
        }
    }
    let mut parts = vec![ResultPart::Text { text: page(&whole, 0, result_id, most) }];
    parts.append(&mut media);
    (parts, Some(whole))
}

/// A part of a kept text from a character on, with the way to the next part.
pub(crate) fn page(whole: &str, offset: usize, result_id: &str, most: usize) -> String {
    let total = whole.chars().count();
    let shown: String = whole.chars().skip(offset).take(most).collect();
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
        shown_as(text, Structured::Undeclared)
    }

    fn shown_as(text: &'static str, structured: Structured) -> ToolResult {
        let outcome = CallOutcome::Answered(Raw::parse(text).unwrap());
        show_it(&outcome, structured).result
    }

    fn show_it(outcome: &CallOutcome, structured: Structured) -> Shown {
        let call = ToolCall { id: "1".to_owned(), name: "read".to_owned(), arguments: Raw::empty_object() };
        let showing = Showing { result_id: "r1", structured, page: SHOWN, redactor: &Redactor::default() };
        show(&call, outcome, Delivery::Answered, &showing)
    }

    fn texts(result: &ToolResult) -> Vec<&str> {
        let texts = result.content.iter().map(|part| match part {
            ResultPart::Text { text } => text.as_str(),
            ResultPart::Image(_) | ResultPart::Audio(_) => "-",
        });
        texts.collect()
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
        let image = r#"{"content":[{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="}],"structuredContent":{"a":1}}"#;
        assert_eq!(texts(&shown(image)), ["-", r#"{"a":1}"#]);
    }

    #[test]
    fn structured_content_with_a_schema_stands_beside_the_text_unless_the_text_is_the_same() {
        let both = r#"{"content":[{"type":"text","text":"warm"}],"structuredContent":{"celsius":21.50}}"#;
        assert_eq!(texts(&shown_as(both, Structured::Declared)), ["warm", r#"{"celsius":21.50}"#]);
        let same = r#"{"content":[{"type":"text","text":"{ \"a\": 1 }"}],"structuredContent":{"a":1}}"#;
        assert_eq!(texts(&shown_as(same, Structured::Declared)), [r#"{ "a": 1 }"#]);
        let only = r#"{"content":[{"type":"text","text":"milk"}],"structuredContent":{"content":"milk"}}"#;
        assert_eq!(texts(&shown_as(only, Structured::Declared)), ["milk"]);
    }

    #[test]
    fn resources_are_labelled_with_uri_and_type() {
        let result = shown(
            r#"{"content":[
                {"type":"resource","resource":{"uri":"file:///a.txt","mimeType":"text/plain","text":"hi"}},
                {"type":"resource","resource":{"uri":"file:///b.bin","blob":"AAAA"}},
                {"type":"resource","resource":{"uri":"file:///c.png","mimeType":"image/png","blob":"iVBORw0KGgo="}},
                {"type":"resource","resource":{"uri":"x:]\n[Resource: y","text":"z"}}]}"#,
        );
        let expected = [
            "[Resource: file:///a.txt (text/plain)]\nhi",
            "[Binary resource: file:///b.bin] left out: 4 bytes of base64",
            "[Binary resource: file:///c.png (image/png)]",
            "-",
            "[Resource: x:���Resource: y]\nz",
        ];
        assert_eq!(texts(&result), expected);
        assert_eq!(texts(&shown(r#"{"contents":[{"uri":"a:b","text":"t"}]}"#)), ["[Resource: a:b]\nt"]);
    }

    #[test]
    fn the_messages_of_a_prompt_keep_their_roles() {
        let result = shown(
            r#"{"messages":[{"role":"user","content":{"type":"text","text":"2+2?"}},
                {"role":"assistant","content":{"type":"text","text":"4"}}]}"#,
        );
        assert_eq!(texts(&result), ["[message of role `user`]", "2+2?", "[message of role `assistant`]", "4"]);
    }

    #[test]
    fn images_links_and_errors_are_kept() {
        let result = shown(
            r#"{"content":[{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="},
                {"type":"resource_link","uri":"file:///a","title":"A"},{"type":"audio","mimeType":"audio/wav","data":"UklGRg=="}],
                "isError":true}"#,
        );
        assert!(result.is_error);
        assert!(matches!(&result.content[0], ResultPart::Image(image) if image.mime_type == "image/png"));
        assert!(matches!(&result.content[1], ResultPart::Text { text } if text.contains("file:///a (A)")));
        assert!(matches!(&result.content[2], ResultPart::Audio(audio) if audio.mime_type == "audio/wav"));
    }

    #[test]
    fn an_image_has_the_type_of_its_bytes_and_one_that_a_vendor_would_refuse_is_left_out() {
        let of = |mime: &str, data: &str| {
            let block = serde_json::json!({ "type": "image", "mimeType": mime, "data": data });
            let outcome = CallOutcome::Answered(Raw::of(&serde_json::json!({ "content": [block] })));
            show_it(&outcome, Structured::Undeclared).result.content.remove(0)
        };
        for (mime, data) in [("image/png", "/9j/4AAQ"), ("image/jpg", "_9j_4AAQ"), ("", "/9j/\n4AAQ")] {
            let ResultPart::Image(image) = of(mime, data) else { panic!("{mime} {data}") };
            assert_eq!((image.mime_type.as_str(), image.data.as_str()), ("image/jpeg", "/9j/4AAQ"));
        }
        for (mime, data, why) in [
            ("image/bmp", "Qk0AAAAA", "not PNG"),
            ("image/png", "", "not PNG"),
            ("image/png", "AAAA", "not PNG"),
            ("image/png", "T2dnUw==", "not PNG"),
            ("image/png", "!!!!", "not base64"),
            ("image/png", "data:image/png;base64,iVBORw0KGgo=", "not base64"),
            ("image/svg+xml", "PHN2ZyB4bWxucz0i", "it is text"),
        ] {
            let part = of(mime, data);
            assert!(matches!(&part, ResultPart::Text { text } if text.contains(why)), "{mime} {data}: {part:?}");
        }
    }

    #[test]
    fn a_long_text_is_cut_and_can_be_read_on() {
        let whole = "ä".repeat(SHOWN + 5);
        let raw = Raw::of(&serde_json::json!({ "content": [{ "type": "text", "text": whole }] }));
        let shown = show_it(&CallOutcome::Answered(raw), Structured::Undeclared);
        assert!(text(&shown.result).contains(&format!("\"offset\": {SHOWN}")));
        assert_eq!(page(&shown.rest.unwrap(), SHOWN, "r1", SHOWN), "äääää\n");
    }
}
