//! Fingerprint of a definition: a digest of the part that a user accepts.
//!
//! The digest is computed over a canonical form, so that another order of keys, other whitespace or other escapes
//! require no new acceptance: keys are sorted, whitespace is removed, escapes are resolved. Numbers are compared as
//! written (`1` and `1.0` differ), arrays keep their order, duplicate keys are kept, and a missing member differs from
//! `null`.

use std::fmt;

use ring::digest::{Context, SHA256};
use toolway_wire::{
    json::{JsonKind, Raw},
    message::item::{Prompt, Tool},
};

/// A SHA-256 digest of a definition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

/// The members of a tool that a user accepts: what the model reads, the annotations, and what approval requests show.
pub(crate) const OF_TOOL: [&str; 5] = ["description", "inputSchema", "outputSchema", "annotations", TITLE];
/// The members of a prompt that a user accepts.
pub(crate) const OF_PROMPT: [&str; 3] = ["description", "arguments", TITLE];
/// Most items have none, and it leaves no trace in their digest.
const TITLE: &str = "title";

// === impl Fingerprint ===

impl Fingerprint {
    /// Fingerprint of a tool: description, both schemas, annotations and title.
    pub fn of_tool(tool: &Tool) -> Self {
        Self::of_members(&tool.raw, OF_TOOL)
    }

    /// Fingerprint of a prompt: description, arguments and title.
    pub fn of_prompt(prompt: &Prompt) -> Self {
        Self::of_members(&prompt.raw, OF_PROMPT)
    }

    fn of_members<const N: usize>(raw: &Raw, members: [&'static str; N]) -> Self {
        let mut text = Vec::with_capacity(raw.as_bytes().len() + 8);
        for (key, member) in members.iter().zip(raw.fields(members)) {
            match member {
                Some(value) => write_canonical(&value, &mut text),
                None if *key == TITLE => continue,
                None => text.push(b'-'),
            }
            text.push(b'\n');
        }
        Self::of_bytes(&text)
    }

    /// Fingerprint of a whole item.
    pub fn of_whole(raw: &Raw) -> Self {
        let mut text = Vec::with_capacity(raw.as_bytes().len());
        write_canonical(raw, &mut text);
        Self::of_bytes(&text)
    }

    fn of_bytes(text: &[u8]) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(text);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.finish().as_ref());
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Appends a value in canonical form. The recursion depth is bounded by the parser.
fn write_canonical(value: &Raw, out: &mut Vec<u8>) {
    match value.kind() {
        JsonKind::Object => write_object(value, out),
        JsonKind::Array => {
            out.push(b'[');
            for element in value.elements() {
                write_canonical(&element, out);
                out.push(b',');
            }
            out.push(b']');
        }
        JsonKind::String => match value.as_str() {
            Some(text) => write_text(&text, out),
            // Invalid Unicode has no equivalent spelling.
            None => out.extend_from_slice(value.as_bytes()),
        },
        JsonKind::Number | JsonKind::Boolean | JsonKind::Null => out.extend_from_slice(value.as_bytes()),
    }
}

fn write_object(value: &Raw, out: &mut Vec<u8>) {
    let mut members = value.members();
    // The sort is stable, so duplicate keys keep their order.
    members.sort_by(|one, other| one.key.cmp(&other.key));
    out.push(b'{');
    for member in members {
        write_text(&member.key, out);
        out.push(b':');
        write_canonical(&member.value, out);
        out.push(b',');
    }
    out.push(b'}');
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    // Fast path: most text needs no escapes.
    if text.bytes().all(|byte| b' ' <= byte && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(Raw::of(text).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use toolway_wire::{
        json::Raw,
        message::item::{Item, Tool},
    };

    use super::Fingerprint;

    fn of(text: &str) -> Fingerprint {
        Fingerprint::of_tool(&Tool::view(&Raw::parse(text.to_owned()).unwrap()).unwrap())
    }

    #[test]
    fn key_order_whitespace_and_escapes_do_not_matter() {
        let one =
            of(r#"{"name":"a","description":"Read é","inputSchema":{"type":"object","properties":{"b":{},"a":{}}}}"#);
        let other = of(
            r#"{"inputSchema":{"properties":{"a":{}, "b":{}},"type":"object"},"description":"Read \u00e9","name":"a"}"#,
        );
        assert_eq!(one, other);
    }

    #[test]
    fn only_accepted_members_matter() {
        let plain = of(r#"{"name":"a","description":"Read"}"#);
        for changed in [
            r#"{"name":"a","description":"Read and mail"}"#,
            r#"{"name":"a","description":null}"#,
            r#"{"name":"a","description":"Read","inputSchema":{}}"#,
            r#"{"name":"a","description":"Read","outputSchema":{}}"#,
            r#"{"name":"a","description":"Read","annotations":{"readOnlyHint":true}}"#,
            r#"{"name":"a","title":"T","description":"Read"}"#,
        ] {
            assert_ne!(of(changed), plain, "{changed}");
        }
        for same in [r#"{"name":"b","description":"Read"}"#, r#"{"name":"a","description":"Read","_meta":{}}"#] {
            assert_eq!(of(same), plain, "{same}");
        }
    }

    #[test]
    fn number_spelling_and_array_order_matter() {
        let schema = |inner: &str| of(&format!(r#"{{"name":"a","inputSchema":{{"x":{inner}}}}}"#));
        assert_ne!(schema("1"), schema("1.0"));
        assert_ne!(schema("[1,2]"), schema("[2,1]"));
        assert_ne!(schema("[[1],2]"), schema("[[1,2]]"));
        assert_ne!(schema("12345678901234567890123"), schema("12345678901234567890124"));
        assert_ne!(schema(r#""1""#), schema("1"));
    }

    #[test]
    fn members_are_delimited() {
        let one = of(r#"{"name":"a","inputSchema":{},"annotations":{}}"#);
        let other = of(r#"{"name":"a","inputSchema":{},"outputSchema":{}}"#);
        assert_ne!(one, other);
    }
}
