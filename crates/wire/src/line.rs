//! Newline-delimited messages over any pair of byte streams, for upstream and downstream.
//!
//! [`LineReader`] returns one message per line, [`LineWriter`] sends one per line. The protocol on top is in [`crate::up`]
//! and [`crate::down`].

mod reader;
mod writer;

pub(crate) use reader::{FramedLine, LineReader};
pub(crate) use writer::LineWriter;

/// A buffer larger than this many bytes is freed after use.
const KEPT_BUFFER: usize = 2 * 1024 * 1024;
