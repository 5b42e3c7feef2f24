//! A value of a definition as a baseline keeps it: whatever changes the digest changes the value too, so that a difference
//! shows it. Usual JSON parsers lose a member that is given twice, digits of a number, and text that is not Unicode.

use std::collections::HashSet;

use serde_json::{Value, json};
use toolway_wire::json::{JsonKind, Raw};

/// Said of an object with a member that is given twice. Programs disagree about which one counts.
const TWICE: &str = "an object with a member that is given twice";

/// The value, complete. The recursion depth is bounded by the parser of messages.
pub(super) fn kept_value(raw: &Raw) -> Value {
    match raw.kind() {
        JsonKind::Object => {
            let members: Vec<_> = raw.members().into_iter().map(|it| (it.key, kept_value(&it.value))).collect();
            let names: HashSet<&String> = members.iter().map(|(name, _)| name).collect();
            match names.len() == members.len() {
                true => Value::Object(members.into_iter().collect()),
                false => json!({ TWICE: members }),
            }
        }
        JsonKind::Array => raw.elements().iter().map(kept_value).collect(),
        JsonKind::String => match raw.as_str() {
            Some(text) => Value::String(text.into_owned()),
            None => json!({ "a text that is not Unicode": raw.to_string() }),
        },
        JsonKind::Number => {
            let written = raw.to_string();
            let number = serde_json::from_str::<Value>(&written).ok();
            match number.as_ref().map(ToString::to_string) {
                Some(again) if again == written => number.unwrap_or_default(),
                _ => json!(format!("number {written}")),
            }
        }
        JsonKind::Boolean | JsonKind::Null => serde_json::from_slice(raw.as_bytes()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::baseline::difference;

    fn kept(text: &'static str) -> Value {
        kept_value(&Raw::parse(text).unwrap())
    }

    #[test]
    fn usual_values_are_kept_as_they_are() {
        for text in [r#"{"a":[1,-2,1.5,true,null,"x\n"],"b":{}}"#, r#""text""#, "12345678901234567890"] {
            assert_eq!(kept(text), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn what_parsers_lose_is_shown_as_a_difference() {
        for (before, after, shown) in [
            // Some programs take the first, others the last.
            (r#"{"d":"safe"}"#, r#"{"d":"evil","d":"safe"}"#, "evil"),
            (r#"{"d":"evil","d":"safe"}"#, r#"{"d":"worse","d":"safe"}"#, "worse"),
            (r#"{"p":{"x":{"a":1}}}"#, r#"{"p":{"x":{"a":1,"a":1}}}"#, "given twice"),
            ("12345678901234567890123", "12345678901234567890124", "890124"),
            ("1.5", "1.50", "1.50"),
            (r#""a""#, r#""a\ud800""#, r"\\ud800"),
        ] {
            let lines = difference(&json!({ "m": kept(before) }), &json!({ "m": kept(after) })).join("\n");
            assert!(lines.contains(shown) && !lines.contains("not shown"), "{before} {after}: {lines}");
        }
    }
}
