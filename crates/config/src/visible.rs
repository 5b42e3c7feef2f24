//! Text of others made visible for a person: what a server, a model, a client or a project wrote. Nothing is removed.
//!
//! | part | file |
//! |---|---|
//! | text as segments: arguments, messages, titles, results | `visible/segments.rs` |
//! | the stricter level: names, commands, URLs | `visible/strict.rs` |
//! | properties of characters, from Unicode's data | `visible/character.rs` |
//!
//! Surfaces only draw the segments. Where a style can tell them apart, a hidden character is drawn as `\u{1b}` in a style
//! of its own. In plain text ([`plain`]) `\u{` is always an escape of ours: a backslash of the text before `u{` is written
//! as `\u{5c}`.
//!
//! The module stands in this crate because acceptance of a project's servers uses it, and this crate uses none of ours;
//! surfaces use it as `toolway_host::visible`.

mod character;
mod segments;
mod strict;

use std::borrow::Cow;

pub use segments::{Segment, Segments, StreamedText, has_hidden, segments};
pub use strict::{address, ascii, name};

/// Before and after the code point of a hidden character in [`marked`] text. Both are noncharacters, which are hidden
/// themselves.
pub const MARKS: (char, char) = ('\u{fdd0}', '\u{fdd1}');

/// Plain text with hidden characters as `\u{…}`. Different texts look different, line endings excepted.
pub fn plain(text: &str) -> String {
    draw(text, |segment, shown| match segment {
        Segment::Text(text) => shown.push_str(text),
        Segment::LineEnd => shown.push('\n'),
        Segment::Tab => shown.push('\t'),
        Segment::Backslash => escape('\\', shown),
        Segment::Hidden(letter) => escape(letter, shown),
    })
}

/// Like [`plain`], but a backslash stays: for our own text with parts of others, which may be made visible already.
pub fn guarded(text: &str) -> String {
    draw(text, |segment, shown| match segment {
        Segment::Text(text) => shown.push_str(text),
        Segment::LineEnd => shown.push('\n'),
        Segment::Tab => shown.push('\t'),
        Segment::Backslash => shown.push('\\'),
        Segment::Hidden(letter) => escape(letter, shown),
    })
}

/// JSON with hidden characters as escapes of JSON. They occur only inside strings, so the meaning does not change.
pub fn json(text: &str) -> String {
    draw(text, |segment, shown| match segment {
        Segment::Text(text) => shown.push_str(text),
        Segment::LineEnd => shown.push('\n'),
        Segment::Tab => shown.push('\t'),
        Segment::Backslash => shown.push('\\'),
        Segment::Hidden('\r') => shown.push('\n'),
        Segment::Hidden(letter) => {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                shown.push_str(&format!("\\u{unit:04x}"));
            }
        }
    })
}

/// Text for a page that draws hidden characters as elements: their code points in hexadecimal between [`MARKS`].
pub fn marked(text: &str) -> Cow<'_, str> {
    if !has_hidden(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(draw(text, |segment, shown| match segment {
        Segment::Text(text) => shown.push_str(text),
        Segment::LineEnd => shown.push('\n'),
        Segment::Tab => shown.push('\t'),
        Segment::Backslash => shown.push('\\'),
        Segment::Hidden(letter) => shown.push_str(&format!("{}{:x}{}", MARKS.0, u32::from(letter), MARKS.1)),
    }))
}

/// The text that was [`marked`].
pub fn unmarked(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(MARKS.0) {
        plain.push_str(before);
        let Some((code, after)) = after.split_once(MARKS.1) else { break };
        plain.extend(u32::from_str_radix(code, 16).ok().and_then(char::from_u32));
        rest = after;
    }
    plain.push_str(rest);
    plain
}

/// The text on one line: line ends and tabs are spaces.
pub fn one_line(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ")
}

fn draw<'a>(text: &'a str, mut add: impl FnMut(Segment<'a>, &mut String)) -> String {
    let mut shown = String::with_capacity(text.len());
    for segment in segments(text) {
        add(segment, &mut shown);
    }
    shown
}

fn escape(letter: char, shown: &mut String) {
    shown.extend(letter.escape_unicode());
}
