//! Shared code of the fuzz targets: the modules of `toolway-wire` that parse remote input, and the format of an input.
//!
//! The modules are compiled from their sources instead of linking the crate: they need no network, and an instrumented
//! build of the network stack takes minutes. The targets can therefore also use private items.

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

/// One input: `text`, and after the first 0xff byte, which no text contains, the parameters of the target.
///
/// Every message of the corpus is therefore a valid input, without parameters.
pub struct Input<'a> {
    /// Input of the code under test.
    pub text: &'a [u8],
    parameters: &'a [u8],
}

impl<'a> Input<'a> {
    /// Splits an input into text and parameters.
    pub fn new(data: &'a [u8]) -> Self {
        match data.iter().position(|byte| *byte == 0xff) {
            Some(at) => Self { text: &data[..at], parameters: &data[at + 1..] },
            None => Self { text: data, parameters: &[] },
        }
    }

    /// Returns the next parameter, or a default after the last one.
    pub fn parameter(&mut self, otherwise: u8) -> usize {
        match self.parameters.split_first() {
            Some((parameter, rest)) => {
                self.parameters = rest;
                usize::from(*parameter)
            }
            None => usize::from(otherwise),
        }
    }

    /// Splits `text` in three ways: whole, into single bytes, and by the remaining parameters.
    pub fn cuts(&self) -> [Vec<Bytes>; 3] {
        [cut(self.text, &[]), cut(self.text, &[1]), cut(self.text, self.parameters)]
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
