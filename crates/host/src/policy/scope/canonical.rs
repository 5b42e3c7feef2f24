//! JSON values in one spelling, their digests, and the strings inside.

use ring::digest::{SHA256, digest};
use toolway_wire::json::{JsonKind, Raw};

/// A value with sorted keys and one spelling of each string. Members that occur twice keep their order; numbers stay as
/// they are written. The depth of the recursion is bounded by the parser.
pub(super) fn text(value: &Raw) -> String {
    match value.kind() {
        JsonKind::Object => {
            let mut members = value.members();
            members.sort_by(|one, other| one.key.cmp(&other.key));
            let members = members.iter().map(|member| format!("{}:{}", Raw::of(&member.key), text(&member.value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        JsonKind::Array => {
            let elements = value.elements().iter().map(text).collect::<Vec<_>>();
            format!("[{}]", elements.join(","))
        }
        JsonKind::String => value.as_str().map_or_else(|| value.to_string(), |text| Raw::of(&*text).to_string()),
        JsonKind::Number | JsonKind::Boolean | JsonKind::Null => value.to_string(),
    }
}

/// Levels of objects and lists.
pub(super) fn levels(value: &Raw) -> usize {
    crate::inbox::approval_rows::levels(value.as_bytes())
}

/// SHA-256 in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How [`Raw::members`] names a member whose name is not Unicode: two such names cannot be told apart.
const NOT_UNICODE: &str = "\u{fffd}";

/// Whether a value has a member whose name cannot be told apart from others.
pub(super) fn has_unreadable_names(value: &Raw) -> bool {
    match value.kind() {
        JsonKind::Object => {
            value.members().iter().any(|member| member.key == NOT_UNICODE || has_unreadable_names(&member.value))
        }
        JsonKind::Array => value.elements().iter().any(has_unreadable_names),
        _ => false,
    }
}

/// Whether a condition holds for any string or name in a value. A string or name that cannot be decoded counts.
pub(super) fn any_text(value: &Raw, condition: &mut impl FnMut(&str) -> bool) -> bool {
    match value.kind() {
        JsonKind::Object => {
            let mut is_met = |name: &str| name == NOT_UNICODE || condition(name);
            let members = value.members();
            members.iter().any(|member| is_met(&member.key))
                || members.iter().any(|member| any_text(&member.value, condition))
        }
        JsonKind::Array => value.elements().iter().any(|element| any_text(element, condition)),
        JsonKind::String => value.as_str().is_none_or(|text| condition(&text)),
        JsonKind::Number | JsonKind::Boolean | JsonKind::Null => false,
    }
}
