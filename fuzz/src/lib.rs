//! What the targets are made of: the modules of `toolway-wire` that read strangers' bytes, and how an input is read.
//!
//! The modules are compiled here from their sources rather than taken from the crate: they need no network, and an
//! instrumented build of everything that does takes minutes. So the targets also see what the crate keeps to itself.

#[path = "../../crates/wire/src"]
mod wire {
    pub mod error;
    pub mod header;
    pub mod json;
    pub mod limit;
    pub mod line;
    pub mod message;
    pub mod pieces;
    pub mod revision;
    pub mod sse;
}

pub mod private;

use bytes::Bytes;

pub use wire::{error, header, json, limit, message, revision, sse};
pub(crate) use wire::{line, pieces};

/// One input: `text`, and after the first byte that no text contains, the knobs.
///
/// So every message of the corpus is an input as it stands, without knobs.
pub struct Input<'a> {
    /// What a stranger sends.
    pub text: &'a [u8],
    knobs: &'a [u8],
}

impl<'a> Input<'a> {
    /// Takes an input apart.
    pub fn new(data: &'a [u8]) -> Self {
        match data.iter().position(|byte| *byte == 0xff) {
            Some(at) => Self { text: &data[..at], knobs: &data[at + 1..] },
            None => Self { text: data, knobs: &[] },
        }
    }

    /// The next knob, or what stands in for it when there are no more.
    pub fn knob(&mut self, otherwise: u8) -> usize {
        match self.knobs.split_first() {
            Some((knob, rest)) => {
                self.knobs = rest;
                usize::from(*knob)
            }
            None => usize::from(otherwise),
        }
    }

    /// Ways to cut `text`: whole, into single bytes, and as the remaining knobs say.
    pub fn cuts(&self) -> [Vec<Bytes>; 3] {
        [cut(self.text, &[]), cut(self.text, &[1]), cut(self.text, self.knobs)]
    }
}

fn cut(text: &[u8], sizes: &[u8]) -> Vec<Bytes> {
    let mut text = Bytes::copy_from_slice(text);
    let mut sizes = sizes.iter().map(|size| usize::from(*size).max(1)).cycle();
    let mut chunks = Vec::new();
    while !text.is_empty() {
        let size = sizes.next().unwrap_or(text.len()).min(text.len());
        chunks.push(text.split_to(size));
    }
    chunks
}
