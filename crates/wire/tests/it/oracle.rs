//! A second JSON parser, based on `serde_json`, to compare ours with.
//!
//! Shared with the targets in `fuzz/`, so it uses nothing of the crate under test.

use std::{fmt, ops::Range};

use serde::{
    Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// Position of one member of an object: its key with the quotes, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) key: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// Positions of the members of an object; `None` for anything that is not one object.
pub(crate) fn members(text: &str) -> Option<Vec<Place>> {
    struct Places<'a>(&'a str);

    impl<'de> Visitor<'de> for Places<'de> {
        type Value = Vec<Place>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut places = Vec::new();
            while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                places.push(Place { key: span(self.0, key.get()), value: span(self.0, value.get()) });
            }
            Ok(places)
        }
    }

    let mut reader = serde_json::Deserializer::from_str(text);
    let places = reader.deserialize_map(Places(text)).ok()?;
    reader.end().ok()?;
    Some(places)
}

/// Decodes a string literal; `None` if it is not Unicode.
pub(crate) fn said(literal: &str) -> Option<String> {
    serde_json::from_str(literal).ok()
}

/// Whether this is one JSON value of any depth.
pub(crate) fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(text).is_ok()
}

/// The text without whitespace between tokens: equal for equal values in the same spelling.
pub(crate) fn compact(text: &[u8]) -> Vec<u8> {
    let mut strings = Strings::default();
    text.iter().copied().filter(|byte| strings.step(*byte) || !byte.is_ascii_whitespace()).collect()
}

/// Maximum nesting depth.
pub(crate) fn depth(text: &[u8]) -> usize {
    let (mut strings, mut open, mut deepest) = (Strings::default(), 0_usize, 0);
    for byte in text {
        match (strings.step(*byte), byte) {
            (false, b'{' | b'[') => open += 1,
            (false, b'}' | b']') => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}

/// Tracks byte by byte whether the text is inside a string.
#[derive(Default)]
struct Strings {
    inside: bool,
    escaped: bool,
}

impl Strings {
    /// Whether this byte belongs to a string.
    fn step(&mut self, byte: u8) -> bool {
        let was_inside = self.inside;
        if self.escaped {
            self.escaped = false;
        } else if byte == b'"' {
            self.inside = !self.inside;
        } else if self.inside && byte == b'\\' {
            self.escaped = true;
        }
        was_inside || self.inside
    }
}

fn span(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - text.as_ptr() as usize;
    start..start + part.len()
}
