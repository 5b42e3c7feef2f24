//! Stack of open brackets.

use super::MAX_DEPTH;

/// Open brackets, one bit each: set for an object.
pub(super) struct Nesting {
    bits: [u64; MAX_DEPTH / 64],
    pub(super) depth: usize,
}

/// Innermost open bracket.
pub(super) enum Open {
    Object,
    Array,
    Nothing,
}

impl Nesting {
    /// An empty stack.
    pub(super) fn new() -> Self {
        Self { bits: [0; MAX_DEPTH / 64], depth: 0 }
    }

    /// Adds an open bracket.
    pub(super) fn push(&mut self, object: bool) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        self.bits[word] = (self.bits[word] & !(1 << bit)) | (u64::from(object) << bit);
        self.depth += 1;
    }

    /// The innermost open bracket.
    pub(super) fn top(&self) -> Open {
        let Some(last) = self.depth.checked_sub(1) else { return Open::Nothing };
        if self.bits[last / 64] >> (last % 64) & 1 == 1 { Open::Object } else { Open::Array }
    }
}
