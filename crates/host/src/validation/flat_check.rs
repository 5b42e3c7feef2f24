//! The fastest check, for the schemas that most tools have: an object of texts, numbers and flags. It reads the value as it
//! was sent, without parsing it into a document. As `fast_check.rs`, it only proves that a value is valid.

use serde_json::{Map, Value};
use toolway_wire::json::{JsonKind, Raw};

use super::fast_check;

/// Members of a schema at most: one bit each tells whether it was found.
const MAX_MEMBERS: usize = 64;
/// Digits of a number at most, which then fits into every type.
const MAX_DIGITS: usize = 15;

/// A schema of an object whose members have one simple type each.
#[derive(Debug)]
pub(super) struct FlatSchema {
    members: Vec<FlatMember>,
    /// Bits of the required members.
    required: u64,
    others: OtherMembers,
}

#[derive(Debug)]
struct FlatMember {
    name: String,
    kind: FlatKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlatKind {
    Text,
    Number,
    Integer,
    Flag,
    Null,
}

/// Whether members that the schema does not name are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherMembers {
    Allowed,
    Refused,
}

impl FlatSchema {
    /// `None` if the schema has anything else.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let schema = schema.as_object()?;
        let mut members = Vec::new();
        let mut required: &[Value] = &[];
        let mut others = OtherMembers::Allowed;
        let mut is_object = false;
        for (keyword, content) in schema {
            match keyword.as_str() {
                "$schema" if fast_check::is_known_dialect(content) => {}
                "title" | "description" | "$comment" if content.is_string() => {}
                "type" if content == "object" => is_object = true,
                "properties" => members = members_of(content.as_object()?)?,
                "required" => required = content.as_array()?,
                "additionalProperties" if content == true => {}
                "additionalProperties" if content == false => others = OtherMembers::Refused,
                _ => return None,
            }
        }
        let mut bits = 0;
        for name in required {
            let bit = 1 << members.iter().position(|member| Some(member.name.as_str()) == name.as_str())?;
            // A name that is listed twice is left to the full check.
            if bits & bit != 0 {
                return None;
            }
            bits |= bit;
        }
        is_object.then_some(Self { members, required: bits, others })
    }

    /// Whether a value is certainly valid.
    pub(super) fn is_certainly_valid(&self, value: &Raw) -> bool {
        if value.kind() != JsonKind::Object {
            return false;
        }
        let text = value.as_bytes();
        let mut found = 0;
        let mut is_valid = true;
        value.each_member(|key, value| {
            let name = text.get(key.start + 1..key.end - 1).unwrap_or_default();
            let kind = FlatKind::of(&text[value]);
            let known = self.members.iter().position(|member| member.name.as_bytes() == name);
            is_valid &= match (known.and_then(|place| self.members.get(place).map(|member| (place, member))), kind) {
                (Some((place, member)), Some(kind)) => {
                    found |= 1 << place;
                    member.kind.includes(kind)
                }
                // A name with escapes may be another spelling of a known one.
                (None, Some(_)) => self.others == OtherMembers::Allowed && !name.contains(&b'\\'),
                (_, None) => false,
            };
        });
        is_valid && found & self.required == self.required
    }
}

/// The members of a schema; `None` if one is not simple.
fn members_of(properties: &Map<String, Value>) -> Option<Vec<FlatMember>> {
    if MAX_MEMBERS < properties.len() {
        return None;
    }
    let member = |(name, schema): (&String, &Value)| {
        let mut kind = None;
        for (keyword, content) in schema.as_object()? {
            match keyword.as_str() {
                "title" | "description" | "$comment" if content.is_string() => {}
                "default" => {}
                "examples" if content.is_array() => {}
                "type" => kind = FlatKind::named(content.as_str()?),
                _ => return None,
            }
        }
        Some(FlatMember { name: name.clone(), kind: kind? })
    };
    properties.iter().map(member).collect()
}

impl FlatKind {
    fn named(name: &str) -> Option<Self> {
        match name {
            "string" => Some(Self::Text),
            "number" => Some(Self::Number),
            "integer" => Some(Self::Integer),
            "boolean" => Some(Self::Flag),
            "null" => Some(Self::Null),
            _ => None,
        }
    }

    /// The kind of a value; `None` for an object, an array, and what a parser may refuse or read differently: a text with
    /// escapes, a long number, one with an exponent.
    fn of(value: &[u8]) -> Option<Self> {
        match value {
            [b'"', text @ ..] => (!text.contains(&b'\\')).then_some(Self::Text),
            b"true" | b"false" => Some(Self::Flag),
            b"null" => Some(Self::Null),
            b"-0" => None,
            [b'-' | b'0'..=b'9', ..] if value.len() <= MAX_DIGITS => {
                if value.iter().all(|byte| matches!(byte, b'-' | b'0'..=b'9')) {
                    Some(Self::Integer)
                } else {
                    value.iter().all(|byte| matches!(byte, b'-' | b'.' | b'0'..=b'9')).then_some(Self::Number)
                }
            }
            _ => None,
        }
    }

    fn includes(self, kind: Self) -> bool {
        self == kind || self == Self::Number && kind == Self::Integer
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolway_wire::json::Raw;

    use super::{FlatSchema, fast_check};

    fn schemas() -> Vec<Value> {
        let members = json!({
            "path": { "type": "string", "description": "Where", "default": "." },
            "limit": { "type": "integer", "examples": [1] },
            "ratio": { "type": "number", "title": "Ratio" },
            "deep": { "type": "boolean" },
            "none": { "type": "null" },
        });
        let simple = json!({ "type": "object", "properties": members, "required": ["path"] });
        let mut closed = simple.clone();
        closed["additionalProperties"] = json!(false);
        closed["$schema"] = json!("http://json-schema.org/draft-07/schema#");
        vec![simple, closed, json!({ "type": "object" })]
    }

    #[test]
    fn what_is_valid_for_it_is_valid_for_the_check_of_documents() {
        let values = [
            "{}",
            r#"{"path":"a"}"#,
            r#"{ "path" : "a", "limit" : -3, "ratio": 1.5, "deep": false, "none": null }"#,
            r#"{"path":"a","ratio":2}"#,
            r#"{"path":"a","limit":1.0}"#,
            r#"{"path":"a","limit":-0}"#,
            r#"{"path":"a","limit":1e3}"#,
            r#"{"path":"a","limit":"1"}"#,
            r#"{"path":"a","limit":99999999999999999999}"#,
            r#"{"path":1}"#,
            r#"{"path":"a","path":1}"#,
            r#"{"path":"a\n"}"#,
            r#"{"path":"\ud800"}"#,
            r#"{"p\u0061th":1,"path":"a"}"#,
            r#"{"path":"a","other":"b"}"#,
            r#"{"path":"a","other":{"x":1}}"#,
            r#"{"path":"a","deep":null}"#,
            r#"{"path":["a"]}"#,
            r#"["path"]"#,
            "\"path\"",
        ];
        let mut proven = 0;
        for schema in schemas() {
            let flat = FlatSchema::of(&schema).unwrap();
            for text in values {
                let raw = Raw::parse(text).unwrap();
                let is_valid = flat.is_certainly_valid(&raw);
                let document: Option<Value> = raw.read().ok();
                let by_document = document.is_some_and(|value| fast_check::is_certainly_valid(&schema, &value));
                assert!(!is_valid || by_document, "{text} for {schema}");
                proven += usize::from(is_valid);
            }
        }
        assert_eq!(proven, 17);
    }

    #[test]
    fn schemas_with_anything_else_are_left_to_the_other_checks() {
        for schema in [
            json!({ "type": "object", "properties": { "a": { "type": "string", "minLength": 1 } } }),
            json!({ "type": "object", "properties": { "a": { "type": "object" } } }),
            json!({ "type": "object", "properties": { "a": {} } }),
            json!({ "type": "object", "required": ["a"] }),
            json!({ "type": "object", "properties": { "a": { "type": "null" } }, "required": ["a", "a"] }),
            json!({ "type": "array" }),
            json!({ "properties": {} }),
            json!({ "type": "object", "$ref": "#/x" }),
            json!(true),
        ] {
            assert!(FlatSchema::of(&schema).is_none(), "{schema}");
        }
    }
}
