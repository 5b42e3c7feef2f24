//! A request's id: a string or a number, spelled as its sender spelled it.

use std::fmt;

use crate::json::{Kind, Raw};

/// The id of a request. Two ids are the same when their spelling is, so `1` and `"1"` never meet.
#[derive(Clone, PartialEq, Eq)]
pub struct Id(Raw);

impl Id {
    /// The id a value can be: a string or a number.
    pub fn from_raw(raw: Raw) -> Option<Self> {
        matches!(raw.kind(), Kind::String | Kind::Number).then_some(Self(raw))
    }

    /// An id of ours.
    pub fn number(number: u64) -> Self {
        Self(Raw::checked(number.to_string().into()))
    }

    /// An id of ours that cannot be taken for one of the peer's.
    pub fn string(text: &str) -> Self {
        Self(Raw::of(text))
    }

    /// The text as it stands on the wire.
    pub fn raw(&self) -> &Raw {
        &self.0
    }

    /// The number one of our own ids is; a peer that answers `7.0` to `7` is understood.
    pub fn as_u64(&self) -> Option<u64> {
        self.0.as_u64()
    }
}

impl std::hash::Hash for Id {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.as_bytes().hash(state);
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
