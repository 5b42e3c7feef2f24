//! Refuses requests that two parsers could read differently.
//!
//! Parsers disagree about duplicate keys, keys that differ from the protocol's only in case, and keys with NUL, so that
//! policy could judge one value and the server act on another (CVE-2026-27896, GO-2026-4770). Checked at the top level,
//! directly in `params`, and, for duplicates, in `arguments`; never deeper, where keys are data.

use std::{borrow::Cow, ops::Range};

use crate::json::{
    MAX_DEPTH, Raw,
    scan::{self, FoundMember, MemberLevel, NestedKey, Scanner},
};

/// Up to this many keys are compared pairwise; more are sorted.
const FEW: usize = 8;

/// Keys of a message.
const ENVELOPE_KEYS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// Keys that the protocol defines directly in `params`, in any revision.
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

/// Reason why a request is ambiguous.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestProblem {
    /// A duplicate key.
    #[error("duplicate key `{key}` in {place}")]
    Duplicate {
        /// The duplicate key.
        key: String,
        /// Object that contains the key.
        place: &'static str,
    },
    /// Wrong case, such as `Params` or `NAME`.
    #[error("key `{key}` in {place} differs from `{meant}` only in case")]
    Miscased {
        /// The key in the request.
        key: String,
        /// The key of the protocol.
        meant: &'static str,
        /// Object that contains the key.
        place: &'static str,
    },
    /// A NUL character in a key.
    #[error("a key in {place} contains a NUL character")]
    Nul {
        /// Object that contains the key.
        place: &'static str,
    },
    /// A key that is not Unicode text.
    #[error("a key in {place} is not Unicode text")]
    NotText {
        /// Object that contains the key.
        place: &'static str,
    },
    /// `params` that are neither object nor absent.
    #[error("`params` must be an object")]
    ParamsNotAnObject,
}

/// What `params` contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParamsSummary {
    /// Whether there is a `task`: the client prefers a task.
    pub task: bool,
    /// Whether there is a `_meta`.
    pub meta: bool,
    /// Whether there are answers to server requests, or a `requestState`.
    pub answers: bool,
}

/// Refuses `params` that two parsers could read differently.
pub fn refuse_ambiguity(params: &Raw) -> Result<ParamsSummary, RequestProblem> {
    if params.kind() != crate::json::JsonKind::Object {
        return Err(RequestProblem::ParamsNotAnObject);
    }
    let text = params.as_bytes();
    let mut ambiguity = Ambiguity::new(text);
    // The text was checked when this value was created, so this cannot fail.
    let _checked = Scanner::new(text, MAX_DEPTH).members_with(
        &[NestedKey(ARGUMENTS, &[])],
        |FoundMember { level, key, plain, value }| match level {
            MemberLevel::Outer => ambiguity.param(key, plain, value),
            MemberLevel::Inner(_) | MemberLevel::Innermost(_) => ambiguity.argument(key, plain),
        },
    );
    ambiguity.finish()
}

/// The key whose members are checked, as usually written.
pub(super) const ARGUMENTS: &[u8] = b"\"arguments\"";

/// Checks the keys of `params` and of its `arguments` as they are found.
pub(super) struct Ambiguity<'a> {
    /// The scanned text.
    text: &'a [u8],
    own: Keys<'a>,
    of_arguments: Keys<'a>,
    seen: ParamsSummary,
    /// Position of `arguments` whose name has escapes; its members were not reported and are checked at the end.
    escaped: Option<Range<usize>>,
}

impl<'a> Ambiguity<'a> {
    /// A check of this text without keys yet.
    pub(super) fn new(text: &'a [u8]) -> Self {
        let (own, of_arguments) = (Keys::new("params"), Keys::new("arguments"));
        Self { text, own, of_arguments, seen: ParamsSummary::default(), escaped: None }
    }

    /// Takes a member of `params`.
    #[inline]
    pub(super) fn param(&mut self, key: Range<usize>, plain: bool, value: Range<usize>) {
        let (literal, seen) = (&self.text[key], &mut self.seen);
        match self.own.add(literal, plain, &PARAMS_KEYS) {
            Some(b"task") => seen.task = true,
            Some(b"_meta") => seen.meta = true,
            Some(b"inputResponses" | b"requestState") => seen.answers = true,
            Some(b"arguments") if literal != ARGUMENTS => self.escaped = Some(value),
            _ => {}
        }
    }

    /// Takes a member of `arguments`.
    #[inline]
    pub(super) fn argument(&mut self, key: Range<usize>, plain: bool) {
        self.of_arguments.add(&self.text[key], plain, &[]);
    }

    /// Finishes the check.
    pub(super) fn finish(mut self) -> Result<ParamsSummary, RequestProblem> {
        if let Some(inner) = self.escaped.map(|span| &self.text[span]).filter(|inner| inner.starts_with(b"{")) {
            // The text was scanned before, so this cannot fail.
            let _checked = Scanner::new(inner, MAX_DEPTH).members(|name, _| {
                self.of_arguments.add(&inner[name], false, &[]);
            });
        }
        self.own.finish()?;
        self.of_arguments.finish()?;
        Ok(self.seen)
    }
}

/// Problem of an unknown envelope key: nearly one of the six.
pub(super) fn odd_envelope_key(literal: &[u8]) -> Option<RequestProblem> {
    const PLACE: &str = "the message";
    match Key::read(literal) {
        Some(key) => key.problem(PLACE, &ENVELOPE_KEYS).or_else(|| {
            // An escaped spelling of one of the six: this parser would ignore it, another would not.
            let known = ENVELOPE_KEYS.iter().any(|known| known.as_bytes() == &*key.0);
            known.then(|| RequestProblem::Duplicate { key: key.text(), place: PLACE })
        }),
        None => Some(RequestProblem::NotText { place: PLACE }),
    }
}

/// Keys of one object, as far as read.
struct Keys<'a> {
    place: &'static str,
    /// The first keys, as long as they have no escapes; usually all of them.
    few: [&'a [u8]; FEW],
    count: usize,
    /// All further keys.
    more: Vec<Key<'a>>,
    problem: Option<RequestProblem>,
}

impl<'a> Keys<'a> {
    fn new(place: &'static str) -> Self {
        Self { place, few: [&[]; FEW], count: 0, more: Vec::new(), problem: None }
    }

    /// Adds a key literal (quotes included); `plain`: it has no escapes. Returns the decoded key.
    #[inline]
    fn add(&mut self, literal: &'a [u8], plain: bool, protocol_keys: &[&'static str]) -> Option<&[u8]> {
        if plain
            && (protocol_keys.is_empty() || is_common(literal))
            && let Some(slot) = self.few.get_mut(self.count)
        {
            self.count += 1;
            *slot = literal.get(1..literal.len() - 1).unwrap_or_default();
            return Some(slot);
        }
        let Some(key) = Key::read(literal) else {
            self.problem.get_or_insert(RequestProblem::NotText { place: self.place });
            return None;
        };
        if self.problem.is_none() {
            self.problem = key.problem(self.place, protocol_keys);
        }
        if let (Cow::Borrowed(key), Some(slot)) = (&key.0, self.few.get_mut(self.count)) {
            self.count += 1;
            *slot = key;
            return Some(slot);
        }
        self.more.push(key);
        self.more.last().map(|key| &*key.0)
    }

    fn finish(&mut self) -> Result<(), RequestProblem> {
        let place = self.place;
        match (self.problem.take(), self.repeated()) {
            (Some(problem), _) => Err(problem),
            (None, Some(key)) => Err(RequestProblem::Duplicate { key, place }),
            (None, None) => Ok(()),
        }
    }

    /// A duplicate key, if any.
    fn repeated(&mut self) -> Option<String> {
        let few = &self.few[..self.count];
        if self.more.is_empty() {
            return few.iter().enumerate().find(|(index, key)| few[..*index].contains(key)).map(|(_, key)| text(key));
        }
        self.more.extend(few.iter().map(|key| Key::plain(key)));
        self.more.sort_unstable();
        self.more.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| text(&pair[0].0))
    }
}

/// A decoded key, as bytes because most are only compared.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a>(Cow<'a, [u8]>);

impl<'a> Key<'a> {
    /// Decodes a literal (quotes included); `None` if it is not Unicode text.
    fn read(literal: &'a [u8]) -> Option<Self> {
        let inside = literal.get(1..literal.len().checked_sub(1)?)?;
        if !inside.contains(&b'\\') {
            return Some(Self::plain(inside));
        }
        scan::decode_string(literal).map(|key| Self(Cow::Owned(key.into_owned().into_bytes())))
    }

    /// A key without escapes.
    fn plain(key: &'a [u8]) -> Self {
        Self(Cow::Borrowed(key))
    }

    fn problem(&self, place: &'static str, protocol_keys: &[&'static str]) -> Option<RequestProblem> {
        // NUL can only be an escape, so a key without escapes has none.
        if matches!(self.0, Cow::Owned(_)) && self.0.contains(&0) {
            return Some(RequestProblem::Nul { place });
        }
        if protocol_keys.is_empty() {
            return None;
        }
        // Most keys differ from those of the protocol in length or first letter. Letters outside ASCII may fold to another
        // length and are rare.
        let (ascii, first) = (self.0.is_ascii(), initial(&self.0));
        let could_be = |known: &str| !ascii || (known.len() == self.0.len() && initial(known.as_bytes()) == first);
        let differs = |known: &&&str| could_be(known) && known.as_bytes() != &*self.0;
        let meant = protocol_keys.iter().filter(differs).find(|known| equal_ignoring_case(&self.text(), known))?;
        Some(RequestProblem::Miscased { key: self.text(), meant, place })
    }

    fn text(&self) -> String {
        text(&self.0)
    }
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

/// The most frequent protocol keys, quotes included.
#[inline]
fn is_common(literal: &[u8]) -> bool {
    matches!(literal, b"\"name\"" | b"\"arguments\"" | b"\"uri\"" | b"\"_meta\"")
}

/// The first byte in lower case.
fn initial(key: &[u8]) -> Option<u8> {
    key.first().map(u8::to_ascii_lowercase)
}

/// Equal after case folding as lenient parsers do it: ASCII, plus two other letters that fold to ASCII.
fn equal_ignoring_case(key: &str, known: &str) -> bool {
    let fold = |letter: char| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(known.chars().map(fold))
}
