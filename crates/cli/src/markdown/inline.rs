//! Markup inside a paragraph or a heading: how much of it no further text can change.
//!
//! Only markup of which the meaning is certain counts as closed, such as `**words**` before a space. Everything else is
//! open, and stays so until the paragraph ends.

use super::layout::JOINER;
use crate::output::clean::letter_columns;

/// What the text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InlineKind {
    Paragraph,
    /// Ends with its line, and marks `#` at the end of it are no text.
    Heading,
}

/// Whether markup stands inside other markup that is not closed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Top,
    Inside { depth: usize },
}

/// Markup nested more deeply counts as open.
const DEEPEST: usize = 8;
/// Longest name of an entity that is waited for; all names of HTML are shorter.
const LONGEST_ENTITY: usize = 40;

/// Where the first markup begins that is open.
pub(super) fn closed(text: &str, kind: InlineKind) -> usize {
    let text = without_joined_end(text);
    let mut at = 0;
    while at < text.len() {
        if kind == InlineKind::Heading && may_close_heading(text, at) {
            return at;
        }
        match markup(text, at, Place::Top) {
            Some(end) => at = end,
            None => return at,
        }
    }
    at
}

/// The text without a last character that others may join, such as a family of emoji.
fn without_joined_end(text: &str) -> &str {
    let mut rest = text;
    while let Some(letter) = rest.chars().next_back().filter(|letter| !letter.is_ascii()) {
        rest = &rest[..rest.len() - letter.len_utf8()];
        if letter_columns(letter) > 0 && !rest.ends_with(JOINER) {
            break;
        }
    }
    rest
}

/// Where the character or markup at a position ends; `None` if it is open.
fn markup(text: &str, at: usize, place: Place) -> Option<usize> {
    let rest = &text[at..];
    let letter = rest.chars().next()?;
    let length = match letter {
        '\\' => escape(rest)?,
        '`' => code_span(rest)?,
        '*' | '_' | '~' => return emphasis(text, at, place),
        '[' => return link(text, at, place),
        '!' => match rest[1..].chars().next()? {
            '[' => return link(text, at + 1, place),
            _ => 1,
        },
        '<' => angle(rest)?,
        '&' => entity(rest)?,
        letter => letter.len_utf8(),
    };
    Some(at + length)
}

impl Place {
    fn inner(self) -> Option<Self> {
        match self {
            Self::Top => Some(Self::Inside { depth: 1 }),
            Self::Inside { depth } => (depth < DEEPEST).then_some(Self::Inside { depth: depth + 1 }),
        }
    }
}

fn may_close_heading(text: &str, at: usize) -> bool {
    let follows_space = text[..at].ends_with(char::is_whitespace);
    follows_space && text[at..].starts_with('#') && text[at..].trim_start_matches('#').trim().is_empty()
}

fn escape(rest: &str) -> Option<usize> {
    let next = rest[1..].chars().next()?;
    // A line break, unless the paragraph ends here.
    if next == '\n' && rest.trim_start_matches('\\').trim().is_empty() {
        return None;
    }
    Some(1 + next.len_utf8())
}

fn code_span(rest: &str) -> Option<usize> {
    let run = run_length(rest, '`');
    let mut from = run;
    loop {
        let start = from + rest[from..].find('`')?;
        let length = run_length(&rest[start..], '`');
        let end = start + length;
        // A longer run may follow.
        rest[end..].chars().next()?;
        if length == run {
            return Some(end);
        }
        from = end;
    }
}

fn emphasis(text: &str, at: usize, place: Place) -> Option<usize> {
    let run = Run::at(text, at)?;
    let is_mark_in_word = run.letter == '_' && run.follows_word() && run.after.is_alphanumeric();
    if run.is_between_spaces() || is_mark_in_word {
        return Some(run.end);
    }
    let strikes_nothing = run.letter == '~' && run.length() != 2;
    if place == Place::Top && (run.after.is_whitespace() || strikes_nothing) {
        return Some(run.end);
    }
    if strikes_nothing || !run.opens() {
        return None;
    }
    let inner = place.inner()?;
    let mut at = run.end;
    loop {
        if !text[at..].starts_with(run.letter) {
            at = markup(text, at, inner)?;
            continue;
        }
        let other = Run::at(text, at)?;
        if other.length() == run.length() && other.closes() {
            return Some(other.end);
        }
        // What could close only a part of the emphasis is not certain.
        if other.may_close() {
            return None;
        }
        at = emphasis(text, at, inner)?;
    }
}

/// Marks of emphasis, and what stands around them.
struct Run {
    letter: char,
    start: usize,
    end: usize,
    before: Option<char>,
    after: char,
}

impl Run {
    /// `None` if the run may go on.
    fn at(text: &str, start: usize) -> Option<Self> {
        let letter = text[start..].chars().next()?;
        let end = start + run_length(&text[start..], letter);
        let line = text[..start].rfind('\n').map_or("", |end| &text[end + 1..start]);
        let begins_line = text[..start].contains('\n') && line.trim_start_matches([' ', '\t', '>']).is_empty();
        let before = text[..start].chars().next_back().filter(|_| !begins_line);
        Some(Self { letter, start, end, before, after: text[end..].chars().next()? })
    }

    fn length(&self) -> usize {
        self.end - self.start
    }

    fn follows_word(&self) -> bool {
        self.before.is_some_and(char::is_alphanumeric)
    }

    fn follows_space(&self) -> bool {
        self.before.is_none_or(char::is_whitespace)
    }

    fn is_between_spaces(&self) -> bool {
        self.follows_space() && self.after.is_whitespace()
    }

    fn may_close(&self) -> bool {
        !self.follows_space()
    }

    /// Whether it certainly opens emphasis.
    fn opens(&self) -> bool {
        let is_apart = self.before.is_none_or(is_gap);
        !self.after.is_whitespace() && (is_apart || (self.letter != '_' && self.after.is_alphanumeric()))
    }

    /// Whether it certainly closes emphasis.
    fn closes(&self) -> bool {
        !self.follows_space() && (is_gap(self.after) || (self.letter != '_' && self.follows_word()))
    }
}

/// Whether CommonMark takes the character for space or punctuation, without a doubt.
fn is_gap(letter: char) -> bool {
    letter.is_whitespace() || letter.is_ascii_punctuation()
}

/// Where a link ends, or brackets that are none.
fn link(text: &str, bracket: usize, place: Place) -> Option<usize> {
    let inner = place.inner()?;
    let mut at = bracket + 1;
    let mut has_brackets = false;
    while !text[at..].starts_with(']') {
        has_brackets |= text[at..].starts_with('[');
        at = markup(text, at, inner)?;
    }
    at += 1;
    match text[at..].chars().next()? {
        // A link in a link makes text of the outer one.
        '(' if has_brackets => None,
        '(' => Some(at + address(&text[at..])?),
        _ => Some(at),
    }
}

/// Length of an address in parentheses, with or without a title.
fn address(rest: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, letter) in rest.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(at + 1),
            ')' => depth -= 1,
            ' ' if depth == 1 => {
                let title = rest[at + 1..].strip_prefix('"')?;
                let end = title.find(['"', '\\', '\n', '\u{a0}'])?;
                return title[end..].starts_with("\")").then_some(at + 2 + end + 2);
            }
            '<' | '\\' | '&' => return None,
            letter if letter.is_whitespace() || letter.is_control() => return None,
            _ => {}
        }
    }
    None
}

/// Length of an autolink, of a simple HTML tag, or of a `<` that begins neither.
fn angle(rest: &str) -> Option<usize> {
    let next = rest[1..].chars().next()?;
    if next.is_whitespace() || next.is_ascii_digit() || next == '=' || next == '-' {
        return Some(1);
    }
    let end = rest.find('>')?;
    let content = &rest[1..end];
    let is_tag = content.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '/' || letter == ' ');
    let is_address = ["https://", "http://"].iter().any(|scheme| content.starts_with(scheme))
        && content.chars().all(|letter| !letter.is_whitespace() && !letter.is_control() && letter != '<');
    (is_tag || is_address).then_some(end + 1)
}

/// Length of an entity or of a plain `&`.
fn entity(rest: &str) -> Option<usize> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '#';
    match rest[1..].find(|letter: char| !is_name(letter)) {
        Some(name) if rest[1 + name..].starts_with(';') => Some(name + 2),
        Some(_) => Some(1),
        None if rest.len() > LONGEST_ENTITY => Some(1),
        None => None,
    }
}

fn run_length(rest: &str, letter: char) -> usize {
    rest.len() - rest.trim_start_matches(letter).len()
}
