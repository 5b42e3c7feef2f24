//! Adapts content blocks and structured results to a revision.

use std::borrow::Cow;

use serde_json::json;

use super::{
    MissingFeatures, Structure,
    definition::{mentions, removals, without},
    each,
};
use crate::{
    json::{JsonKind, Raw},
    message::splice::{self, Edit},
};

/// Edits for a tool result: adapts its blocks and moves unsupported structured content into a text block.
pub(super) fn tool_result(missing: &MissingFeatures, result: &Raw, structured: Option<Raw>) -> Vec<Edit<'static>> {
    let goes = structured.filter(|value| match missing.structure {
        Structure::Anything => false,
        Structure::Objects => value.kind() != JsonKind::Object,
        Structure::None => true,
    });
    if goes.is_none() && missing.kinds.is_empty() && !mentions(missing.block, result) {
        return Vec::new();
    }
    let content = result.get("content").filter(|content| content.kind() == JsonKind::Array);
    let fitted = content.as_ref().and_then(|content| blocks(missing, content));
    let mut edits = Vec::new();
    if let Some(value) = &goes {
        edits.push(Edit::Remove("structuredContent"));
        let content = fitted.clone().or(content).unwrap_or_else(|| splice::array([]));
        edits.extend(with_text_block(&content, value).or(fitted).map(|content| Edit::Set("content", content)));
    } else {
        edits.extend(fitted.map(|content| Edit::Set("content", content)));
    }
    edits
}

/// Edit for the messages of a prompt.
pub(super) fn messages(missing: &MissingFeatures, result: &Raw) -> Option<Edit<'static>> {
    if missing.kinds.is_empty() && !mentions(missing.block, result) {
        return None;
    }
    let fitted = each(&result.get("messages")?, |message| {
        let content = block(missing, &message.get("content")?)?;
        Some(splice::edited(message, &[Edit::Set("content", content)]))
    })?;
    Some(Edit::Set("messages", fitted))
}

/// The adapted blocks; `None` if none had to change.
fn blocks(missing: &MissingFeatures, content: &Raw) -> Option<Raw> {
    each(content, |block| self::block(missing, block))
}

/// The adapted block; `None` if it need not change. An unsupported type becomes text that describes it.
pub(super) fn block(missing: &MissingFeatures, block: &Raw) -> Option<Raw> {
    let kind = block.get("type");
    let kind = kind.as_ref().and_then(Raw::as_str).unwrap_or_default();
    if !missing.kinds.contains(&&*kind) {
        return without(block, &removals(missing.block, block));
    }
    let [name, uri, mime] = block.fields(["name", "uri", "mimeType"]);
    let text_of = |value: Option<Raw>| value.as_ref().and_then(Raw::as_str).map(Cow::into_owned);
    let text = match &*kind {
        "resource_link" => match (text_of(name), text_of(uri)) {
            (Some(name), Some(uri)) => format!("{name}: {uri}"),
            (one, other) => one.or(other).unwrap_or_default(),
        },
        _ => format!(
            "[{kind} ({}) omitted: not supported by this client's protocol revision]",
            text_of(mime).unwrap_or_default()
        ),
    };
    Some(Raw::of(&json!({ "type": "text", "text": text })))
}

/// The content with the value appended as a text block; `None` if the text already says it.
fn with_text_block(content: &Raw, value: &Raw) -> Option<Raw> {
    let mut blocks = content.elements();
    let text = |block: &Raw| block.get("text").as_ref().and_then(Raw::as_str).map(Cow::into_owned);
    let texts: Vec<String> = blocks.iter().filter_map(text).collect();
    if is_said(&texts, value) || wrapped(value).is_some_and(|inner| is_said(&texts, &inner)) {
        return None;
    }
    blocks.push(Raw::of(&json!({ "type": "text", "text": value.to_string() })));
    Some(splice::array(&blocks))
}

/// The value that a library wrapped to make an object of it: the only member, `result`.
fn wrapped(value: &Raw) -> Option<Raw> {
    value.get("result").filter(|_| value.members().len() == 1)
}

/// Whether one of the texts is the value, or the texts are its elements in order.
fn is_said(texts: &[String], value: &Raw) -> bool {
    if texts.iter().any(|text| says(text, value)) {
        return true;
    }
    let elements = if value.kind() == JsonKind::Array { value.elements() } else { Vec::new() };
    let same = || texts.iter().zip(&elements).all(|(text, element)| says(text, element));
    !elements.is_empty() && elements.len() == texts.len() && same()
}

/// Whether the text is the value: as JSON, or the string itself.
fn says(text: &str, value: &Raw) -> bool {
    let canonical = |value: &Raw| {
        let mut out = Vec::new();
        value.write_canonical(&mut out);
        out
    };
    value.as_str().is_some_and(|string| string == text)
        || Raw::parse(text.to_owned()).is_ok_and(|said| canonical(&said) == canonical(value))
}
