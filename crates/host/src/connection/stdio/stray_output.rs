//! Finds non-MCP text that a program prints on stdout, before its first message or between messages: a banner, a log line,
//! an error.
//!
//! Only the first such line is kept, and scanning stops there. Lines that could be messages are skipped.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, ReadBuf};
use toolway_wire::up::stdio::ReadStream;

use crate::connection::stderr_tail::StderrTail;

/// Bytes kept of the line.
const KEPT: usize = 80;

/// The stdout of a process, scanned until its first stray line.
struct ScannedOutput {
    inner: ReadStream,
    stderr_tail: StderrTail,
    state: ScanState,
}

/// State of the scan.
enum ScanState {
    /// At the beginning of a line.
    Beginning,
    /// In a line that could be a message.
    Message,
    /// In the line that is kept.
    Stray(Vec<u8>),
    /// The scan is finished.
    Done,
}

/// Wraps a stdout stream so that its first stray line is recorded in `stderr_tail`.
pub(super) fn scan(inner: ReadStream, stderr_tail: StderrTail) -> ReadStream {
    Box::new(ScannedOutput { inner, stderr_tail, state: ScanState::Beginning })
}

impl AsyncRead for ScannedOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if !matches!(self.state, ScanState::Done) {
            let Self { state, stderr_tail, .. } = &mut *self;
            if let Some(stray) = state.scan(&buffer.filled()[before..]) {
                stderr_tail.set_stray(stray);
            }
        }
        read
    }
}

impl ScanState {
    /// Processes bytes; returns the stray line so far, if they belong to one.
    fn scan(&mut self, mut bytes: &[u8]) -> Option<String> {
        while let Some((&byte, rest)) = bytes.split_first() {
            bytes = rest;
            match self {
                Self::Beginning if byte.is_ascii_whitespace() => {}
                Self::Beginning if matches!(byte, b'{' | b'[') => *self = Self::Message,
                Self::Beginning => *self = Self::Stray(vec![byte]),
                Self::Stray(kept) if byte != b'\n' && kept.len() < KEPT => kept.push(byte),
                Self::Stray(kept) => {
                    let kept = escaped(kept);
                    *self = Self::Done;
                    return Some(kept);
                }
                Self::Message if byte == b'\n' => *self = Self::Beginning,
                Self::Message => match memchr::memchr(b'\n', bytes) {
                    Some(end) => {
                        bytes = &bytes[end + 1..];
                        *self = Self::Beginning;
                    }
                    None => return None,
                },
                Self::Done => return None,
            }
        }
        match self {
            Self::Stray(kept) => Some(escaped(kept)),
            Self::Beginning | Self::Message | Self::Done => None,
        }
    }
}

fn escaped(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::{KEPT, ScanState};

    fn stray(chunks: &[&[u8]]) -> Option<String> {
        let mut state = ScanState::Beginning;
        chunks.iter().fold(None, |before, chunk| state.scan(chunk).or(before))
    }

    #[test]
    fn the_first_text_beside_messages_is_stray_and_it_is_escaped() {
        assert_eq!(stray(&[b"\n {\"jsonrpc\"", b":1}\n{}\n", b"{", b"\n"]), None);
        assert_eq!(stray(&[b"\n {\"jsonrpc\"", b":1}\nhello\n"]).as_deref(), Some("hello"));
        assert_eq!(stray(&[b"{}\n[1]", b"\n{", b"}\nlo", b"g\nmore\n"]).as_deref(), Some("log"));
        assert_eq!(stray(&[b"Listening", b" on 3000\r\n{}\n", b"more\n"]).as_deref(), Some("Listening on 3000"));
        assert_eq!(stray(&[b"\x1b[2J\xff"]).as_deref(), Some("\\u{1b}[2J\u{fffd}"));
        assert_eq!(stray(&[&[b'x'; 500]]).unwrap().len(), KEPT);
    }
}
