//! A message as it is stored: what `store.bodies` keeps of calls and results, without the secrets of servers.

use serde_json::json;
use toolway_config::Bodies;
use toolway_host::{Host, record::redact::Redactor};
use toolway_model::{Image, Message, Part, ResultPart, ToolCall, ToolResult, value_of};
use toolway_wire::json::Raw;

/// Begins the text that stands for a result that was not kept.
const NOT_KEPT: &str = "[result not kept: ";
/// Begins the text that stands for a file or resource that was not kept.
const ATTACHMENT_NOT_KEPT: &str = "[attachment not kept: ";

/// What is stored of messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keeping {
    bodies: Bodies,
    redactor: Redactor,
}

impl Keeping {
    /// As the records of a host.
    pub(crate) fn of(host: &Host) -> Self {
        Self { bodies: host.bodies(), redactor: host.redactor() }
    }

    /// What is kept of calls and results.
    pub(crate) fn bodies(&self) -> Bodies {
        self.bodies
    }

    /// What removes secrets; `None` if everything is kept.
    pub(crate) fn redactor(&self) -> Option<&Redactor> {
        (self.bodies != Bodies::Full).then_some(&self.redactor)
    }

    /// A text without secrets, unless everything is kept.
    pub(crate) fn text(&self, text: &str) -> String {
        match self.bodies {
            Bodies::Full => text.to_owned(),
            Bodies::Redacted | Bodies::None => self.redactor.plain(text).into_owned(),
        }
    }

    /// The message as it is stored. The vendor's items contain calls and may contain results: those that have a secret or
    /// that a setting does not keep are left out, and a resumed conversation is rebuilt from the neutral parts.
    pub(crate) fn message(&self, message: &Message) -> Message {
        let kept = match self.bodies {
            Bodies::Full => return message.clone(),
            Bodies::Redacted => message.clone(),
            Bodies::None => Message {
                role: message.role,
                parts: match &message.attached {
                    Some(_) => vec![not_kept_attachment(&message.parts)],
                    None => message.parts.iter().map(without_bodies).collect(),
                },
                raw: message.raw.clone().filter(|_| message.tool_calls().next().is_none()),
                task: message.task.clone(),
                attached: message.attached.clone(),
            },
        };
        self.redacted(kept)
    }

    /// Every text and all arguments without secrets. Ids and names of tools stay: calls and results belong together by them.
    fn redacted(&self, message: Message) -> Message {
        let raw = message.raw.filter(|raw| raw.items.iter().all(|item| !self.redactor.finds(&item.to_string())));
        let parts = message.parts.into_iter().map(|part| self.part(part)).collect();
        let attached = message.attached.map(|name| self.text(&name));
        Message { raw, parts, role: message.role, task: message.task, attached }
    }

    fn part(&self, part: Part) -> Part {
        match part {
            Part::Text { text } => Part::Text { text: self.text(&text) },
            Part::Reasoning { text } => Part::Reasoning { text: self.text(&text) },
            Part::Image(image) => match self.image(image) {
                Ok(image) => Part::Image(image),
                Err(text) => Part::Text { text },
            },
            Part::Audio(audio) => Part::Audio(audio),
            Part::ToolCall(call) => {
                let arguments = self.arguments(call.arguments);
                Part::ToolCall(ToolCall { arguments, ..call })
            }
            Part::ToolResult(result) => {
                let content = result.content.into_iter().map(|part| match part {
                    ResultPart::Text { text } => ResultPart::Text { text: self.text(&text) },
                    ResultPart::Image(image) => match self.image(image) {
                        Ok(image) => ResultPart::Image(image),
                        Err(text) => ResultPart::Text { text },
                    },
                    ResultPart::Audio(audio) => ResultPart::Audio(audio),
                });
                Part::ToolResult(ToolResult { content: content.collect(), ..result })
            }
        }
    }

    fn arguments(&self, arguments: Raw) -> Raw {
        if !self.redactor.finds(&arguments.to_string()) {
            return arguments;
        }
        let mut value = value_of(&arguments);
        self.redactor.value(&mut value);
        let clean = Raw::of(&value);
        // A secret that begins in one member and ends in another is in no single text.
        if self.redactor.finds(&clean.to_string()) {
            tracing::error!("the arguments of a call are not stored: a secret cannot be removed from them");
            return Raw::of(&json!({ "not_kept": "a secret could not be removed" }));
        }
        clean
    }

    /// The image, or the text that stands for one that has a secret: without a part of its data it is no image.
    fn image(&self, image: Image) -> Result<Image, String> {
        if !self.redactor.finds(&image.data) && !self.redactor.finds(&image.mime_type) {
            return Ok(image);
        }
        tracing::error!("an image of a conversation is not stored: its data contains a secret");
        Err("[image not kept: it contains a secret]".to_owned())
    }
}

/// A part without arguments and results.
fn without_bodies(part: &Part) -> Part {
    match part {
        Part::ToolCall(call) => {
            let arguments = Raw::of(&json!({ "not_kept": "`store.bodies` is `none`" }));
            Part::ToolCall(ToolCall { arguments, ..call.clone() })
        }
        Part::ToolResult(result) => {
            let length = |part: &ResultPart| match part {
                ResultPart::Text { text } => text.len(),
                ResultPart::Image(image) => image.data.len(),
                ResultPart::Audio(audio) => audio.data.len(),
            };
            let bytes: usize = result.content.iter().map(length).sum();
            let text = format!("{NOT_KEPT}{bytes} bytes; `store.bodies` is `none`]");
            Part::ToolResult(ToolResult { content: vec![ResultPart::Text { text }], ..result.clone() })
        }
        other => other.clone(),
    }
}

/// What stands for the parts of an attachment: they are the result of a call, or as long as one.
fn not_kept_attachment(parts: &[Part]) -> Part {
    let length = |part: &Part| match part {
        Part::Text { text } => text.len(),
        Part::Image(image) => image.data.len(),
        Part::Audio(audio) => audio.data.len(),
        Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult(_) => 0,
    };
    let bytes: usize = parts.iter().map(length).sum();
    Part::Text { text: format!("{ATTACHMENT_NOT_KEPT}{bytes} bytes; `store.bodies` is `none`]") }
}

/// Whether results or attachments of these messages were not kept.
pub(crate) fn lack_results(messages: &[Message]) -> bool {
    let is_placeholder = |part: &ResultPart| matches!(part, ResultPart::Text { text } if text.starts_with(NOT_KEPT));
    messages.iter().flat_map(|message| &message.parts).any(|part| match part {
        Part::ToolResult(result) => result.content.iter().any(is_placeholder),
        Part::Text { text } => text.starts_with(ATTACHMENT_NOT_KEPT),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolway_config::{Bodies, Secret};
    use toolway_host::record::redact::Redactor;
    use toolway_model::{Image, Message, Part, RawItems, ResultPart, Role, ToolCall, ToolResult, Vendor};

    use toolway_wire::json::Raw;

    use super::{Keeping, lack_results};

    fn keeping(bodies: Bodies) -> Keeping {
        Keeping { bodies, redactor: Redactor::new([Secret::new("tok\"en-123")]) }
    }

    /// A message with a call, and one with its result; both have a secret.
    fn messages() -> [Message; 2] {
        let arguments = json!({"key": "tok\"en-123"});
        let items = vec![Raw::of(&json!({"type": "function_call", "arguments": arguments.to_string()}))];
        let arguments = Raw::of(&arguments);
        let call = ToolCall { id: "1".to_owned(), name: "files__read".to_owned(), arguments };
        let text = r#"{"key":"tok\u0022en\u002d123"}"#.to_owned();
        let (call_id, name) = (call.id.clone(), call.name.clone());
        let result = ToolResult { call_id, name, content: vec![ResultPart::Text { text }], is_error: false };
        let raw = Some(RawItems { vendor: Vendor::Openai, model: "m".to_owned(), items });
        let parts = vec![Part::Text { text: "I read it.".to_owned() }, Part::ToolCall(call)];
        [Message { role: Role::Assistant, parts, raw, task: None, attached: None }, Message::tool_results([result])]
    }

    fn stored(bodies: Bodies) -> [String; 2] {
        messages().map(|message| serde_json::to_string(&keeping(bodies).message(&message)).unwrap())
    }

    #[test]
    fn secrets_are_stored_in_no_spelling_and_not_in_the_items_of_the_vendor() {
        let [call, result] = stored(Bodies::Redacted);
        assert!(call.contains(r#""arguments":{"key":"[hidden]"}"#) && !call.contains("raw"), "{call}");
        assert!(result.contains(r#"{\"key\":\"[hidden]\"}"#), "{result}");
    }

    #[test]
    fn without_bodies_calls_and_results_are_placeholders_and_texts_stay() {
        let [call, result] = stored(Bodies::None);
        assert!(call.contains("I read it.") && call.contains("not_kept"), "{call}");
        assert!(!call.contains("key") && !call.contains("raw"), "{call}");
        assert!(result.contains("[result not kept: 30 bytes; `store.bodies` is `none`]"), "{result}");
        assert!(lack_results(&[serde_json::from_str(&result).unwrap()]) && !lack_results(&messages()));
    }

    #[test]
    fn a_secret_that_is_a_word_of_our_own_leaves_the_message_whole() {
        for word in ["text", "type", "role", "tool_result", "arguments", "content", "files__read"] {
            let keeping = Keeping { bodies: Bodies::Redacted, redactor: Redactor::new([Secret::new(word)]) };
            for message in messages() {
                let kept = keeping.message(&message);
                assert_eq!(kept.parts.len(), message.parts.len(), "{word}: {kept:?}");
                let ids = |message: &Message| message.tool_calls().map(|call| call.id.clone()).collect::<Vec<_>>();
                assert_eq!(ids(&kept), ids(&message), "{word}");
            }
        }
    }

    #[test]
    fn an_image_with_a_secret_is_a_placeholder() {
        let image = Image { mime_type: "image/png".to_owned(), data: "AAAAtoken123AAAA".to_owned() };
        let keeping = Keeping { bodies: Bodies::Redacted, redactor: Redactor::new([Secret::new("token123")]) };
        let shown =
            Message { role: Role::User, parts: vec![Part::Image(image)], raw: None, task: None, attached: None };
        assert_eq!(keeping.message(&shown).text(), "[image not kept: it contains a secret]");
    }

    #[test]
    fn without_bodies_an_attachment_is_a_placeholder_and_its_name_has_no_secret() {
        let parts = vec![Part::Text { text: "tok\"en-123 and a page of text".to_owned() }];
        let attached = Some("docs://x?key=tok\"en-123".to_owned());
        let message = Message { role: Role::User, parts, raw: None, task: None, attached };
        let none = keeping(Bodies::None).message(&message);
        assert_eq!(none.text(), "[attachment not kept: 29 bytes; `store.bodies` is `none`]");
        assert!(
            lack_results(std::slice::from_ref(&none)) && none.attached.as_deref() == Some("docs://x?key=[hidden]"),
            "{none:?}"
        );
        assert_eq!(keeping(Bodies::Redacted).message(&message).text(), "[hidden] and a page of text");
    }

    #[test]
    fn with_full_bodies_a_message_is_stored_as_it_is() {
        assert_eq!(messages().map(|message| keeping(Bodies::Full).message(&message)), messages());
    }

    #[test]
    fn items_of_the_vendor_without_a_secret_are_kept() {
        let items = vec![Raw::of(&json!({"type": "reasoning", "encrypted_content": "abc"}))];
        let raw = Some(RawItems { vendor: Vendor::Openai, model: "m".to_owned(), items });
        let said = Message {
            role: Role::Assistant,
            parts: vec![Part::Text { text: "tok\"en-123".to_owned() }],
            raw,
            task: None,
            attached: None,
        };
        let kept = keeping(Bodies::Redacted).message(&said);
        assert_eq!((kept.text().as_str(), kept.raw), ("[hidden]", said.raw));
    }
}
