//! Converts text to the JSON type in the schema; numbers keep their digits.

use toolway_wire::json::{JsonKind, Raw};

use crate::schema::Schema;

/// Converts a text; the error says what the schema expects. A schema that allows a string gets the text unchanged.
pub(super) fn value(text: &str, schema: &Schema, wanted: &Raw) -> Result<Raw, String> {
    let choices = schema.choices(wanted);
    if let Some(choice) = choices.iter().find(|choice| plain(choice) == text) {
        return Ok(choice.clone());
    }
    if !choices.is_empty() {
        return Err(format!("one of {}", choices.iter().map(plain).collect::<Vec<_>>().join(", ")));
    }
    let kinds = schema.kinds(wanted);
    if kinds.is_empty() || kinds.iter().any(|kind| kind == "string") {
        return Ok(Raw::of(text));
    }
    let found = kinds.iter().find_map(|kind| of_kind(text, kind, schema, wanted));
    found.ok_or_else(|| kinds.iter().map(|kind| with_article(kind)).collect::<Vec<_>>().join(" or "))
}

fn of_kind(text: &str, kind: &str, schema: &Schema, wanted: &Raw) -> Option<Raw> {
    let parsed = || Raw::parse(text.trim().to_owned()).ok();
    match kind {
        "number" => parsed().filter(|value| value.kind() == JsonKind::Number),
        "integer" => parsed().filter(|value| value.kind() == JsonKind::Number && is_whole(value)),
        "boolean" => parsed().filter(|value| value.kind() == JsonKind::Boolean),
        "null" => parsed().filter(|value| value.kind() == JsonKind::Null),
        "object" => parsed().filter(|value| value.kind() == JsonKind::Object),
        "array" if text.trim_start().starts_with('[') => parsed().filter(|value| value.kind() == JsonKind::Array),
        "array" => {
            let element = match schema.elements(wanted) {
                Some(elements) => value(text, schema, &elements).ok()?,
                None => Raw::of(text),
            };
            Raw::parse(format!("[{element}]")).ok()
        }
        _ => None,
    }
}

/// Whether the number has no fraction.
fn is_whole(value: &Raw) -> bool {
    let text = value.text();
    let text = text.strip_prefix('-').unwrap_or(&text);
    let text =
        text.split_once('.').map_or(text, |(whole, part)| if part.bytes().all(|b| b == b'0') { whole } else { "" });
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The value as a user types it.
fn plain(value: &Raw) -> String {
    value.as_str().map_or_else(|| value.to_string(), std::borrow::Cow::into_owned)
}

fn with_article(kind: &str) -> String {
    match kind {
        "null" => kind.to_owned(),
        "boolean" => "true or false".to_owned(),
        "integer" => "an integer".to_owned(),
        "array" | "object" => format!("an {kind} (JSON)"),
        other => format!("a {other}"),
    }
}
