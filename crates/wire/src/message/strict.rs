//! What a request must not contain: anything two readers could understand differently.
//!
//! A key twice, a key that differs from the protocol's only in case, a key with NUL: parsers disagree about each,
//! so that a policy would judge one value and the server act on another (CVE-2026-27896, GO-2026-4770). Checked at
//! the top level, directly in `params`, and, for duplicates, in `arguments`; never deeper, where keys are data.

use std::borrow::Cow;

use crate::json::{Raw, scan};

/// The keys of a message.
const ENVELOPE_KEYS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The keys the protocol gives a meaning directly in `params`, in any revision.
const PARAMS_KEYS: [&str; 34] = [
    "_meta",
    "name",
    "arguments",
    "uri",
    "cursor",
    "task",
    "taskId",
    "ref",
    "argument",
    "context",
    "level",
    "logger",
    "data",
    "protocolVersion",
    "capabilities",
    "clientInfo",
    "notifications",
    "inputResponses",
    "requestState",
    "requestId",
    "reason",
    "progressToken",
    "progress",
    "total",
    "message",
    "mode",
    "url",
    "elicitationId",
    "requestedSchema",
    "messages",
    "maxTokens",
    "tools",
    "toolChoice",
    "systemPrompt",
];

/// Why a request is refused before anyone acts on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestProblem {
    /// The same key twice.
    #[error("key `{key}` occurs twice in {place}")]
    Twice {
        /// The key.
        key: String,
        /// Where.
        place: &'static str,
    },
    /// `Params`, `NAME` …
    #[error("key `{key}` in {place} differs from `{meant}` only in case")]
    Miscased {
        /// As written.
        key: String,
        /// As the protocol writes it.
        meant: &'static str,
        /// Where.
        place: &'static str,
    },
    /// A NUL character in a key.
    #[error("a key in {place} contains a NUL character")]
    Nul {
        /// Where.
        place: &'static str,
    },
    /// A key that is not Unicode text.
    #[error("a key in {place} is not Unicode text")]
    NotText {
        /// Where.
        place: &'static str,
    },
    /// `params` that are neither object nor absent.
    #[error("params must be an object")]
    ParamsNotAnObject,
}

/// Refuses `params` that two readers could understand differently.
pub fn refuse_ambiguity(params: &Raw) -> Result<(), RequestProblem> {
    if params.kind() != crate::json::Kind::Object {
        return Err(RequestProblem::ParamsNotAnObject);
    }
    let mut arguments = None;
    check_level(params, "params", &PARAMS_KEYS, |key, value| {
        if key == "arguments" {
            arguments = Some(value);
        }
    })?;
    match arguments {
        Some(arguments) => check_level(&arguments, "arguments", &[], |_, _| {}),
        None => Ok(()),
    }
}

/// A key of the envelope that is none of the six, but nearly.
pub(super) fn odd_envelope_key(literal: &[u8]) -> Option<RequestProblem> {
    match scan::decode_string(literal) {
        Some(key) => odd_key(&key, "the message", &ENVELOPE_KEYS).or_else(|| {
            // An escaped spelling of one of the six: this reader would pass over it, another would not.
            ENVELOPE_KEYS
                .contains(&&*key)
                .then(|| RequestProblem::Twice { key: key.into_owned(), place: "the message" })
        }),
        None => Some(RequestProblem::NotText { place: "the message" }),
    }
}

fn check_level(
    object: &Raw,
    place: &'static str,
    protocol_keys: &[&'static str],
    mut found: impl FnMut(&str, Raw),
) -> Result<(), RequestProblem> {
    let mut keys: Vec<Cow<'_, str>> = Vec::new();
    let mut problem = None;
    object.each_member(|name, value| {
        let Some(key) = scan::decode_string(&object.as_bytes()[name]) else {
            problem.get_or_insert(RequestProblem::NotText { place });
            return;
        };
        if problem.is_none() {
            problem = odd_key(&key, place, protocol_keys);
        }
        found(&key, Raw::checked(object.bytes().slice(value)));
        keys.push(key);
    });
    keys.sort_unstable();
    let twice = || keys.windows(2).find(|pair| pair[0] == pair[1]);
    let twice = problem.is_none().then(twice).flatten();
    match (problem, twice) {
        (Some(problem), _) => Err(problem),
        (None, Some(pair)) => Err(RequestProblem::Twice { key: pair[0].clone().into_owned(), place }),
        (None, None) => Ok(()),
    }
}

fn odd_key(key: &str, place: &'static str, protocol_keys: &[&'static str]) -> Option<RequestProblem> {
    if key.contains('\0') {
        return Some(RequestProblem::Nul { place });
    }
    // Most keys differ in length from all of the protocol's; letters outside ASCII have other lengths and are rare.
    let could_be = |known: &str| known.len() == key.len() || !key.is_ascii();
    let meant = protocol_keys.iter().find(|known| could_be(known) && key != **known && same_letters(key, known))?;
    Some(RequestProblem::Miscased { key: key.to_owned(), meant, place })
}

/// Equal when case is folded the way lenient parsers fold it: ASCII, plus the two letters outside it that fold in.
fn same_letters(key: &str, known: &str) -> bool {
    let fold = |letter: char| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(known.chars().map(fold))
}
