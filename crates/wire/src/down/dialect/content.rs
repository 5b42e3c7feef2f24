//! Content blocks and structured results, in the kinds a revision has.

use std::borrow::Cow;

use serde_json::json;

use super::{
    Lacks, Structure,
    definition::{mentions, removals, without},
    each,
};
use crate::{
    json::{Kind, Raw},
    message::splice::{self, Edit},
};

/// What a tool gave: blocks fitted, and what cannot stand beside them said in a block.
pub(super) fn of_a_tool(lacks: &Lacks, result: &Raw, structured: Option<Raw>) -> Vec<Edit<'static>> {
    let goes = structured.filter(|value| match lacks.structure {
        Structure::Anything => false,
        Structure::Objects => value.kind() != Kind::Object,
        Structure::None => true,
    });
    if goes.is_none() && lacks.kinds.is_empty() && !mentions(lacks.block, result) {
        return Vec::new();
    }
    let content = result.get("content").filter(|content| content.kind() == Kind::Array);
    let fitted = content.as_ref().and_then(|content| blocks(lacks, content));
    let mut edits = Vec::new();
    if let Some(value) = &goes {
        edits.push(Edit::Remove("structuredContent"));
        let content = fitted.clone().or(content).unwrap_or_else(|| splice::array([]));
        edits.extend(told_in_text(&content, value).or(fitted).map(|content| Edit::Set("content", content)));
    } else {
        edits.extend(fitted.map(|content| Edit::Set("content", content)));
    }
    edits
}

/// The messages of a prompt.
pub(super) fn messages(lacks: &Lacks, result: &Raw) -> Option<Edit<'static>> {
    if lacks.kinds.is_empty() && !mentions(lacks.block, result) {
        return None;
    }
    let fitted = each(&result.get("messages")?, |message| {
        let content = block(lacks, &message.get("content")?)?;
        Some(splice::edited(message, &[Edit::Set("content", content)]))
    })?;
    Some(Edit::Set("messages", fitted))
}

/// The blocks, where one of them had to change.
fn blocks(lacks: &Lacks, content: &Raw) -> Option<Raw> {
    each(content, |block| self::block(lacks, block))
}

/// One block, where it had to change: a kind that is not known becomes text that says what was there.
pub(super) fn block(lacks: &Lacks, block: &Raw) -> Option<Raw> {
    let kind = block.get("type");
    let kind = kind.as_ref().and_then(Raw::as_str).unwrap_or_default();
    if !lacks.kinds.contains(&&*kind) {
        return without(block, &removals(lacks.block, block));
    }
    let [name, uri, mime] = block.fields(["name", "uri", "mimeType"]);
    let word = |value: Option<Raw>| value.as_ref().and_then(Raw::as_str).map(Cow::into_owned);
    let text = match &*kind {
        "resource_link" => match (word(name), word(uri)) {
            (Some(name), Some(uri)) => format!("{name}: {uri}"),
            (one, other) => one.or(other).unwrap_or_default(),
        },
        _ => format!("[{kind} ({}) left out: this client's revision has none]", word(mime).unwrap_or_default()),
    };
    Some(Raw::of(&json!({ "type": "text", "text": text })))
}

/// The content with the value in a text block, where none of its blocks says it already.
fn told_in_text(content: &Raw, value: &Raw) -> Option<Raw> {
    let canonical = |value: &Raw| {
        let mut out = Vec::new();
        value.write_canonical(&mut out);
        out
    };
    let wanted = canonical(value);
    let mut blocks = content.elements();
    let says = |block: &Raw| {
        let text = block.get("text").as_ref().and_then(Raw::as_str).map(Cow::into_owned)?;
        Raw::parse(text).ok().map(|said| canonical(&said) == wanted)
    };
    if blocks.iter().any(|block| says(block).unwrap_or_default()) {
        return None;
    }
    blocks.push(Raw::of(&json!({ "type": "text", "text": value.to_string() })));
    Some(splice::array(&blocks))
}
