//! JSON as it came: text that was checked once and is carried unread.
//!
//! [`Raw`] is one JSON value, its bytes shared and never rewritten. The checker behind it
//! ([`scan`]) counts depth, finds the members of one level and copies nothing. Changes are
//! made in [`crate::message::splice`] and nowhere else.

pub(crate) mod scan;
pub(crate) mod skim;

use std::{borrow::Cow, fmt, ops::Range};

use bytes::Bytes;
use serde::de::DeserializeOwned;

use scan::Scanner;
pub use scan::{JsonError, MAX_DEPTH};

/// One JSON value, byte for byte as its sender wrote it, without surrounding whitespace.
#[derive(Clone, PartialEq, Eq)]
pub struct Raw(Bytes);

/// One member of an object: its key as text, and where key and value stand.
#[derive(Clone, Debug)]
pub struct Member {
    /// The key with its escapes resolved.
    pub key: String,
    /// The value.
    pub value: Raw,
}

/// The six kinds of JSON values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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
    /// Checks `text` and keeps it; whitespace around the value is dropped.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, JsonError> {
        Self::parse_within(text, MAX_DEPTH)
    }

    /// As [`Raw::parse`], with a depth limit of the caller's.
    pub fn parse_within(text: impl Into<Bytes>, depth: usize) -> Result<Self, JsonError> {
        let text = text.into();
        let span = scan::whole_value(&text, depth)?;
        Ok(Self(text.slice(span)))
    }

    /// A value this program made itself.
    pub fn of<T: serde::Serialize + ?Sized>(value: &T) -> Self {
        // Only maps with keys that are not strings fail here, and we make none.
        Self(serde_json::to_vec(value).map_or_else(|_| Bytes::from_static(b"null"), Bytes::from))
    }

    /// `{}`
    pub fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// Bytes that a scanner has already found to be one value.
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
        String::from_utf8_lossy(&self.0)
    }

    /// Which kind of value this is.
    pub fn kind(&self) -> Kind {
        match self.0.first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Boolean,
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// The string this is, escapes resolved; `None` for anything else, and for a string that is not Unicode.
    pub fn as_str(&self) -> Option<Cow<'_, str>> {
        if self.kind() != Kind::String {
            return None;
        }
        scan::decode_string(&self.0)
    }

    /// The boolean this is.
    pub fn as_bool(&self) -> Option<bool> {
        match self.as_bytes() {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// The non-negative integer this is, also when spelled `7.0` or `7e3`.
    pub fn as_u64(&self) -> Option<u64> {
        let text = std::str::from_utf8(&self.0).ok()?;
        text.parse().ok().or_else(|| self.as_f64().and_then(whole))
    }

    /// The number this is, as near as a float comes.
    pub fn as_f64(&self) -> Option<f64> {
        (self.kind() == Kind::Number).then(|| self.read().ok()).flatten()
    }

    /// Reads the value into a type of the reader's.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// The value of the first member with this key.
    pub fn get(&self, key: &str) -> Option<Self> {
        let value = Scanner::again(&self.0).member(key)?;
        Some(self.slice(value))
    }

    /// Whether a key of this name can stand anywhere in the text; a look that is much cheaper than reading.
    pub fn may_mention(&self, key: &str) -> bool {
        memchr::memmem::find(&self.0, key.as_bytes()).is_some() || memchr::memmem::find(&self.0, b"\\u").is_some()
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

    /// The elements in order, as far as one more than `most`: whoever gets more than it takes need not read the rest.
    pub fn elements_within(&self, most: usize) -> Vec<Self> {
        let mut elements = Vec::new();
        if self.kind() == Kind::Array {
            // The text was checked when this value was made, so nothing can fail here.
            if let Ok(spans) = Scanner::again(&self.0).elements(most) {
                elements.extend(spans.into_iter().map(|span| self.slice(span)));
            }
        }
        elements
    }

    /// Appends the value without whitespace and with its keys in order: the same for whoever writes it down again.
    pub(crate) fn write_canonical(&self, out: &mut Vec<u8>) {
        let (open, close, mut parts) = match self.kind() {
            Kind::Array => (b'[', b']', self.elements().into_iter().map(|element| (String::new(), element)).collect()),
            Kind::Object => {
                let parts = self.members().into_iter().map(|member| (member.key, member.value));
                (b'{', b'}', parts.collect::<Vec<_>>())
            }
            Kind::String => {
                return out
                    .extend_from_slice(self.as_str().map_or_else(|| self.clone(), |text| Self::of(&text)).as_bytes());
            }
            Kind::Number | Kind::Boolean | Kind::Null => return out.extend_from_slice(&self.0),
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

    /// Calls `visit` with the span of each key (quotes included) and of its value.
    pub(crate) fn each_member(&self, visit: impl FnMut(Range<usize>, Range<usize>)) {
        if self.kind() == Kind::Object {
            // The text was checked when this value was made, so nothing can fail here.
            let _checked = Scanner::again(&self.0).members(visit);
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

/// The integer a float is, where it is one that floats keep exactly.
fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be whole and in range")]
    (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as u64)
}

/// The message as one line: each CR and LF becomes a space.
///
/// Both can stand in JSON only as whitespace between tokens, so the value is the same; but on a wire that is
/// framed by lines or by SSE fields a request hidden after a line break would become a message of its own. This
/// is the one edit that is always made, and every such wire takes its messages from here.
pub fn one_line(message: Bytes) -> Bytes {
    if memchr::memchr2(b'\r', b'\n', &message).is_none() {
        return message;
    }
    let spaced = message.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte });
    spaced.collect::<Vec<u8>>().into()
}

#[cfg(test)]
mod tests;
