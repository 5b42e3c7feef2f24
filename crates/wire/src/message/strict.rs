//! What a request must not contain: anything two readers could understand differently.
//!
//! A key twice, a key that differs from the protocol's only in case, a key with NUL: parsers disagree about each,
//! so that a policy would judge one value and the server act on another (CVE-2026-27896, GO-2026-4770). Checked at
//! the top level, directly in `params`, and, for duplicates, in `arguments`; never deeper, where keys are data.

use std::{borrow::Cow, ops::Range};

use crate::json::{
    MAX_DEPTH, Raw,
    scan::{self, Found, Level, Opened, Scanner},
};

/// Keys of an object up to which each is compared with those before it; with more, they are sorted.
const FEW: usize = 8;

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

/// What was seen of `params` on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Whether there is a `task`: the caller would rather have one than wait.
    pub task: bool,
    /// Whether there is a `_meta`.
    pub meta: bool,
    /// Whether there are answers to questions, or a handle that they belong to.
    pub answers: bool,
}

/// Refuses `params` that two readers could understand differently.
pub fn refuse_ambiguity(params: &Raw) -> Result<Seen, RequestProblem> {
    if params.kind() != crate::json::Kind::Object {
        return Err(RequestProblem::ParamsNotAnObject);
    }
    let text = params.as_bytes();
    let mut ambiguity = Ambiguity::new(text);
    // The text was checked when this value was made, so nothing can fail here.
    let _checked =
        Scanner::new(text, MAX_DEPTH).members_with(&[Opened(ARGUMENTS, &[])], |Found { level, key, plain, value }| {
            match level {
                Level::Outer => ambiguity.param(key, plain, value),
                Level::Inner(_) | Level::Innermost(_) => ambiguity.argument(key, plain),
            }
        });
    ambiguity.verdict()
}

/// The key whose value is looked into, as nearly everybody writes it.
pub(super) const ARGUMENTS: &[u8] = b"\"arguments\"";

/// The keys of `params` and of the `arguments` in it, looked at as they are found.
pub(super) struct Ambiguity<'a> {
    /// Where they stand.
    text: &'a [u8],
    own: Keys<'a>,
    of_arguments: Keys<'a>,
    seen: Seen,
    /// `arguments` with escapes in its name are arguments all the same, and nobody has looked into them yet.
    escaped: Option<Range<usize>>,
}

impl<'a> Ambiguity<'a> {
    /// Nothing was found in this text yet.
    pub(super) fn new(text: &'a [u8]) -> Self {
        let (own, of_arguments) = (Keys::new("params"), Keys::new("arguments"));
        Self { text, own, of_arguments, seen: Seen::default(), escaped: None }
    }

    /// A member of `params`.
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

    /// A member of `arguments`.
    #[inline]
    pub(super) fn argument(&mut self, key: Range<usize>, plain: bool) {
        self.of_arguments.add(&self.text[key], plain, &[]);
    }

    /// What comes of all of them.
    pub(super) fn verdict(mut self) -> Result<Seen, RequestProblem> {
        if let Some(inner) = self.escaped.map(|span| &self.text[span]).filter(|inner| inner.starts_with(b"{")) {
            // The text has been crossed, so nothing can fail here.
            let _checked = Scanner::new(inner, MAX_DEPTH).members(|name, _| {
                self.of_arguments.add(&inner[name], false, &[]);
            });
        }
        self.own.verdict()?;
        self.of_arguments.verdict()?;
        Ok(self.seen)
    }
}

/// A key of the envelope that is none of the six, but nearly.
pub(super) fn odd_envelope_key(literal: &[u8]) -> Option<RequestProblem> {
    const PLACE: &str = "the message";
    match Key::read(literal) {
        Some(key) => key.problem(PLACE, &ENVELOPE_KEYS).or_else(|| {
            // An escaped spelling of one of the six: this reader would pass over it, another would not.
            let known = ENVELOPE_KEYS.iter().any(|known| known.as_bytes() == &*key.0);
            known.then(|| RequestProblem::Twice { key: key.text(), place: PLACE })
        }),
        None => Some(RequestProblem::NotText { place: PLACE }),
    }
}

/// The keys of one object, as far as they have been read.
struct Keys<'a> {
    place: &'static str,
    /// The first few, where none of them has escapes: nearly always all of them.
    few: [&'a [u8]; FEW],
    count: usize,
    /// All others.
    more: Vec<Key<'a>>,
    problem: Option<RequestProblem>,
}

impl<'a> Keys<'a> {
    fn new(place: &'static str) -> Self {
        Self { place, few: [&[]; FEW], count: 0, more: Vec::new(), problem: None }
    }

    /// Takes a key, quotes included, and whether it is `plain`: without escapes. Gives it as it reads.
    #[inline]
    fn add(&mut self, literal: &'a [u8], plain: bool, protocol_keys: &[&'static str]) -> Option<&[u8]> {
        if plain
            && (protocol_keys.is_empty() || is_usual(literal))
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

    fn verdict(&mut self) -> Result<(), RequestProblem> {
        let place = self.place;
        match (self.problem.take(), self.repeated()) {
            (Some(problem), _) => Err(problem),
            (None, Some(key)) => Err(RequestProblem::Twice { key, place }),
            (None, None) => Ok(()),
        }
    }

    /// A key that occurs twice.
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

/// A key as it reads, escapes resolved; bytes, because most are only compared.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a>(Cow<'a, [u8]>);

impl<'a> Key<'a> {
    /// The key of a literal (quotes included); `None` when it is not Unicode text.
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
        // In a literal NUL can only be an escape, so that a key without any has none.
        if matches!(self.0, Cow::Owned(_)) && self.0.contains(&0) {
            return Some(RequestProblem::Nul { place });
        }
        if protocol_keys.is_empty() {
            return None;
        }
        // Most keys differ from all of the protocol's in length or at once; those with letters outside ASCII may fold
        // to another length, and are rare.
        let (ascii, first) = (self.0.is_ascii(), initial(&self.0));
        let could_be = |known: &str| !ascii || (known.len() == self.0.len() && initial(known.as_bytes()) == first);
        let differs = |known: &&&str| could_be(known) && known.as_bytes() != &*self.0;
        let meant = protocol_keys.iter().filter(differs).find(|known| same_letters(&self.text(), known))?;
        Some(RequestProblem::Miscased { key: self.text(), meant, place })
    }

    fn text(&self) -> String {
        text(&self.0)
    }
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

/// Nearly every key that is a protocol's; quotes included.
#[inline]
fn is_usual(literal: &[u8]) -> bool {
    matches!(literal, b"\"name\"" | b"\"arguments\"" | b"\"uri\"" | b"\"_meta\"")
}

/// The first byte, whatever its case.
fn initial(key: &[u8]) -> Option<u8> {
    key.first().map(u8::to_ascii_lowercase)
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
