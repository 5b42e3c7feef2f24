//! What was seen inside `params` while their message was read, so that nobody has to look for it again.

use std::ops::Range;

use super::{
    meta::{self, Kinds},
    strict::{Ambiguity, RequestProblem, Seen},
};
use crate::json::{
    MAX_DEPTH,
    scan::{Found, Level, Scanner, key_is},
};

/// What was seen inside `params`.
#[derive(Clone, Debug)]
pub(super) struct Inside {
    /// What is in them, unless two readers could understand them differently.
    pub(super) seen: Result<Seen, RequestProblem>,
    pub(super) meta: Option<Meta>,
}

/// `_meta`: where it stands in the message, and what it says.
#[derive(Clone, Debug, Default)]
pub(super) struct Meta {
    pub(super) whole: Range<usize>,
    pub(super) kinds: Kinds,
    /// The values of [`READ`], in that order.
    values: [Option<Range<usize>>; READ.len()],
}

/// The keys of `_meta` that somebody reads. All of them belong to one hop.
const READ: [&str; 5] =
    [meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES, meta::CLIENT_INFO, meta::LOG_LEVEL, meta::PROGRESS_TOKEN];

/// As nearly everybody writes it.
pub(super) const META: &[u8] = b"\"_meta\"";

/// Takes what is found inside `params`, member by member.
pub(super) struct Looking<'a> {
    text: &'a [u8],
    ambiguity: Ambiguity<'a>,
    /// The one that is being read, or was: the first.
    meta: Meta,
    meta_is_over: bool,
}

// === impl Looking ===

impl<'a> Looking<'a> {
    /// Nothing was found in this text yet.
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, ambiguity: Ambiguity::new(text), meta: Meta::default(), meta_is_over: false }
    }

    /// A member of `params`, or of `_meta` or `arguments` inside it, which stand in this order among the opened keys.
    #[inline]
    pub(super) fn take(&mut self, Found { level, key, plain, value }: Found) {
        match level {
            Level::Innermost(0) if !self.meta_is_over => self.meta.take(self.text, key, value),
            Level::Innermost(0) => {}
            Level::Innermost(_) => self.ambiguity.argument(key, plain),
            Level::Inner(_) | Level::Outer => {
                let literal = &self.text[key.clone()];
                if !self.meta_is_over && (literal == META || !plain && key_is(literal, "_meta")) {
                    self.meta_ends(literal == META, value.clone());
                }
                self.ambiguity.param(key, plain, value);
            }
        }
    }

    fn meta_ends(&mut self, looked_into: bool, whole: Range<usize>) {
        self.meta_is_over = true;
        // With escapes in its name it was not known for what it is before its end.
        if !looked_into && self.text[whole.start] == b'{' {
            let at = |span: Range<usize>| whole.start + span.start..whole.start + span.end;
            // The text has been crossed, so nothing can fail here.
            let _checked = Scanner::new(&self.text[whole.clone()], MAX_DEPTH)
                .members(|key, value| self.meta.take(self.text, at(key), at(value)));
        }
        self.meta.whole = whole;
    }

    /// What comes of all of it.
    pub(super) fn seen(self) -> Inside {
        Inside { seen: self.ambiguity.verdict(), meta: self.meta_is_over.then_some(self.meta) }
    }
}

// === impl Meta ===

impl Meta {
    /// Where the value of this key stands; only of those in [`READ`].
    pub(super) fn value(&self, key: &str) -> Option<Range<usize>> {
        let place = READ.iter().position(|read| *read == key)?;
        self.values.get(place)?.clone()
    }

    fn take(&mut self, text: &[u8], key: Range<usize>, value: Range<usize>) {
        let literal = &text[key];
        if !self.kinds.take(literal) {
            return;
        }
        let place = READ.iter().position(|read| key_is(literal, read));
        if let Some(slot) = place.and_then(|place| self.values.get_mut(place)) {
            slot.get_or_insert(value);
        }
    }
}
