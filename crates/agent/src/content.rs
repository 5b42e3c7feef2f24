//! Contents that servers send, as parts for a model: text, images, sounds, resources with their URI, the messages of a
//! prompt with their roles, structured content. `result` bounds them.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use toolway_host::{catalog::Catalog, record::redact::Redactor};
use toolway_model::{Audio, Image, Message, Part, ResultPart, Role, value_of};
use toolway_wire::json::Raw;

use crate::media;

/// Bytes of an image or a sound in base64.
pub(crate) const MAX_MEDIUM: usize = 5 * 1024 * 1024;

/// Whether the definition of a tool describes its structured content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Structured {
    /// It has an output schema: the model gets the structured content beside the text.
    Declared,
    /// The model gets the structured content only where there is no text.
    Undeclared,
}

impl Structured {
    /// As the tool with this public name has it; other targets have none.
    pub(crate) fn of(catalog: &Catalog, tool: &str) -> Self {
        let entry = tool.parse().ok().and_then(|name| catalog.find_tool(&name));
        match entry.is_some_and(|entry| entry.item.output_schema.is_some()) {
            true => Self::Declared,
            false => Self::Undeclared,
        }
    }
}

/// The parts of the result of a tool, a prompt or a resource. `raw` has the server's text, with every digit.
pub(crate) fn parts(value: &Value, raw: &Raw, structured: Structured, redactor: &Redactor) -> Vec<ResultPart> {
    let blocks = value["content"].as_array().or(value["contents"].as_array());
    let mut parts: Vec<ResultPart> = blocks.into_iter().flatten().flat_map(block_parts).collect();
    for message in value["messages"].as_array().into_iter().flatten() {
        parts.push(text(format!("[message of role `{}`]", word(&message["role"]))));
        parts.extend(block_parts(&message["content"]));
    }
    let has_text = parts.iter().any(|part| matches!(part, ResultPart::Text { .. }));
    if let Some(structure) = raw.get("structuredContent").filter(|structure| structure.to_string() != "null")
        && (structured == Structured::Declared || !has_text)
        && !is_mirrored(&parts, &value["structuredContent"])
    {
        parts.push(text(redactor.plain(&structure.to_string()).into_owned()));
    }
    if parts.is_empty() {
        parts.push(text(redactor.plain(&raw.to_string()).into_owned()));
    }
    parts
}

/// The messages of a prompt. Neighbours of one role are one message, as vendors expect it.
pub fn prompt_messages(result: &Raw, redactor: &Redactor) -> Vec<Message> {
    let mut value = value_of(result);
    redactor.value(&mut value);
    let mut messages: Vec<Message> = Vec::new();
    for message in value["messages"].as_array().into_iter().flatten() {
        let role = if message["role"] == "assistant" { Role::Assistant } else { Role::User };
        let parts = block_parts(&message["content"]).into_iter().map(Part::from);
        match messages.last_mut().filter(|last| last.role == role) {
            Some(last) => last.parts.extend(parts),
            None => messages.push(Message { role, parts: parts.collect(), raw: None, task: None, attached: None }),
        }
    }
    messages
}

/// Whether a text is the structured content again: as JSON, as the protocol recommends for older clients, or as its only
/// member, as many servers have it.
fn is_mirrored(parts: &[ResultPart], structure: &Value) -> bool {
    let members = structure.as_object().filter(|members| members.len() == 1);
    let only = members.and_then(|members| members.values().next()).and_then(Value::as_str);
    parts.iter().any(|part| match part {
        ResultPart::Text { text } if only == Some(text.as_str()) => true,
        ResultPart::Text { text } if text.trim_start().starts_with(['{', '[']) => {
            serde_json::from_str::<Value>(text).is_ok_and(|value| value == *structure)
        }
        _ => false,
    })
}

/// The parts of one content block, or of one content of a resource, which has no type.
fn block_parts(block: &Value) -> Vec<ResultPart> {
    let member = |key: &str| block[key].as_str().unwrap_or_default();
    match member("type") {
        kind @ ("image" | "audio") => {
            let mime_type = member("mimeType");
            let data = member("data");
            if is_no_medium(data) {
                return vec![text(format!(
                    "[{kind} left out: it is said to be `{}` and is text]",
                    one_line(mime_type)
                ))];
            }
            vec![medium(mime_type, data).unwrap_or_else(|| too_large(kind, data.len()))]
        }
        "resource_link" => vec![text(format!("[Resource link: {}]", label(block, "uri", "title")))],
        "resource" => resource_parts(&block["resource"]),
        "text" => vec![text(member("text").to_owned())],
        _ if block["uri"].is_string() => resource_parts(block),
        _ => vec![text(block["text"].as_str().map_or_else(|| block.to_string(), str::to_owned))],
    }
}

/// A resource: its URI and MIME type, then its text, or the image or sound that it is.
fn resource_parts(resource: &Value) -> Vec<ResultPart> {
    let label = label(resource, "uri", "mimeType");
    if let Some(plain) = resource["text"].as_str() {
        return vec![text(format!("[Resource: {label}]\n{plain}"))];
    }
    let Some(blob) = resource["blob"].as_str() else { return vec![text(resource.to_string())] };
    let mime_type = resource["mimeType"].as_str().unwrap_or_default();
    let is_medium = mime_type.starts_with("image/") || mime_type.starts_with("audio/");
    if is_medium && is_no_medium(blob) {
        return vec![text(format!("[Binary resource: {label}] left out: it is text and not what its type says"))];
    }
    let medium = is_medium.then(|| medium(mime_type, blob)).flatten();
    let left_out = if medium.is_some() { String::new() } else { format!(" left out: {} bytes of base64", blob.len()) };
    std::iter::once(text(format!("[Binary resource: {label}]{left_out}"))).chain(medium).collect()
}

/// A member, and another one in brackets if it is there, on one line.
fn label(block: &Value, key: &str, other: &str) -> String {
    match block[other].as_str().filter(|other| !other.is_empty()) {
        Some(other) => format!("{} ({})", word(&block[key]), one_line(other)),
        None => word(&block[key]).into_owned(),
    }
}

fn word(value: &Value) -> Cow<'_, str> {
    one_line(value.as_str().unwrap_or_default())
}

/// A text of a server inside a line of ours: without line breaks and brackets, which would end the label early.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    let breaks = |letter: char| letter.is_control() || letter == '[' || letter == ']';
    match text.contains(breaks) {
        true => text.replace(breaks, "�").into(),
        false => text.into(),
    }
}

/// An image or a sound; `None` if it is too large.
fn medium(mime_type: &str, data: &str) -> Option<ResultPart> {
    if data.len() > MAX_MEDIUM {
        return None;
    }
    let mime_type = mime_type.to_owned();
    let data = data.to_owned();
    Some(match mime_type.starts_with("audio/") {
        true => ResultPart::Audio(Audio { mime_type, data }),
        false => ResultPart::Image(Image { mime_type, data }),
    })
}

/// Whether what is said to be an image or a sound is plainly text. A vendor refuses the whole request for it, and so every
/// later one of the conversation.
fn is_no_medium(data: &str) -> bool {
    let length = data.len().min(media::HEAD) / 4 * 4;
    let head = data.get(..length).and_then(|head| STANDARD.decode(head).ok());
    head.is_some_and(|head| media::is_plainly_text(&head))
}

fn too_large(kind: &str, bytes: usize) -> ResultPart {
    text(format!("[{kind} of {bytes} bytes left out: it is too large]"))
}

fn text(text: String) -> ResultPart {
    ResultPart::Text { text }
}
