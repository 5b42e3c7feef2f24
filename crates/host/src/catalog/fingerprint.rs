//! What a grant is bound to: a digest of the part of a definition that a person agreed to.
//!
//! The digest is taken over a canonical form, so that a server that only writes its keys in another order, or with
//! other whitespace or escapes, asks nobody again: keys sorted by their text, no whitespace, strings with their
//! escapes resolved. Numbers count as they are spelled (`1` and `1.0` differ: no reader has to agree with another
//! about what a number is), arrays keep their order, and a key that stands twice counts twice. A member that is
//! absent and one that is `null` differ.

use std::fmt;

use ring::digest::{Context, SHA256};
use toolway_wire::{
    json::{Kind, Raw},
    message::item::Tool,
};

/// A SHA-256 digest of a definition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

/// The members of a tool that a person agrees to: what the model is told and what the tool says of itself.
const AGREED: [&str; 4] = ["description", "inputSchema", "outputSchema", "annotations"];

// === impl Fingerprint ===

impl Fingerprint {
    /// Of a tool: description, both schemas and annotations.
    pub fn of_tool(tool: &Tool) -> Self {
        let mut text = Vec::with_capacity(tool.raw.as_bytes().len() + 8);
        for member in tool.raw.fields(AGREED) {
            match member {
                Some(value) => write_canonical(&value, &mut text),
                None => text.push(b'-'),
            }
            text.push(b'\n');
        }
        Self::of_bytes(&text)
    }

    /// Of all of an item.
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

/// Appends a value in canonical form. How deep it goes was bounded when the value was parsed.
fn write_canonical(value: &Raw, out: &mut Vec<u8>) {
    match value.kind() {
        Kind::Object => write_object(value, out),
        Kind::Array => {
            out.push(b'[');
            for element in value.elements() {
                write_canonical(&element, out);
                out.push(b',');
            }
            out.push(b']');
        }
        Kind::String => match value.as_str() {
            Some(text) => write_text(&text, out),
            // Not Unicode: it has no other spelling that means the same.
            None => out.extend_from_slice(value.as_bytes()),
        },
        Kind::Number | Kind::Boolean | Kind::Null => out.extend_from_slice(value.as_bytes()),
    }
}

fn write_object(value: &Raw, out: &mut Vec<u8>) {
    let mut members = value.members();
    // Stable: of a key that stands twice the first stays first.
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
    // Plain text needs no escapes and is most of what there is.
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
    fn the_order_of_keys_whitespace_and_escapes_do_not_count() {
        let one =
            of(r#"{"name":"a","description":"Read é","inputSchema":{"type":"object","properties":{"b":{},"a":{}}}}"#);
        let other = of(
            r#"{"inputSchema":{"properties":{"a":{}, "b":{}},"type":"object"},"description":"Read \u00e9","name":"a"}"#,
        );
        assert_eq!(one, other);
    }

    #[test]
    fn what_a_person_agreed_to_counts_and_nothing_else() {
        let plain = of(r#"{"name":"a","description":"Read"}"#);
        for changed in [
            r#"{"name":"a","description":"Read and mail"}"#,
            r#"{"name":"a","description":null}"#,
            r#"{"name":"a","description":"Read","inputSchema":{}}"#,
            r#"{"name":"a","description":"Read","outputSchema":{}}"#,
            r#"{"name":"a","description":"Read","annotations":{"readOnlyHint":true}}"#,
        ] {
            assert_ne!(of(changed), plain, "{changed}");
        }
        for same in
            [r#"{"name":"b","description":"Read"}"#, r#"{"name":"a","title":"T","description":"Read","_meta":{}}"#]
        {
            assert_eq!(of(same), plain, "{same}");
        }
    }

    #[test]
    fn numbers_count_as_spelled_and_arrays_in_order() {
        let schema = |inner: &str| of(&format!(r#"{{"name":"a","inputSchema":{{"x":{inner}}}}}"#));
        assert_ne!(schema("1"), schema("1.0"));
        assert_ne!(schema("[1,2]"), schema("[2,1]"));
        assert_ne!(schema("[[1],2]"), schema("[[1,2]]"));
        assert_ne!(schema("12345678901234567890123"), schema("12345678901234567890124"));
        assert_ne!(schema(r#""1""#), schema("1"));
    }

    #[test]
    fn a_member_does_not_slide_into_its_neighbour() {
        let one = of(r#"{"name":"a","inputSchema":{},"annotations":{}}"#);
        let other = of(r#"{"name":"a","inputSchema":{},"outputSchema":{}}"#);
        assert_ne!(one, other);
    }
}
