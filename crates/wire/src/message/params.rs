//! What is found in `params` while a message is parsed, so that no second scan is needed.

use std::ops::Range;

use super::{
    meta::{self, MetaKeyKinds},
    strict::{Ambiguity, ParamsSummary, RequestProblem},
};
use crate::json::{
    MAX_DEPTH,
    scan::{FoundMember, MemberLevel, Scanner, key_is},
};

/// Result of scanning `params`.
#[derive(Clone, Debug)]
pub(super) struct ParamsScan {
    /// Summary of the params; an error if two parsers could read them differently.
    pub(super) seen: Result<ParamsSummary, RequestProblem>,
    pub(super) meta: Option<MetaSpans>,
}

/// Position of `_meta` in the message, and of its known values.
#[derive(Clone, Debug, Default)]
pub(super) struct MetaSpans {
    pub(super) whole: Range<usize>,
    pub(super) kinds: MetaKeyKinds,
    /// Positions of the values of [`READ`], in that order.
    values: [Option<Range<usize>>; READ.len()],
}

/// Keys of `_meta` that this program reads. All of them belong to one hop.
const READ: [&str; 5] =
    [meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES, meta::CLIENT_INFO, meta::LOG_LEVEL, meta::PROGRESS_TOKEN];

/// The key as usually written, without escapes.
pub(super) const META: &[u8] = b"\"_meta\"";

/// Collects the members found in `params`.
pub(super) struct ParamsScanner<'a> {
    text: &'a [u8],
    ambiguity: Ambiguity<'a>,
    /// The first `_meta`; later ones are ignored.
    meta: MetaSpans,
    meta_is_over: bool,
}

// === impl ParamsScanner ===

impl<'a> ParamsScanner<'a> {
    /// A scan of this text without results yet.
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, ambiguity: Ambiguity::new(text), meta: MetaSpans::default(), meta_is_over: false }
    }

    /// Takes a member of `params`, or of `_meta` or `arguments` in it, which have this order among the nested keys.
    #[inline]
    pub(super) fn take(&mut self, FoundMember { level, key, plain, value }: FoundMember) {
        match level {
            MemberLevel::Innermost(0) if !self.meta_is_over => self.meta.take(self.text, key, value),
            MemberLevel::Innermost(0) => {}
            MemberLevel::Innermost(_) => self.ambiguity.argument(key, plain),
            MemberLevel::Inner(_) | MemberLevel::Outer => {
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
        // If its name has escapes, its members were not reported.
        if !looked_into && self.text[whole.start] == b'{' {
            let at = |span: Range<usize>| whole.start + span.start..whole.start + span.end;
            // The text was scanned before, so this cannot fail.
            let _checked = Scanner::new(&self.text[whole.clone()], MAX_DEPTH)
                .members(|key, value| self.meta.take(self.text, at(key), at(value)));
        }
        self.meta.whole = whole;
    }

    /// Finishes the scan.
    pub(super) fn finish(self) -> ParamsScan {
        ParamsScan { seen: self.ambiguity.finish(), meta: self.meta_is_over.then_some(self.meta) }
    }
}

// === impl MetaSpans ===

impl MetaSpans {
    /// Position of the value of this key, which must be in [`READ`].
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
