//! Raw JSON: text that was validated once and is carried without being parsed.
//!
//! [`Raw`] is one JSON value whose bytes are shared and never rewritten. The scanner behind it ([`scan`]) checks depth,
//! finds the members of one level and copies nothing. Only [`crate::message::splice`] edits values.

pub(crate) mod scan;
pub(crate) mod skim;

use std::{
    borrow::Cow,
    fmt,
    ops::Range,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use memchr::memmem::Finder;
use serde::de::DeserializeOwned;

use scan::Scanner;
pub use scan::{JsonError, MAX_DEPTH};

use crate::budget::Charge;

/// One JSON value, byte for byte as its sender wrote it, without surrounding whitespace.
#[derive(Clone, PartialEq, Eq)]
pub struct Raw(Bytes);

/// One member of an object.
#[derive(Clone, Debug)]
pub struct Member {
    /// The key with its escapes resolved.
    pub key: String,
    /// The raw value.
    pub value: Raw,
}

/// The six kinds of JSON values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// digits, as spelled
    Number,
    /// `true` or `false`
    Boolean,
    /// `null`
    Null,
}

// === impl Raw ===

impl Raw {
    /// Validates `text`; whitespace around the value is dropped.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, JsonError> {
        Self::parse_within(text, MAX_DEPTH)
    }

    /// As [`Raw::parse`], with this depth limit.
    pub fn parse_within(text: impl Into<Bytes>, depth: usize) -> Result<Self, JsonError> {
        let text = text.into();
        let span = scan::whole_value(&text, depth)?;
        Ok(Self(text.slice(span)))
    }

    /// Serialises a value of this program.
    pub fn of<T: serde::Serialize + ?Sized>(value: &T) -> Self {
        // Only maps with keys that are not strings can fail, and we have none.
        Self(serde_json::to_vec(value).map_or_else(|_| Bytes::from_static(b"null"), Bytes::from))
    }

    /// `{}`
    pub fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// Bytes that a scanner has already validated as one value.
    pub(crate) fn checked(text: Bytes) -> Self {
        Self(text)
    }

    /// The text, as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, sharing the buffer it arrived in.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The text as a string.
    pub fn text(&self) -> Cow<'_, str> {
        // Nearly always valid, which this finds out faster than the lossy conversion.
        std::str::from_utf8(&self.0).map_or_else(|_| String::from_utf8_lossy(&self.0), Cow::Borrowed)
    }

    /// Kind of this value.
    pub fn kind(&self) -> JsonKind {
        match self.0.first() {
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::Array,
            Some(b'"') => JsonKind::String,
            Some(b't' | b'f') => JsonKind::Boolean,
            Some(b'n') => JsonKind::Null,
            _ => JsonKind::Number,
        }
    }

    /// The decoded string; `None` for other kinds, and for a string that is not Unicode.
    pub fn as_str(&self) -> Option<Cow<'_, str>> {
        if self.kind() != JsonKind::String {
            return None;
        }
        scan::decode_string(&self.0)
    }

    /// The boolean; `None` for other kinds.
    pub fn as_bool(&self) -> Option<bool> {
        match self.as_bytes() {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// The non-negative integer, also if spelled `7.0` or `7e3`.
    pub fn as_u64(&self) -> Option<u64> {
        let text = std::str::from_utf8(&self.0).ok()?;
        text.parse().ok().or_else(|| self.as_f64().and_then(whole))
    }

    /// The number as the nearest float.
    pub fn as_f64(&self) -> Option<f64> {
        (self.kind() == JsonKind::Number).then(|| self.read().ok()).flatten()
    }

    /// Deserialises the value.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// The value of the first member with this key.
    pub fn get(&self, key: &str) -> Option<Self> {
        let value = Scanner::trusted(&self.0).member(key)?;
        Some(self.slice(value))
    }

    /// Whether the text may contain this key anywhere; much cheaper than scanning.
    pub fn may_mention(&self, key: &str) -> bool {
        static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\\u"));
        memchr::memmem::find(&self.0, key.as_bytes()).is_some() || ESCAPE.find(&self.0).is_some()
    }

    /// Whether the text may contain the literal `true`, which has no other spelling; much cheaper than scanning.
    pub fn may_contain_true(&self) -> bool {
        static TRUE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"true"));
        TRUE.find(&self.0).is_some()
    }

    /// The values of the first members with these keys, found in one pass.
    pub fn fields<const N: usize>(&self, keys: [&str; N]) -> [Option<Self>; N] {
        let mut found = [const { None }; N];
        self.each_member(|name, value| {
            let wanted = keys.iter().position(|key| scan::key_is(&self.0[name.clone()], key));
            if let Some(slot) = wanted.and_then(|index| found.get_mut(index)).filter(|slot| slot.is_none()) {
                *slot = Some(self.slice(value));
            }
        });
        found
    }

    /// All members in order; empty for anything but an object.
    pub fn members(&self) -> Vec<Member> {
        let mut members = Vec::new();
        self.each_member(|name, value| {
            let key = scan::decode_string(&self.0[name]).unwrap_or(Cow::Borrowed("\u{fffd}")).into_owned();
            members.push(Member { key, value: self.slice(value) });
        });
        members
    }

    /// All elements in order; empty for anything but an array.
    pub fn elements(&self) -> Vec<Self> {
        self.elements_within(usize::MAX)
    }

    /// The first elements in order, at most `most + 1`, so that the caller can tell whether there are too many.
    pub fn elements_within(&self, most: usize) -> Vec<Self> {
        let mut elements = Vec::new();
        if self.kind() == JsonKind::Array {
            // The text was validated when this value was created, so this cannot fail.
            if let Ok(spans) = Scanner::trusted(&self.0).elements(most) {
                elements.extend(spans.into_iter().map(|span| self.slice(span)));
            }
        }
        elements
    }

    /// The number of elements; 0 for anything but an array. Nothing is allocated.
    pub fn element_count(&self) -> usize {
        match self.kind() {
            // The text was validated when this value was created, so this cannot fail.
            JsonKind::Array => Scanner::trusted(&self.0).element_count().unwrap_or_default(),
            _ => 0,
        }
    }

    /// Appends a canonical form: no whitespace, keys sorted, strings re-encoded.
    pub(crate) fn write_canonical(&self, out: &mut Vec<u8>) {
        let (open, close, mut parts) = match self.kind() {
            JsonKind::Array => {
                (b'[', b']', self.elements().into_iter().map(|element| (String::new(), element)).collect())
            }
            JsonKind::Object => {
                let parts = self.members().into_iter().map(|member| (member.key, member.value));
                (b'{', b'}', parts.collect::<Vec<_>>())
            }
            JsonKind::String => {
                return out
                    .extend_from_slice(self.as_str().map_or_else(|| self.clone(), |text| Self::of(&text)).as_bytes());
            }
            JsonKind::Number | JsonKind::Boolean | JsonKind::Null => return out.extend_from_slice(&self.0),
        };
        parts.sort_by(|one, other| one.0.cmp(&other.0));
        out.push(open);
        for (key, value) in parts {
            if open == b'{' {
                out.extend_from_slice(Self::of(&key).as_bytes());
                out.push(b':');
            }
            value.write_canonical(out);
            out.push(b',');
        }
        out.push(close);
    }

    /// A copy in a buffer of its own, which holds the charge for it. A slice keeps the whole buffer alive that it arrived
    /// in, so what is kept for long is copied.
    #[must_use]
    pub fn kept(&self, charge: Charge) -> Self {
        Self(Arc::new(charge).attach(Bytes::copy_from_slice(&self.0)))
    }

    /// The same bytes, which hold this charge as long as a part of them is in use.
    #[must_use]
    pub fn holding(self, charge: &Arc<Charge>) -> Self {
        Self(Arc::clone(charge).attach(self.0))
    }

    /// This part of `from` as a part of `copy`, which has the same text; itself if it is no part of it.
    pub(crate) fn moved(&self, from: &Self, copy: &Self) -> Self {
        let start = (self.0.as_ptr() as usize).wrapping_sub(from.0.as_ptr() as usize);
        match start.checked_add(self.0.len()) {
            Some(end) if end <= from.0.len().min(copy.0.len()) => copy.slice(start..end),
            _ => self.clone(),
        }
    }

    /// Calls `visit` with the span of each key (quotes included) and of its value, in the bytes of this object; not at all for
    /// anything else.
    pub fn each_member(&self, visit: impl FnMut(Range<usize>, Range<usize>)) {
        if self.kind() == JsonKind::Object {
            // The text was validated when this value was created, so this cannot fail.
            let _checked = Scanner::trusted(&self.0).members(visit);
        }
    }

    /// Calls `visit` with each key, escapes resolved.
    pub(crate) fn each_key(&self, mut visit: impl FnMut(&str)) {
        self.each_member(|name, _| {
            if let Some(key) = scan::decode_string(&self.0[name]) {
                visit(&key);
            }
        });
    }

    fn slice(&self, span: Range<usize>) -> Self {
        Self(self.0.slice(span))
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 400;
        if self.0.len() <= SHOWN {
            return f.write_str(&self.text());
        }
        write!(f, "{}… ({} bytes)", String::from_utf8_lossy(&self.0[..SHOWN]), self.0.len())
    }
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// The integer value of a float, if it is exact.
fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be whole and in range")]
    (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as u64)
}

/// The message as one line: each CR and LF becomes a space.
///
/// JSON allows both only as whitespace between tokens, so the value stays the same; but on a transport framed by lines
/// or SSE fields, text after a line break would become a message of its own. This edit is always made, and every such
/// transport calls this function.
pub fn one_line(message: Bytes) -> Bytes {
    if memchr::memchr2(b'\r', b'\n', &message).is_none() {
        return message;
    }
    let spaced = message.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte });
    spaced.collect::<Vec<u8>>().into()
}

#[cfg(test)]
mod tests;
