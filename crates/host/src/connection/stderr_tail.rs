//! The end of the stderr output of a server process, in bounded memory.
//!
//! The stream is read as fast as it comes, so that a server never blocks on stderr; old lines make room for new ones.
//! [`super::stdio`] owns the stream.

use std::{collections::VecDeque, fmt, sync::Arc};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::keeper::ProcessExit;

/// Recent stderr output of one server. Clones share their content.
#[derive(Clone, Default)]
pub struct StderrTail {
    // Nothing awaits under this lock.
    ring: Arc<Mutex<Ring>>,
}

#[derive(Default)]
struct Ring {
    lines: VecDeque<String>,
    /// Bytes in `lines`.
    kept: usize,
    /// The incomplete last line, up to [`LINE_BYTES`].
    unfinished: Vec<u8>,
    /// Non-MCP text on stdout before the first message, escaped.
    stray: Option<String>,
    /// How the process ended, once it has.
    ended: Option<ProcessExit>,
}

/// Bytes kept per server: some hundred lines, enough for a stack trace.
pub const KEPT_BYTES: usize = 64 * 1024;
/// Bytes kept per line.
pub const LINE_BYTES: usize = 4 * 1024;
/// Lines quoted in an error message.
const QUOTED_LINES: usize = 5;
/// Characters quoted in an error message.
const QUOTED_CHARS: usize = 600;
/// Bytes read at a time.
const CHUNK: usize = 8 * 1024;

// === impl StderrTail ===

impl StderrTail {
    /// All kept lines, oldest first, without control characters.
    pub fn lines(&self) -> Vec<String> {
        let ring = self.ring.lock();
        let unfinished = (!ring.unfinished.is_empty()).then(|| readable(&ring.unfinished));
        ring.lines.iter().cloned().chain(unfinished).collect()
    }

    /// The last few lines in one, for an error message; `None` if there is no output.
    pub fn quote(&self) -> Option<String> {
        let lines = self.lines();
        let filled: Vec<&str> = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
        let quoted = filled[filled.len().saturating_sub(QUOTED_LINES)..].join(" / ");
        // The error is usually at the end.
        let surplus = quoted.chars().count().saturating_sub(QUOTED_CHARS);
        let end: String = quoted.chars().skip(surplus).collect();
        match (end.is_empty(), surplus) {
            (true, _) => None,
            (false, 0) => Some(end),
            (false, _) => Some(format!("…{end}")),
        }
    }

    /// The first non-MCP text on stdout, escaped; `None` without one.
    pub fn stray(&self) -> Option<String> {
        self.ring.lock().stray.clone()
    }

    /// How the process ended; `None` while it runs or if it is unknown.
    pub fn ended(&self) -> Option<ProcessExit> {
        self.ring.lock().ended
    }

    /// Records how the process ended.
    pub(super) fn set_exit(&self, how: ProcessExit) {
        self.ring.lock().ended = Some(how);
    }

    /// Records non-MCP text on stdout.
    pub(super) fn set_stray(&self, text: String) {
        self.ring.lock().stray = Some(text);
    }

    /// Forgets the output of the previous process.
    pub(super) fn forget(&self) {
        *self.ring.lock() = Ring::default();
    }

    /// Reads a stream to its end.
    pub(super) async fn read(self, mut stream: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; CHUNK];
        // A read error ends the stream.
        while let Ok(length @ 1..) = stream.read(&mut chunk).await {
            self.ring.lock().push(&chunk[..length]);
        }
        self.ring.lock().finish_line();
    }
}

impl fmt::Debug for StderrTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StderrTail")
    }
}

// === impl Ring ===

impl Ring {
    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ended) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let room = LINE_BYTES.saturating_sub(self.unfinished.len()).min(text.len());
            self.unfinished.extend_from_slice(&text[..room]);
            if ended {
                self.finish_line();
            }
        }
    }

    fn finish_line(&mut self) {
        let line = readable(&std::mem::take(&mut self.unfinished));
        if line.is_empty() {
            return;
        }
        self.kept += line.len();
        self.lines.push_back(line);
        while KEPT_BYTES < self.kept {
            self.kept -= self.lines.pop_front().map_or(self.kept, |line| line.len());
        }
    }
}

/// Text without control characters, which could control a terminal.
fn readable(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().filter(|char| !char.is_control() || *char == '\t').collect()
}

#[cfg(test)]
mod tests {
    use super::{KEPT_BYTES, LINE_BYTES, StderrTail};

    async fn tail_of(output: &[u8]) -> StderrTail {
        let tail = StderrTail::default();
        tail.clone().read(output).await;
        tail
    }

    #[tokio::test]
    async fn lines_are_kept_without_control_characters() {
        let tail = tail_of(b"one\r\n\n\x1b[31mtwo\x1b[0m\xff\nunfinished").await;
        assert_eq!(tail.lines(), ["one", "[31mtwo[0m\u{fffd}", "unfinished"]);
        assert_eq!(tail.quote().unwrap(), "one / [31mtwo[0m\u{fffd} / unfinished");
        assert_eq!(tail_of(b"\n \n").await.quote(), None);
    }

    #[tokio::test]
    async fn long_output_keeps_its_end() {
        let flood: String = (0..100_000).map(|number| format!("line {number}\n")).collect();
        let tail = tail_of(flood.as_bytes()).await;
        let lines = tail.lines();
        assert!(lines.iter().map(String::len).sum::<usize>() <= KEPT_BYTES);
        assert_eq!(lines.last().unwrap(), "line 99999");
        assert!(1_000 < lines.len());
        assert_eq!(tail.quote().unwrap(), "line 99995 / line 99996 / line 99997 / line 99998 / line 99999");
    }

    #[tokio::test]
    async fn long_line_is_cut_and_long_quote_keeps_its_end() {
        let tail = tail_of(&[b'x'; 1_000_000]).await;
        assert_eq!(tail.lines(), ["x".repeat(LINE_BYTES)]);
        assert!(tail.quote().unwrap().starts_with("…xxx"));
        tail.forget();
        assert!(tail.lines().is_empty());
    }
}
