//! The end of the stderr output of a server process, in bounded memory, with the lines that name the cause of a failure.
//!
//! The stream is read as fast as it comes, so that a server never blocks on stderr; old lines make room for new ones.
//! The first lines and lines that begin with an error word stay: a stack trace or usage text often follows the cause.
//! [`super::stdio`] owns the stream.

use std::{collections::VecDeque, fmt, sync::Arc};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use toolway_wire::budget::{Charge, MemoryBudget};

use crate::keeper::ProcessExit;

/// Recent stderr output of one server. Clones share their content.
#[derive(Clone, Default)]
pub struct StderrTail {
    // Nothing awaits under this lock.
    ring: Arc<Mutex<Ring>>,
}

#[derive(Default)]
struct Ring {
    /// First lines and error lines that made room in `lines`, at most [`PINNED_LINES`].
    pinned: Vec<String>,
    lines: VecDeque<String>,
    /// Bytes in `lines`.
    kept: usize,
    /// Number of lines that made room.
    dropped: usize,
    /// The incomplete last line, up to [`LINE_BYTES`].
    unfinished: Vec<u8>,
    /// Non-MCP text on stdout before the first message, escaped.
    stray: Option<String>,
    /// How the process ended, once it has.
    ended: Option<ProcessExit>,
    /// Charge for all lines.
    charge: Charge,
}

/// Bytes kept per server: some hundred lines, enough for a stack trace.
pub const KEPT_BYTES: usize = 64 * 1024;
/// Bytes kept per line.
pub const LINE_BYTES: usize = 4 * 1024;
/// Most lines that stay although newer ones need their room.
const PINNED_LINES: usize = 8;
/// Bytes kept of such a line.
const PINNED_BYTES: usize = 512;
/// Lines at the start of a process that stay.
const FIRST_LINES: usize = 2;
/// Lines with the cause that [`essential`] keeps before the end.
const CAUSE_LINES: usize = 2;
/// Marks omitted lines.
const GAP: &str = "…";
/// Lines quoted in an error message.
const QUOTED_LINES: usize = 5;
/// Characters quoted in an error message.
const QUOTED_CHARS: usize = 600;
/// Bytes read at a time.
const CHUNK: usize = 8 * 1024;

// === impl StderrTail ===

impl StderrTail {
    /// All kept lines, oldest first, without control characters; `…` marks omitted ones.
    pub fn lines(&self) -> Vec<String> {
        let ring = self.ring.lock();
        let unfinished = (!ring.unfinished.is_empty()).then(|| readable(&ring.unfinished));
        let gap = (ring.pinned.len() < ring.dropped && !ring.pinned.is_empty()).then(|| GAP.to_owned());
        ring.pinned.iter().cloned().chain(gap).chain(ring.lines.iter().cloned()).chain(unfinished).collect()
    }

    /// The line with the cause and the last few lines in one, for an error message; `None` if there is no output.
    pub fn quote(&self) -> Option<String> {
        quote(&self.lines())
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
        let mut ring = self.ring.lock();
        let mut charge = std::mem::take(&mut ring.charge);
        charge.shrink(charge.bytes());
        *ring = Ring { charge, ..Ring::default() };
    }

    /// Charges the lines from now on to this budget. Lines that do not fit are dropped, the oldest first.
    pub(super) fn charge_to(&self, memory: MemoryBudget) {
        let mut ring = self.ring.lock();
        ring.charge = Charge::empty(memory);
        ring.settle();
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
        while KEPT_BYTES - PINNED_LINES * PINNED_BYTES < self.kept && self.drop_oldest() {}
        self.settle();
    }

    /// Moves the oldest line out, or among the pinned ones; returns whether there was one.
    fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = self.lines.pop_front() else { return false };
        self.kept -= oldest.len();
        let stays = self.dropped < FIRST_LINES || names_cause(&oldest);
        if stays && self.pinned.len() < PINNED_LINES {
            self.pinned.push(oldest[..oldest.floor_char_boundary(PINNED_BYTES)].to_owned());
        }
        self.dropped += 1;
        true
    }

    /// Charges what is kept; drops lines that do not fit.
    fn settle(&mut self) {
        loop {
            let pinned: usize = self.pinned.iter().map(String::len).sum();
            let lines = (self.pinned.len() + self.lines.len()) * size_of::<String>();
            if self.charge.set(self.kept + pinned + lines).is_ok() || !self.drop_oldest() {
                return;
            }
        }
    }
}

/// At most `most` of the lines: the first that name the cause, or the very first if none does, and the last ones. `…`
/// marks omitted lines between them and is not counted.
pub fn essential(lines: &[String], most: usize) -> Vec<String> {
    let filled: Vec<&str> = lines.iter().map(|line| line.trim_end()).filter(|line| !line.trim().is_empty()).collect();
    let end = filled.len().saturating_sub(most);
    let causes: Vec<usize> = (0..filled.len()).filter(|index| names_cause(filled[*index])).take(CAUSE_LINES).collect();
    let causes = if causes.is_empty() { vec![0] } else { causes };
    let early: Vec<usize> = causes.into_iter().filter(|index| *index < end).take(most.saturating_sub(1)).collect();
    let late = (end + early.len()).min(filled.len())..filled.len();
    let (mut chosen, mut next) = (Vec::new(), 0);
    for index in early.into_iter().chain(late) {
        if 0 < next && next < index && filled[index] != GAP && chosen.last().is_none_or(|line: &String| line != GAP) {
            chosen.push(GAP.to_owned());
        }
        chosen.push(filled[index].to_owned());
        next = index + 1;
    }
    chosen
}

/// The essential lines in one, for an error message; `None` without any.
pub fn quote(lines: &[String]) -> Option<String> {
    let chosen = essential(lines, QUOTED_LINES);
    let words: Vec<&str> = chosen.iter().map(|line| line.trim()).collect();
    let quoted = words.join(" / ");
    if quoted.chars().count() <= QUOTED_CHARS {
        return (!quoted.is_empty()).then_some(quoted);
    }
    let last = |text: &str, most: usize| {
        let surplus = text.chars().count().saturating_sub(most);
        text.chars().skip(surplus).collect::<String>()
    };
    let Some(cause) = words.iter().position(|line| names_cause(line)) else {
        return Some(format!("{GAP}{}", last(&quoted, QUOTED_CHARS)));
    };
    // The beginning of the cause, and the end of what follows.
    let begin: String = words[cause].chars().take(QUOTED_CHARS / 2).collect();
    Some(match &words[cause + 1..] {
        [] => format!("{begin}{GAP}"),
        rest => format!("{begin} / {GAP}{}", last(&rest.join(" / "), QUOTED_CHARS / 2)),
    })
}

/// Whether a line begins with an error word, such as `Error:`, `TypeError:`, `error[E0308]`, `npm ERR!` or `fatal:`.
fn names_cause(line: &str) -> bool {
    const WORDS: [&str; 9] =
        ["abort", "critical", "err", "failed", "fatal", "panic", "panicked", "uncaught", "unhandled"];
    let mut words = line.split_whitespace();
    let is_error = |word: &str| {
        let word = word.trim_start_matches(['[', '(', '*', '✖', '❌']);
        let word = word.split([':', ']', '[', ')', '!', ',']).next().unwrap_or_default().to_ascii_lowercase();
        word.ends_with("error") || word.ends_with("exception") || WORDS.contains(&word.as_str())
    };
    match words.next() {
        // The word after the name of the program, a date or a time.
        Some(word) if !is_error(word) => {
            let is_prefix = word.ends_with(':')
                || matches!(word, "npm" | "uv" | "thread")
                || word.starts_with(|letter: char| letter.is_ascii_digit());
            is_prefix && words.take(2).any(is_error)
        }
        Some(_) => true,
        None => false,
    }
}

/// Text without control characters, which could control a terminal.
fn readable(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().filter(|char| !char.is_control() || *char == '\t').collect()
}

#[cfg(test)]
mod tests {
    use super::{KEPT_BYTES, LINE_BYTES, MemoryBudget, StderrTail, essential, names_cause};

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
        assert_eq!(lines[..3], ["line 0", "line 1", "…"]);
        assert_eq!(lines.last().unwrap(), "line 99999");
        assert!(1_000 < lines.len());
        assert_eq!(tail.quote().unwrap(), "line 0 / … / line 99996 / line 99997 / line 99998 / line 99999");
    }

    #[tokio::test]
    async fn line_with_the_cause_is_kept_before_a_stack_trace() {
        let trace = |count: usize| (0..count).map(|number| format!("    at f{number} (x.js:1)\n")).collect::<String>();
        let said = format!("node:internal:1\n  throw err;\nError: Cannot find module 'y'\n{}Node.js v22\n", trace(20));
        let tail = tail_of(said.as_bytes()).await;
        assert_eq!(
            tail.quote().unwrap(),
            "Error: Cannot find module 'y' / … / at f17 (x.js:1) / at f18 (x.js:1) / at f19 (x.js:1) / Node.js v22"
        );
        assert_eq!(essential(&tail.lines(), 10)[..2], ["Error: Cannot find module 'y'", "…"]);
        // Also if the output is larger than what is kept.
        let tail = tail_of(format!("starting\nfatal: no licence\n{}", trace(10_000)).as_bytes()).await;
        assert!(tail.quote().unwrap().contains("fatal: no licence / …"), "{:?}", tail.quote());
    }

    #[test]
    fn error_words_are_recognised_at_the_beginning() {
        for line in [
            "Error: x",
            "TypeError: x",
            "error[E0308]: x",
            "npm ERR! code E404",
            "npm error 404",
            "fatal: x",
            "[ERROR] x",
            "java.lang.IllegalStateException: x",
            "thread 'main' panicked at x",
            "12:00:01 ERROR x",
            "server: error: x",
            "Uncaught x",
        ] {
            assert!(names_cause(line), "{line}");
        }
        for line in ["    at f (error.js:1)", "starting without error", "listening", "", "errors: none yet"] {
            assert!(!names_cause(line), "{line}");
        }
    }

    #[tokio::test]
    async fn long_line_is_cut_and_long_quote_keeps_its_end() {
        let tail = tail_of(&[b'x'; 1_000_000]).await;
        assert_eq!(tail.lines(), ["x".repeat(LINE_BYTES)]);
        assert!(tail.quote().unwrap().starts_with("…xxx"));
        tail.forget();
        assert!(tail.lines().is_empty());
    }

    #[test]
    fn lines_are_charged_and_those_that_do_not_fit_are_dropped() {
        let (memory, tail) = (MemoryBudget::new(10_000), StderrTail::default());
        tail.charge_to(memory.of_server("talks"));
        let line = format!("{}\n", "x".repeat(1_000));
        (0..3).for_each(|_| tail.ring.lock().push(line.as_bytes()));
        assert!(3_000 < memory.used() && tail.lines().len() == 3, "{memory:?}");
        (0..20).for_each(|_| tail.ring.lock().push(line.as_bytes()));
        assert!(memory.peak() <= 5_000, "{memory:?}");
        assert!(tail.lines().iter().filter(|line| line.len() == 1_000).count() < 5);
        tail.forget();
        assert_eq!(memory.used(), 0);
    }
}
