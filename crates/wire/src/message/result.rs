//! Views of results: tool results, caching hints, result types.
//!
//! A result is interpreted by the request it answers, never by its shape.

use std::time::Duration;

use super::content::Content;
use crate::json::{Raw, scan};

/// The result of `tools/call`.
#[derive(Clone, Debug)]
pub struct CallResult {
    /// Content blocks in order.
    pub content: Vec<Content>,
    /// Structured content, if any.
    pub structured: Option<Raw>,
    /// Whether the tool reports failure.
    pub is_error: bool,
    /// The whole result.
    pub raw: Raw,
}

/// Caching hint of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheHint {
    /// How long the result stays valid; zero if the server gives no hint.
    pub ttl: Duration,
    /// Callers that may share it.
    pub scope: CacheScope,
}

/// Callers that may receive a cached result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheScope {
    /// Any caller.
    Public,
    /// Only the caller that requested it.
    Private,
}

/// `resultType` of a modern result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// A complete result; also if the member is missing.
    Complete,
    /// The server needs input first.
    InputRequired,
    /// A task instead of a result.
    Task,
    /// An unknown type.
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
    /// Reads the hint of a result; without one it must not be cached.
    pub fn view(result: &Raw) -> Self {
        let millis = result.get("ttlMs").and_then(|ttl| ttl.as_u64()).unwrap_or_default();
        let scope = result.get("cacheScope");
        let public = scope.as_ref().and_then(Raw::as_str).is_some_and(|scope| scope == "public");
        Self {
            ttl: Duration::from_millis(millis),
            scope: if public { CacheScope::Public } else { CacheScope::Private },
        }
    }
}

impl CacheHint {
    /// Do not cache.
    pub const NONE: Self = Self { ttl: Duration::ZERO, scope: CacheScope::Private };

    /// The hint as members of a result.
    pub fn members(self) -> [(&'static str, Raw); 2] {
        let millis = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        let scope = match self.scope {
            CacheScope::Public => "public",
            CacheScope::Private => "private",
        };
        [("ttlMs", Raw::of(&millis)), ("cacheScope", Raw::of(scope))]
    }
}

impl ResultType {
    /// Reads `resultType` of a result.
    pub fn view(result: &Raw) -> Self {
        result.get("resultType").map_or(Self::Complete, |value| Self::read(value.as_bytes()))
    }

    /// Parses the JSON text of a `resultType`.
    pub(super) fn read(text: &[u8]) -> Self {
        if text == b"\"complete\"" {
            return Self::Complete;
        }
        match scan::decode_string(text).as_deref() {
            Some("complete") => Self::Complete,
            Some("input_required") => Self::InputRequired,
            Some("task") => Self::Task,
            _ => Self::Unknown(String::from_utf8_lossy(text).into_owned()),
        }
    }
}
