//! What a server's process said on its standard error: the end of it, in bounded memory.
//!
//! The stream is read as fast as it comes, so that a talkative server never waits for us; what does not fit makes
//! room for what is newer. Whose stream it is, and when it ends, is known in [`super::stdio`].

use std::{collections::VecDeque, fmt, sync::Arc};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::keeper::HowEnded;

/// What was said last. Cloning is cheap; every clone hears the same server.
#[derive(Clone, Default)]
pub struct LastWords {
    // Nothing awaits under this lock.
    ring: Arc<Mutex<Ring>>,
}

#[derive(Default)]
struct Ring {
    lines: VecDeque<String>,
    /// Bytes in `lines`.
    kept: usize,
    /// The line being said, as far as it is kept.
    unfinished: Vec<u8>,
    /// What stood on its standard output before any message, escaped.
    stray: Option<String>,
    /// How the process ended, once it has.
    ended: Option<HowEnded>,
}

/// Bytes kept of one server: some hundred lines, enough for any stack trace.
pub const KEPT_BYTES: usize = 64 * 1024;
/// Of one line no more is kept; a program that never ends its line is not writing for readers.
pub const LINE_BYTES: usize = 4 * 1024;
/// Lines that a sentence quotes.
const QUOTED_LINES: usize = 5;
/// Letters that a sentence quotes.
const QUOTED_LETTERS: usize = 600;
/// Bytes read at a time.
const CHUNK: usize = 8 * 1024;

// === impl LastWords ===

impl LastWords {
    /// All lines that are kept, oldest first, without control characters.
    pub fn lines(&self) -> Vec<String> {
        let ring = self.ring.lock();
        let unfinished = (!ring.unfinished.is_empty()).then(|| readable(&ring.unfinished));
        ring.lines.iter().cloned().chain(unfinished).collect()
    }

    /// The last few lines as one, for a sentence; `None` when nothing was said.
    pub fn quote(&self) -> Option<String> {
        let lines = self.lines();
        let spoken: Vec<&str> = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
        let quoted = spoken[spoken.len().saturating_sub(QUOTED_LINES)..].join(" / ");
        // The end says what went wrong.
        let surplus = quoted.chars().count().saturating_sub(QUOTED_LETTERS);
        let end: String = quoted.chars().skip(surplus).collect();
        match (end.is_empty(), surplus) {
            (true, _) => None,
            (false, 0) => Some(end),
            (false, _) => Some(format!("…{end}")),
        }
    }

    /// The first thing on its standard output that is no message, escaped; `None` where there is none.
    pub fn stray(&self) -> Option<String> {
        self.ring.lock().stray.clone()
    }

    /// How the process ended; `None` while it runs, or where nobody knows.
    pub fn ended(&self) -> Option<HowEnded> {
        self.ring.lock().ended
    }

    /// The process ended.
    pub(super) fn note_end(&self, how: HowEnded) {
        self.ring.lock().ended = Some(how);
    }

    /// Something stands on its standard output that is no message.
    pub(super) fn note_stray(&self, said: String) {
        self.ring.lock().stray = Some(said);
    }

    /// A new process begins: what the one before it said is over.
    pub(super) fn forget(&self) {
        *self.ring.lock() = Ring::default();
    }

    /// Hears a stream to its end.
    pub(super) async fn hear(self, mut stream: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; CHUNK];
        // A stream that breaks has said what it had to say.
        while let Ok(length @ 1..) = stream.read(&mut chunk).await {
            self.ring.lock().push(&chunk[..length]);
        }
        self.ring.lock().finish_line();
    }
}

impl fmt::Debug for LastWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LastWords")
    }
}

// === impl Ring ===

impl Ring {
    fn push(&mut self, said: &[u8]) {
        for piece in said.split_inclusive(|byte| *byte == b'\n') {
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

/// Text without what would move somebody's cursor.
fn readable(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().filter(|letter| !letter.is_control() || *letter == '\t').collect()
}

#[cfg(test)]
mod tests {
    use super::{KEPT_BYTES, LINE_BYTES, LastWords};

    async fn heard(said: &[u8]) -> LastWords {
        let words = LastWords::default();
        words.clone().hear(said).await;
        words
    }

    #[tokio::test]
    async fn lines_are_kept_as_a_person_reads_them() {
        let words = heard(b"one\r\n\n\x1b[31mtwo\x1b[0m\xff\nunfinished").await;
        assert_eq!(words.lines(), ["one", "[31mtwo[0m\u{fffd}", "unfinished"]);
        assert_eq!(words.quote().unwrap(), "one / [31mtwo[0m\u{fffd} / unfinished");
        assert_eq!(heard(b"\n \n").await.quote(), None);
    }

    #[tokio::test]
    async fn a_flood_leaves_its_end() {
        let flood: String = (0..100_000).map(|number| format!("line {number}\n")).collect();
        let words = heard(flood.as_bytes()).await;
        let lines = words.lines();
        assert!(lines.iter().map(String::len).sum::<usize>() <= KEPT_BYTES);
        assert_eq!(lines.last().unwrap(), "line 99999");
        assert!(1_000 < lines.len());
        assert_eq!(words.quote().unwrap(), "line 99995 / line 99996 / line 99997 / line 99998 / line 99999");
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_cut_and_a_long_quote_keeps_its_end() {
        let words = heard(&[b'x'; 1_000_000]).await;
        assert_eq!(words.lines(), ["x".repeat(LINE_BYTES)]);
        assert!(words.quote().unwrap().starts_with("…xxx"));
        words.forget();
        assert!(words.lines().is_empty());
    }
}
