//! Contents that servers send, as parts for a model: text, images, sounds, resources with their URI, the messages of a
//! prompt with their roles, structured content. `result` bounds them.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use toolway_host::{catalog::Catalog, record::redact::Redactor};
use toolway_model::{Audio, Image, Message, Part, ResultPart, Role, value_of};
use toolway_wire::json::Raw;

use crate::media::{self, Medium};

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
            let claim = if kind == "image" { MediumKind::Image } else { MediumKind::Audio };
            vec![
                medium(claim, member("mimeType"), member("data"))
                    .unwrap_or_else(|why| text(format!("[{kind} left out: {why}]"))),
            ]
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
    let medium = match MediumKind::of_type(mime_type) {
        Some(claim) => medium(claim, mime_type, blob),
        None => Err(format!("{} bytes of base64", blob.len())),
    };
    let named = |left_out: &str| text(format!("[Binary resource: {label}]{left_out}"));
    match medium {
        Ok(medium) => vec![named(""), medium],
        Err(why) => vec![named(&format!(" left out: {why}"))],
    }
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

/// What a server says that its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MediumKind {
    Image,
    Audio,
}

impl MediumKind {
    fn of_type(mime_type: &str) -> Option<Self> {
        match mime_type.split('/').next() {
            Some("image") => Some(Self::Image),
            Some("audio") => Some(Self::Audio),
            _ => None,
        }
    }
}

/// An image or a sound under the type that its bytes have, or why it is left out. A vendor refuses the whole request for one
/// that it cannot read, and so every later one of the conversation.
fn medium(claim: MediumKind, mime_type: &str, data: &str) -> Result<ResultPart, String> {
    if data.len() > MAX_MEDIUM {
        return Err(format!("{} bytes of base64 are too many", data.len()));
    }
    let bytes = media::decoded(data).ok_or("its data is not base64")?;
    let data = STANDARD.encode(&bytes);
    match (claim, Medium::of(&bytes)) {
        (MediumKind::Image, Some(Medium::Image(mime_type))) => {
            Ok(ResultPart::Image(Image { mime_type: mime_type.to_owned(), data }))
        }
        (MediumKind::Audio, Some(Medium::Sound(mime_type))) => {
            Ok(ResultPart::Audio(Audio { mime_type: mime_type.to_owned(), data }))
        }
        _ if media::is_plainly_text(&bytes[..bytes.len().min(media::HEAD)]) => {
            Err("it is text and not what its type says".to_owned())
        }
        (MediumKind::Image, _) => Err("it is not PNG, JPEG, GIF or WebP, which models take".to_owned()),
        // Sounds have more formats than are recognised here.
        (MediumKind::Audio, None) if !bytes.is_empty() => {
            Ok(ResultPart::Audio(Audio { mime_type: mime_type.to_owned(), data }))
        }
        (MediumKind::Audio, _) => Err("it is not what its type says".to_owned()),
    }
}

fn text(text: String) -> ResultPart {
    ResultPart::Text { text }
}
