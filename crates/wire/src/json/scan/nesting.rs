//! The brackets that are open: how deep, and which of them are objects.

use super::MAX_DEPTH;

/// The open brackets: one bit each, set for an object.
pub(super) struct Nesting {
    bits: [u64; MAX_DEPTH / 64],
    pub(super) depth: usize,
}

/// What is open innermost.
pub(super) enum Open {
    Object,
    Array,
    Nothing,
}

impl Nesting {
    /// Nothing is open.
    pub(super) fn new() -> Self {
        Self { bits: [0; MAX_DEPTH / 64], depth: 0 }
    }

    /// One more is open.
    pub(super) fn push(&mut self, object: bool) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        self.bits[word] = (self.bits[word] & !(1 << bit)) | (u64::from(object) << bit);
        self.depth += 1;
    }

    /// The innermost.
    pub(super) fn top(&self) -> Open {
        let Some(last) = self.depth.checked_sub(1) else { return Open::Nothing };
        if self.bits[last / 64] >> (last % 64) & 1 == 1 { Open::Object } else { Open::Array }
    }
}
