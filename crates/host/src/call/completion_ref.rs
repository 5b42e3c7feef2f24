//! The `ref` of a completion request. Its `type` alone decides what it names, and no other member can name something else
//! to a server that reads it differently.

use toolway_wire::{
    json::{JsonKind, Raw},
    message::splice::{self, Edit},
};

use super::CallKind;

/// What a completion request is about.
#[derive(Clone, Debug)]
pub struct CompletionRef {
    kind: CallKind,
    name: String,
    raw: Raw,
}

/// Members that decide what is named.
const DECIDING: [&str; 3] = ["type", "name", "uri"];

impl CompletionRef {
    /// Parses a `ref`; the error says what is wrong with it.
    pub fn parse(raw: &Raw) -> Result<Self, String> {
        if raw.kind() != JsonKind::Object {
            return Err("`ref` must be an object".to_owned());
        }
        let members = raw.members();
        for (index, member) in members.iter().enumerate() {
            let Some(meant) = DECIDING.iter().find(|key| key.eq_ignore_ascii_case(&member.key)) else { continue };
            if **meant != *member.key {
                return Err(format!("key `{}` in `ref` differs from `{meant}` only in case", member.key));
            }
            if members[..index].iter().any(|earlier| earlier.key == member.key) {
                return Err(format!("duplicate key `{meant}` in `ref`"));
            }
        }
        let [kind, name, uri] = raw.fields(DECIDING);
        let kind = kind.as_ref().and_then(Raw::as_str).unwrap_or_default();
        let (kind, key, named) = match (&*kind, name, uri) {
            (_, Some(_), Some(_)) => return Err("`ref` has both `name` and `uri`".to_owned()),
            ("ref/prompt", name, None) => (CallKind::Prompt, "name", name),
            ("ref/resource", None, uri) => (CallKind::Resource, "uri", uri),
            ("ref/prompt", None, Some(_)) => return Err("`ref` of type `ref/prompt` must have a `name`".to_owned()),
            ("ref/resource", Some(_), None) => return Err("`ref` of type `ref/resource` must have a `uri`".to_owned()),
            _ => return Err("`type` in `ref` must be `ref/prompt` or `ref/resource`".to_owned()),
        };
        let named = named.as_ref().and_then(Raw::as_str);
        let name = named.ok_or_else(|| format!("`{key}` in `ref` is missing or not a string"))?.into_owned();
        Ok(Self { kind, name, raw: raw.clone() })
    }

    /// [`CallKind::Prompt`] or [`CallKind::Resource`].
    pub fn kind(&self) -> CallKind {
        self.kind
    }

    /// Name of the prompt, or URI of the resource or template.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The `ref` with another name, otherwise unchanged.
    pub fn renamed(&self, name: &str) -> Raw {
        let key = if self.kind == CallKind::Prompt { "name" } else { "uri" };
        splice::edited(&self.raw, &[Edit::Set(key, Raw::of(name))])
    }
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::CompletionRef;
    use crate::call::CallKind;

    fn parse(text: &str) -> Result<CompletionRef, String> {
        CompletionRef::parse(&Raw::parse(text.to_owned()).unwrap())
    }

    #[test]
    fn type_decides_what_is_named() {
        let prompt = parse(r#"{"type":"ref/prompt","name":"a","title":"A"}"#).unwrap();
        assert_eq!((prompt.kind(), prompt.name()), (CallKind::Prompt, "a"));
        assert_eq!(prompt.renamed("b").to_string(), r#"{"type":"ref/prompt","name":"b","title":"A"}"#);
        let resource = parse(r#"{"type":"ref/resource","uri":"x://{y}"}"#).unwrap();
        assert_eq!((resource.kind(), resource.name()), (CallKind::Resource, "x://{y}"));
    }

    #[test]
    fn ref_that_servers_may_read_differently_is_refused() {
        for text in [
            r#"{"type":"ref/prompt","name":"a","uri":"x://y"}"#,
            r#"{"type":"ref/resource","name":"a","uri":"x://y"}"#,
            r#"{"type":"ref/prompt","uri":"x://y"}"#,
            r#"{"type":"ref/resource","name":"a"}"#,
            r#"{"type":"ref/prompt","name":"a","name":"b"}"#,
            r#"{"type":"ref/prompt","name":"a","Name":"b"}"#,
            r#"{"type":"ref/prompt","name":"a","URI":"x://y"}"#,
            r#"{"type":"ref/prompt","type":"ref/resource","name":"a"}"#,
            r#"{"type":"ref/prompt"}"#,
            r#"{"type":"ref/prompt","name":1}"#,
            r#"{"type":"other","name":"a"}"#,
            r#"{"name":"a"}"#,
            "[]",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
