//! Content blocks as text: text unchanged, images and audio described, resources by URI.

use base64::{Engine as _, engine::general_purpose::STANDARD, engine::general_purpose::STANDARD_NO_PAD};
use serde_json::Value;
use toolway_wire::{
    json::Raw,
    message::{
        content::{Content, ContentKind},
        splice,
    },
};

/// A list result from unchanged items.
pub(crate) fn listed<'a>(key: &str, items: impl Iterator<Item = &'a Raw>) -> Raw {
    let mut text = vec![b'['];
    for (index, item) in items.enumerate() {
        if 0 < index {
            text.push(b',');
        }
        text.extend_from_slice(item.as_bytes());
    }
    text.push(b']');
    splice::object([(key, &Raw::parse(text).unwrap_or_else(|_| Raw::empty_object()))])
}

/// One piece of content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Plain text.
    Text(String),
    /// Binary data; `bytes` is `None` if the base64 is invalid.
    Bytes { what: &'static str, mime_type: String, bytes: Option<Vec<u8>> },
    /// Description of a resource link or of unknown content.
    Mention(String),
}

impl Piece {
    /// Converts a content block.
    pub(crate) fn of(content: &Content) -> Self {
        match &content.kind {
            ContentKind::Text(text) => Self::Text(text.clone()),
            ContentKind::Image { data, mime_type } => Self::bytes("image", mime_type, data),
            ContentKind::Audio { data, mime_type } => Self::bytes("audio", mime_type, data),
            ContentKind::Resource { resource, .. } => Self::of_resource(resource),
            ContentKind::ResourceLink { uri } => Self::Mention(format!("[resource: {uri}]")),
            ContentKind::Other(kind) => Self::Mention(format!("[unknown content type `{kind}`]")),
        }
    }

    /// Converts one entry of `resources/read`.
    pub(crate) fn of_resource(resource: &Raw) -> Self {
        let [uri, mime_type, text, blob] = resource.fields(["uri", "mimeType", "text", "blob"]);
        let string = |raw: &Option<Raw>| raw.as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
        match (string(&text), string(&blob)) {
            (Some(text), _) => Self::Text(text),
            (None, Some(blob)) => {
                Self::bytes("resource", &string(&mime_type).unwrap_or("application/octet-stream".to_owned()), &blob)
            }
            (None, None) => Self::Mention(format!("[resource: {}]", string(&uri).unwrap_or_default())),
        }
    }

    fn bytes(what: &'static str, mime_type: &str, data: &str) -> Self {
        let compact: String = data.split_ascii_whitespace().collect();
        let bytes = STANDARD.decode(&compact).or_else(|_| STANDARD_NO_PAD.decode(&compact)).ok();
        Self::Bytes { what, mime_type: mime_type.to_owned(), bytes }
    }

    /// The piece as text.
    pub(crate) fn described(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Mention(mention) => mention.clone(),
            Self::Bytes { what, mime_type, bytes: Some(bytes) } => {
                format!("[{what}: {mime_type}, {} bytes; use --save to write it to a file]", bytes.len())
            }
            Self::Bytes { what, mime_type, bytes: None } => format!("[{what}: {mime_type}, invalid base64]"),
        }
    }
}

/// How the text of a result relates to its structured content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// They say different things.
    None,
    /// The only text is the same JSON, or the plain value that a server wrapped in `{"result": …}`.
    Whole,
    /// The texts are the elements one by one, so that only the structured content is one value.
    Elements,
}

/// Whether the text of a result says the same as its structured content.
pub(crate) fn repetition(structured: &Raw, pieces: &[Piece]) -> Repetition {
    let Ok(value) = serde_json::from_str::<Value>(&structured.text()) else { return Repetition::None };
    let texts: Vec<&str> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let inner = value.as_object().filter(|object| object.len() == 1).and_then(|object| object.get("result"));
    let elements = |list: &Value| {
        let list = list.as_array().filter(|list| !list.is_empty() && list.len() == texts.len());
        list.is_some_and(|list| list.iter().zip(&texts).all(|(element, text)| is_said(element, text)))
    };
    let says = |value: &Value| matches!(texts[..], [text] if is_said(value, text));
    if says(&value) || inner.is_some_and(says) {
        return Repetition::Whole;
    }
    if elements(&value) || inner.is_some_and(elements) { Repetition::Elements } else { Repetition::None }
}

/// Whether a text is this value, as JSON or as plain text.
fn is_said(value: &Value, text: &str) -> bool {
    value.as_str() == Some(text) || serde_json::from_str::<Value>(text).is_ok_and(|said| same(&said, value))
}

/// Equality of JSON in which `5` and `5.0` are the same number.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        (one, other) => one == other,
    }
}

/// Indents JSON without changing numbers and strings.
pub(crate) fn indented(value: &Raw) -> String {
    let (mut out, mut depth, mut in_string, mut escaped) = (String::new(), 0_usize, false, false);
    let text = value.text();
    let mut letters = text.chars().filter(|letter| !matches!(letter, '\r' | '\n')).peekable();
    while let Some(letter) = letters.next() {
        if in_string {
            out.push(letter);
            (in_string, escaped) = (escaped || letter != '"', !escaped && letter == '\\');
            continue;
        }
        match letter {
            '{' | '[' => {
                while letters.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                out.push(letter);
                if let Some(close) = letters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(letter);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            space if space.is_ascii_whitespace() => {}
            other => {
                in_string = other == '"';
                out.push(other);
            }
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::{Piece, Repetition, indented, repetition};

    #[test]
    fn structured_content_that_repeats_the_text_is_recognised() {
        let repeated = |structured: &str, texts: &[&str]| {
            let pieces: Vec<Piece> = texts.iter().map(|text| Piece::Text((*text).to_owned())).collect();
            repetition(&Raw::parse(structured.to_owned()).unwrap(), &pieces)
        };
        assert_eq!(repeated(r#"{"sum":5.0}"#, &["{ \"sum\": 5 }"]), Repetition::Whole);
        assert_eq!(repeated(r#"{"result":"hello"}"#, &["hello"]), Repetition::Whole);
        assert_eq!(repeated(r#"{"result":5}"#, &["5"]), Repetition::Whole);
        assert_eq!(repeated(r#"{"result":["a",{"b":1}]}"#, &["a", "{\"b\":1}"]), Repetition::Elements);
        assert_eq!(repeated(r#"{"result":"hello"}"#, &["hello there"]), Repetition::None);
        assert_eq!(repeated(r#"{"width":8}"#, &[]), Repetition::None);
        assert_eq!(repeated(r#"{"sum":5}"#, &["The sum:", "{\"sum\":5}"]), Repetition::None);
    }

    #[test]
    fn json_is_indented_and_values_are_unchanged() {
        let value = Raw::parse(r#"{"a":[1.50,{}, [ ] ,"x\"{,:"],"b":123456789012345678901234567890}"#).unwrap();
        let expected = "{\n  \"a\": [\n    1.50,\n    {},\n    [],\n    \"x\\\"{,:\"\n  ],\n  \"b\": \
                        123456789012345678901234567890\n}";
        assert_eq!(indented(&value), expected);
    }
}
