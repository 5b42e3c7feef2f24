//! Request ids: strings or numbers, in the spelling of their sender.

use std::{fmt, ops::Range};

use bytes::Bytes;

use crate::json::{JsonKind, Raw};

/// Id of a request. Ids are equal if their spelling is, so `1` and `"1"` differ.
#[derive(Clone, PartialEq, Eq)]
pub struct Id(Spelling);

/// The representation depends only on the length, so that equal ids compare equal.
#[derive(Clone, PartialEq, Eq)]
enum Spelling {
    /// Stored inline: numbers, and strings up to the length of a UUID.
    Short { length: u8, bytes: [u8; SHORT] },
    /// All longer ids.
    Long(Raw),
}

/// Length of a quoted UUID.
const SHORT: usize = 38;

impl Id {
    /// Converts a value; `None` if it is neither a string nor a number.
    pub fn from_raw(raw: Raw) -> Option<Self> {
        match Self::short(raw.as_bytes()) {
            _ if !matches!(raw.kind(), JsonKind::String | JsonKind::Number) => None,
            Some(short) => Some(short),
            None => Some(Self(Spelling::Long(raw))),
        }
    }

    /// The id at this position of a checked text; `None` if it is invalid.
    pub(super) fn from_checked(text: &Bytes, span: Range<usize>) -> Option<Self> {
        let spelled = &text[span.clone()];
        let could_be = matches!(spelled.first(), Some(b'"' | b'-' | b'0'..=b'9'));
        Self::short(spelled).filter(|_| could_be).or_else(|| Self::from_raw(Raw::checked(text.slice(span))))
    }

    /// Creates a number id.
    pub fn number(number: u64) -> Self {
        const DIGITS: usize = 20;
        let (mut digits, mut start, mut rest) = ([0; DIGITS], DIGITS, number);
        loop {
            start -= 1;
            let digit = (rest % 10) as u8;
            digits[start] = b'0' + digit;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        Self::short(&digits[start..]).unwrap_or_else(|| Self(Spelling::Long(Raw::of(&number))))
    }

    /// Creates a string id, which cannot be confused with a number id of the peer.
    pub fn string(text: &str) -> Self {
        let raw = Raw::of(text);
        Self::short(raw.as_bytes()).unwrap_or(Self(Spelling::Long(raw)))
    }

    /// The id as a JSON value.
    pub fn raw(&self) -> Raw {
        match &self.0 {
            Spelling::Short { .. } => Raw::checked(Bytes::copy_from_slice(self.as_bytes())),
            Spelling::Long(raw) => raw.clone(),
        }
    }

    /// The id as on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Spelling::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Spelling::Long(raw) => raw.as_bytes(),
        }
    }

    /// The number of a number id; also accepts `7.0` for `7`.
    pub fn as_u64(&self) -> Option<u64> {
        // This many digits always fit.
        const FIT: usize = 19;
        let text = self.as_bytes();
        if text.len() <= FIT && text.iter().all(u8::is_ascii_digit) {
            return Some(text.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')));
        }
        self.raw().as_u64()
    }

    /// The id of a checked value, if it is short.
    fn short(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; SHORT];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self(Spelling::Short { length: u8::try_from(text.len()).ok()?, bytes }))
    }
}

impl std::hash::Hash for Id {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.raw(), f)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Id, Raw, SHORT};

    #[test]
    fn ids_are_equal_if_their_spelling_is() {
        for length in [1, SHORT - 2, SHORT - 1, 100] {
            let text = "x".repeat(length);
            let read = Id::from_raw(Raw::parse(format!("\"{text}\"")).unwrap()).unwrap();
            assert_eq!(read, Id::string(&text));
            assert_eq!(read.to_string(), format!("\"{text}\""));
            assert_eq!(read.raw(), Raw::of(&text));
            assert_ne!(read, Id::string(&"x".repeat(length + 1)));
        }
        assert_ne!(Id::number(1), Id::string("1"));
        assert_eq!(Id::from_raw(Raw::parse("true").unwrap()), None);
    }

    #[test]
    fn number_id_is_read_from_every_spelling() {
        for number in [0, 7, 10, 999, 1_000_000, 9_999_999_999_999_999_999, u64::MAX] {
            assert_eq!(Id::number(number).as_u64(), Some(number));
            assert_eq!(Id::number(number).to_string(), number.to_string());
        }
        let read = |text: &str| Id::from_raw(Raw::parse(text.to_owned()).unwrap()).unwrap().as_u64();
        assert_eq!(read("7.0"), Some(7));
        assert_eq!(read("\"7\""), None);
        assert_eq!(read("-7"), None);
        assert_eq!(read("99999999999999999999999"), None);
    }
}
