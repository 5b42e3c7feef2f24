//! The five revisions of the protocol and their features.
//!
//! Only the accents decide by revision; the rest of the program carries it for display.

use std::{fmt, str::FromStr};

use bytes::Bytes;

use crate::json::Raw;

/// A dated revision of the Model Context Protocol, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// HTTP+SSE and stdio.
    V2024_11_05,
    /// Streamable HTTP, batches, audio, tool annotations.
    V2025_03_26,
    /// Structured results, elicitation, the version header; batches gone.
    V2025_06_18,
    /// URL elicitation, sampling with tools, core tasks, polling.
    V2025_11_25,
    /// No session, no handshake; server requests come as a result (`input_required`).
    V2026_07_28,
}

/// Whether the protocol is stateful or stateless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// Stateful: `initialize`, then a session.
    Legacy,
    /// Stateless: every request is self-contained.
    Modern,
}

/// A protocol revision this crate does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol revision `{0}`")]
pub struct UnknownRevision(pub String);

// === impl Revision ===

impl Revision {
    /// All revisions, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];
    /// The newest stateful revision.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;
    /// The newest stateless revision.
    pub const NEWEST_MODERN: Self = Self::V2026_07_28;

    /// The date, as in `2025-11-25`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The date as a JSON string.
    pub fn raw(self) -> Raw {
        Raw::checked(Bytes::from_static(match self {
            Self::V2024_11_05 => b"\"2024-11-05\"",
            Self::V2025_03_26 => b"\"2025-03-26\"",
            Self::V2025_06_18 => b"\"2025-06-18\"",
            Self::V2025_11_25 => b"\"2025-11-25\"",
            Self::V2026_07_28 => b"\"2026-07-28\"",
        }))
    }

    /// Era of this revision: stateful or stateless.
    pub fn era(self) -> Era {
        if self < Self::V2026_07_28 { Era::Legacy } else { Era::Modern }
    }

    /// All revisions of one era, oldest first.
    pub fn of(era: Era) -> impl DoubleEndedIterator<Item = Self> {
        Self::ALL.into_iter().filter(move |revision| revision.era() == era)
    }

    /// Whether several messages may be sent in one array.
    pub fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }

    /// Whether every HTTP request after the handshake has an `MCP-Protocol-Version` header.
    pub fn has_version_header(self) -> bool {
        Self::V2025_06_18 <= self
    }

    /// Whether a stream of a session begins with an event without data, to resume from. Clients of older revisions parse
    /// the data of every event.
    pub fn has_opening_event(self) -> bool {
        self == Self::V2025_11_25
    }

    /// Whether a server may send `elicitation/create`.
    pub fn has_elicitation(self) -> bool {
        Self::V2025_06_18 <= self
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Revision {
    type Err = UnknownRevision;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == text).ok_or_else(|| UnknownRevision(text.to_owned()))
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Era, Revision};

    #[test]
    fn a_revision_is_spelled_as_its_date() {
        for revision in Revision::ALL {
            assert_eq!(revision.as_str().parse(), Ok(revision));
            assert_eq!(revision.raw().as_str().as_deref(), Some(revision.as_str()));
        }
        assert!("2025-13-01".parse::<Revision>().is_err());
    }

    #[test]
    fn four_revisions_keep_a_session() {
        assert_eq!(Revision::of(Era::Legacy).count(), 4);
        assert_eq!(Revision::of(Era::Modern).next(), Some(Revision::NEWEST_MODERN));
    }
}
