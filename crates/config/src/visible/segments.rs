//! A text as segments: what is shown as it is, layout, and hidden characters.
//!
//! Line feeds, also after a carriage return, and tabs are layout. Joiners and variation selector 16 inside emoji, joiners
//! between letters of one script in which they change letters, and up to four combining marks on a character are text. All other control,
//! format, default-ignorable, bidirectional, private, unassigned and blank characters are hidden.

use super::character::{
    KEYCAP, VS16, ZWJ, ZWNJ, has_joiners, is_emoji, is_emoji_modifier, is_hidden, is_mark, is_pictograph,
    is_uncased_letter, script,
};

/// A part of a text as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Characters that are shown as they are.
    Text(&'a str),
    /// A line feed, with the carriage return before it.
    LineEnd,
    /// A tab.
    Tab,
    /// A backslash of the text before `u{`, which together would look like an escape. Not a hidden character.
    Backslash,
    /// A character that is shown by its code point.
    Hidden(char),
}

/// The segments of a text.
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    rest: &'a str,
    cluster: Cluster,
}

/// The character that marks and joiners attach to.
#[derive(Clone, Copy, Debug, Default)]
struct Cluster {
    /// `None` at the beginning, and after layout and hidden characters.
    base: Option<char>,
    /// The character before the next one.
    last: Option<char>,
    marks: usize,
}

/// Combining marks on one character; further ones are hidden.
const MOST_MARKS: usize = 4;

/// The segments of a text.
pub fn segments(text: &str) -> Segments<'_> {
    Segments { rest: text, cluster: Cluster::default() }
}

/// A text that comes in pieces: gives what later pieces cannot change, such as an emoji whose joiner comes next.
#[derive(Debug, Default)]
pub struct StreamedText {
    held: String,
}

/// Whether a text contains characters that are shown by their code point.
pub fn has_hidden(text: &str) -> bool {
    segments(text).any(|segment| matches!(segment, Segment::Hidden(_)))
}

// === impl StreamedText ===

impl StreamedText {
    /// Adds a piece; returns the text that is complete.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let rest = self.held.split_off(start_of_last_cluster(&self.held));
        std::mem::replace(&mut self.held, rest)
    }

    /// The rest of the text.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Where the character begins that the next piece may continue. An ASCII character is complete.
fn start_of_last_cluster(text: &str) -> usize {
    if text.chars().next_back().is_none_or(|last| last.is_ascii() && last != '\r') {
        return text.len();
    }
    let attaches = |letter: char| [ZWJ, ZWNJ, VS16].contains(&letter) || is_mark(letter) || is_emoji_modifier(letter);
    let mut start = text.len();
    let mut is_attached = true;
    for (index, letter) in text.char_indices().rev() {
        if !is_attached && letter != ZWJ && letter != ZWNJ {
            break;
        }
        is_attached = attaches(letter);
        start = index;
    }
    start
}

// === impl Segments ===

impl<'a> Iterator for Segments<'a> {
    type Item = Segment<'a>;

    fn next(&mut self) -> Option<Segment<'a>> {
        let text = self.rest;
        let mut end = 0;
        while let Some(letter) = text[end..].chars().next() {
            let after = &text[end + letter.len_utf8()..];
            match self.cluster.special(letter, after) {
                None => end += letter.len_utf8(),
                Some(_) if 0 < end => break,
                Some(special) => {
                    self.cluster = Cluster::default();
                    let is_crlf = letter == '\r' && special == Segment::LineEnd;
                    self.rest = &after[usize::from(is_crlf)..];
                    return Some(special);
                }
            }
        }
        let shown;
        (shown, self.rest) = text.split_at(end);
        (!shown.is_empty()).then_some(Segment::Text(shown))
    }
}

// === impl Cluster ===

impl Cluster {
    /// The segment of a character that is not plain text; otherwise the character becomes part of the cluster.
    fn special(&mut self, letter: char, after: &str) -> Option<Segment<'static>> {
        match letter {
            '\n' => return Some(Segment::LineEnd),
            '\r' if after.starts_with('\n') => return Some(Segment::LineEnd),
            '\t' => return Some(Segment::Tab),
            '\\' if after.starts_with("u{") => return Some(Segment::Backslash),
            ' '..='~' => self.begin(letter),
            ZWJ | ZWNJ | VS16 if self.takes(letter, after.chars().next()) => self.last = Some(letter),
            _ if is_hidden(letter) => return Some(Segment::Hidden(letter)),
            _ if is_mark(letter) => {
                if self.base.is_none() || MOST_MARKS <= self.marks {
                    return Some(Segment::Hidden(letter));
                }
                self.marks += 1;
                self.last = Some(letter);
            }
            _ if is_emoji_modifier(letter) && self.base.is_some_and(is_pictograph) => self.last = Some(letter),
            _ => self.begin(letter),
        }
        None
    }

    fn begin(&mut self, base: char) {
        *self = Self { base: Some(base), last: Some(base), marks: 0 };
    }

    /// Whether a joiner or variation selector has a meaning at its place.
    fn takes(&self, letter: char, next: Option<char>) -> bool {
        let (Some(base), Some(last), Some(next)) = (self.base, self.last, next.or(Some('\0'))) else { return false };
        match letter {
            VS16 if base.is_ascii() => next == KEYCAP && last == base && is_emoji(base),
            VS16 => last == base && is_emoji(base),
            ZWJ if is_pictograph(base) => {
                is_pictograph(next) && (last == base || last == VS16 || is_emoji_modifier(last))
            }
            _ => {
                let is_same = script(base).is_some_and(|of_base| has_joiners(of_base) && script(next) == Some(of_base));
                is_same && is_uncased_letter(base) && (is_uncased_letter(next) || is_mark(next))
            }
        }
    }
}
