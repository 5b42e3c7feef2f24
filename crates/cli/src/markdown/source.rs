//! Text of a message as it arrives, line by line. Two rules of CommonMark let a line change text far before it; they are
//! switched off here, because what is written stays:
//!
//! - `[name]: address` defines no link; the line is shown as it is.
//! - A row such as `--|--` makes a table only of a line that begins with `|`.
//!
//! To switch them off, [`BREAK`] is put where it prevents them. The renderer leaves it out again ([`original`]).

use std::borrow::Cow;

/// A character that is not text in Unicode. In a message it becomes the replacement character.
const BREAK: char = '\u{fdd0}';

/// Characters that can stand before the text of a line: marks of blocks, and what underlines and rules consist of.
const MARKS: [char; 14] = ['>', '-', '*', '+', '_', '=', '#', '`', '~', '|', ':', '.', ')', '\u{a0}'];

/// The text that is not written yet.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// Complete lines.
    lines: String,
    /// The line that is not complete.
    line: String,
    previous: PreviousLine,
    last: Option<char>,
}

/// Whether the line before can be the head of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PreviousLine {
    MayBeHead,
    #[default]
    Other,
}

impl Source {
    pub(super) fn push(&mut self, text: &str) {
        for letter in text.chars() {
            match letter {
                '\n' if self.last == Some('\r') => {}
                '\n' | '\r' => self.end_line(),
                BREAK => self.line.push(char::REPLACEMENT_CHARACTER),
                letter => self.line.push(letter),
            }
            self.last = Some(letter);
        }
    }

    /// Completes the last line.
    pub(super) fn end(&mut self) {
        if !self.line.is_empty() {
            self.end_line();
        }
        (self.previous, self.last) = (PreviousLine::Other, None);
    }

    /// The text up to a point where no further input changes which blocks it has. Setext headings and tables are the
    /// exceptions, which `stable.rs` knows.
    pub(super) fn decided(&self) -> String {
        let mut text = self.lines.clone();
        if is_decided(&self.line) {
            text.push_str(&without_definition(&self.line));
        }
        text
    }

    /// Forgets the first bytes, which end at a line.
    pub(super) fn forget(&mut self, bytes: usize) {
        self.lines.drain(..bytes);
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let mut line = without_definition(&line).into_owned();
        if self.previous == PreviousLine::Other
            && is_delimiter_row(&line)
            && let Some(pipe) = line.find('|')
        {
            line.insert(pipe + 1, BREAK);
        }
        self.previous = if may_be_head(&line) { PreviousLine::MayBeHead } else { PreviousLine::Other };
        self.lines.push_str(&line);
        self.lines.push('\n');
    }
}

/// The text of the message again.
pub(super) fn original(text: &str) -> Cow<'_, str> {
    if text.contains(BREAK) { Cow::Owned(text.replace(BREAK, "")) } else { Cow::Borrowed(text) }
}

/// Whether a line can be the head of a table.
pub(super) fn may_be_head(line: &str) -> bool {
    let is_mark_of_container = |letter: char| letter.is_ascii_digit() || " \t>-*+.)".contains(letter);
    line.trim_start_matches(is_mark_of_container).starts_with('|')
}

/// Whether the beginning of a line tells which block it belongs to, however it goes on.
fn is_decided(line: &str) -> bool {
    let is_mark = |letter: char| letter.is_ascii_digit() || letter.is_whitespace() || MARKS.contains(&letter);
    let text = line.trim_start_matches(is_mark);
    let marks = &line[..line.len() - text.len()];
    let needs_whole_line =
        marks.contains("```") || marks.contains("~~~") || marks.contains('|') || text.starts_with('<');
    !text.is_empty() && !needs_whole_line
}

fn is_delimiter_row(line: &str) -> bool {
    line.contains('-') && line.chars().all(|letter| "|:- \t>".contains(letter))
}

fn without_definition(line: &str) -> Cow<'_, str> {
    if line.contains("]:") { Cow::Owned(line.replace("]:", &format!("]{BREAK}:"))) } else { Cow::Borrowed(line) }
}
