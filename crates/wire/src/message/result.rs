//! Views of results: what a call gave, how long an answer keeps, what a server wants to know first.
//!
//! A result is understood by the request it answers; nothing here guesses from its shape.

use std::time::Duration;

use super::content::Content;
use crate::json::{Raw, scan};

/// The result of `tools/call`.
#[derive(Clone, Debug)]
pub struct CallResult {
    /// The blocks, in order.
    pub content: Vec<Content>,
    /// The structured form, if any.
    pub structured: Option<Raw>,
    /// Whether the tool says it failed.
    pub is_error: bool,
    /// All of it.
    pub raw: Raw,
}

/// How long a server says an answer keeps, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheHint {
    /// Zero where the server says nothing.
    pub keeps: Duration,
    /// For whom.
    pub scope: CacheScope,
}

/// Who may be given a cached answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheScope {
    /// Anyone.
    Public,
    /// Only who asked.
    Private,
}

/// What a modern result says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// The answer; also when nothing is said.
    Complete,
    /// Questions first.
    InputRequired,
    /// A task instead of an answer.
    Task,
    /// Something this program does not know.
    Unknown(String),
}

// === impl CallResult ===

impl CallResult {
    /// The view of a `tools/call` result.
    pub fn view(raw: &Raw) -> Self {
        let content = raw.get("content").map(|list| list.elements()).unwrap_or_default();
        Self {
            content: content.iter().map(Content::view).collect(),
            structured: raw.get("structuredContent"),
            is_error: raw.get("isError").and_then(|flag| flag.as_bool()).unwrap_or_default(),
            raw: raw.clone(),
        }
    }
}

impl CacheHint {
    /// The hint of a result; nothing said means: keep nothing, show it to nobody else.
    pub fn view(result: &Raw) -> Self {
        let millis = result.get("ttlMs").and_then(|ttl| ttl.as_u64()).unwrap_or_default();
        let scope = result.get("cacheScope");
        let public = scope.as_ref().and_then(Raw::as_str).is_some_and(|scope| scope == "public");
        Self {
            keeps: Duration::from_millis(millis),
            scope: if public { CacheScope::Public } else { CacheScope::Private },
        }
    }
}

impl CacheHint {
    /// What is said of a result of which nothing is known.
    pub const NONE: Self = Self { keeps: Duration::ZERO, scope: CacheScope::Private };

    /// As a result says it.
    pub fn members(self) -> [(&'static str, Raw); 2] {
        let millis = u64::try_from(self.keeps.as_millis()).unwrap_or(u64::MAX);
        let scope = match self.scope {
            CacheScope::Public => "public",
            CacheScope::Private => "private",
        };
        [("ttlMs", Raw::of(&millis)), ("cacheScope", Raw::of(scope))]
    }
}

impl ResultType {
    /// What the result says it is.
    pub fn view(result: &Raw) -> Self {
        result.get("resultType").map_or(Self::Complete, |said| Self::read(said.as_bytes()))
    }

    /// What a result is whose `resultType` is this.
    pub(super) fn read(said: &[u8]) -> Self {
        if said == b"\"complete\"" {
            return Self::Complete;
        }
        match scan::decode_string(said).as_deref() {
            Some("complete") => Self::Complete,
            Some("input_required") => Self::InputRequired,
            Some("task") => Self::Task,
            _ => Self::Unknown(String::from_utf8_lossy(said).into_owned()),
        }
    }
}
