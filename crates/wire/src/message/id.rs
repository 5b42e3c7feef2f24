//! A request's id: a string or a number, spelled as its sender spelled it.

use std::{fmt, ops::Range};

use bytes::Bytes;

use crate::json::{Kind, Raw};

/// The id of a request. Two ids are the same when their spelling is, so `1` and `"1"` never meet.
#[derive(Clone, PartialEq, Eq)]
pub struct Id(Spelling);

/// Each id has one of these, by its length alone; so equal ids compare equal.
#[derive(Clone, PartialEq, Eq)]
enum Spelling {
    /// Nearly all of them: numbers, and strings up to the length of a UUID.
    Short { length: u8, bytes: [u8; SHORT] },
    /// The rest.
    Long(Raw),
}

/// A UUID between quotes.
const SHORT: usize = 38;

impl Id {
    /// The id a value can be: a string or a number.
    pub fn from_raw(raw: Raw) -> Option<Self> {
        match Self::short(raw.as_bytes()) {
            _ if !matches!(raw.kind(), Kind::String | Kind::Number) => None,
            Some(short) => Some(short),
            None => Some(Self(Spelling::Long(raw))),
        }
    }

    /// The id that stands here in a checked text, where it is one.
    pub(super) fn from_checked(text: &Bytes, span: Range<usize>) -> Option<Self> {
        let spelled = &text[span.clone()];
        let could_be = matches!(spelled.first(), Some(b'"' | b'-' | b'0'..=b'9'));
        Self::short(spelled).filter(|_| could_be).or_else(|| Self::from_raw(Raw::checked(text.slice(span))))
    }

    /// An id of ours.
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

    /// An id of ours that cannot be taken for one of the peer's.
    pub fn string(text: &str) -> Self {
        let raw = Raw::of(text);
        Self::short(raw.as_bytes()).unwrap_or(Self(Spelling::Long(raw)))
    }

    /// The id as a value.
    pub fn raw(&self) -> Raw {
        match &self.0 {
            Spelling::Short { .. } => Raw::checked(Bytes::copy_from_slice(self.as_bytes())),
            Spelling::Long(raw) => raw.clone(),
        }
    }

    /// The text as it stands on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Spelling::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Spelling::Long(raw) => raw.as_bytes(),
        }
    }

    /// The number one of our own ids is; a peer that answers `7.0` to `7` is understood.
    pub fn as_u64(&self) -> Option<u64> {
        // So many digits fit whatever they are.
        const FIT: usize = 19;
        let text = self.as_bytes();
        if text.len() <= FIT && text.iter().all(u8::is_ascii_digit) {
            return Some(text.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')));
        }
        self.raw().as_u64()
    }

    /// The id that a checked value spells, where it is short.
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
    fn ids_are_the_same_when_their_spelling_is_however_long_they_are() {
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
    fn a_number_of_ours_comes_back_from_every_spelling() {
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
