//! Text of others on a terminal, drawn with the segments of the renderer: nothing in it may move the cursor, change
//! colours or hide text, and nothing of it is removed.
//!
//! [`text`], [`flat`] and [`line`] take text that may be made visible already. What a user decides by goes through
//! [`exact`] or [`name`] first, once.

use toolway_host::visible;
pub(crate) use toolway_host::visible::{json, name, one_line as exact_flat, plain as exact};
use unicode_width::UnicodeWidthChar;

/// Colours of an escape.
const ESCAPE: (&str, &str) = ("\u{1b}[7m", "\u{1b}[27m");

/// Text with hidden characters as `\u{…}`; line breaks and tabs stay.
pub(crate) fn text(untrusted: &str) -> String {
    visible::guarded(untrusted)
}

/// Text on one line; spaces stay.
pub(crate) fn flat(untrusted: &str) -> String {
    text(untrusted).replace(['\n', '\t'], " ")
}

/// A text on one line of at most `most` columns.
pub(crate) fn line(untrusted: &str, most: usize) -> String {
    let text = text(untrusted);
    cut(&text.split_whitespace().collect::<Vec<_>>().join(" "), most)
}

/// Content of a result for a terminal. In colour, escapes of ours are inverted and the text is otherwise unchanged; without
/// colour, text that imitates an escape is escaped itself.
pub(crate) fn content(untrusted: &str, colour: super::Colour) -> String {
    if colour == super::Colour::No {
        return exact(untrusted);
    }
    let mut shown = String::with_capacity(untrusted.len());
    for segment in visible::segments(untrusted) {
        match segment {
            visible::Segment::Text(text) => shown.push_str(text),
            visible::Segment::LineEnd => shown.push('\n'),
            visible::Segment::Tab => shown.push('\t'),
            visible::Segment::Backslash => shown.push('\\'),
            visible::Segment::Hidden(letter) => {
                shown.push_str(&format!("{}{}{}", ESCAPE.0, letter.escape_unicode(), ESCAPE.1));
            }
        }
    }
    shown
}

/// Text that was made visible, with the escapes inverted.
pub(crate) fn painted(visible: &str) -> String {
    let mut shown = String::with_capacity(visible.len());
    for unit in units(visible) {
        match unit.len() {
            // An escape; a character is at most four bytes long.
            5.. => shown.push_str(&format!("{}{unit}{}", ESCAPE.0, ESCAPE.1)),
            _ => shown.push_str(unit),
        }
    }
    shown
}

/// The characters of a visible text; each escape is one unit, which is not broken.
pub(crate) fn units(visible: &str) -> impl Iterator<Item = &str> {
    let mut rest = visible;
    std::iter::from_fn(move || {
        let unit;
        (unit, rest) = rest.split_at(unit_length(rest)?);
        Some(unit)
    })
}

fn unit_length(text: &str) -> Option<usize> {
    let code = text.strip_prefix("\\u{").and_then(|after| after.split_once('}')).map(|(code, _)| code);
    match code {
        Some(code) if (1..=6).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            Some(code.len() + 4)
        }
        _ => text.chars().next().map(char::len_utf8),
    }
}

/// The beginning of a text, of at most `most` columns, with an ellipsis if there is more.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let mut used = 0;
    let fitting = units(text).take_while(|unit| {
        used += columns(unit);
        used < most
    });
    fitting.chain(["…"]).collect()
}

/// Columns that a text takes on a terminal.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(letter_columns).sum()
}

/// Columns that a character takes on a terminal: two for Chinese, Japanese and Korean ones and emoji.
pub(crate) fn letter_columns(letter: char) -> usize {
    letter.width().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{content, cut, flat, line, painted, text, units};
    use crate::output::Colour;

    #[test]
    fn control_sequences_are_shown_with_their_content() {
        for (untrusted, shown) in [
            ("plain\ttext\nmore", "plain\ttext\nmore"),
            ("\u{1b}[31mred\u{1b}[0m", "\\u{1b}[31mred\\u{1b}[0m"),
            ("ls\u{1b}]; rm -rf x\u{7}", "ls\\u{1b}]; rm -rf x\\u{7}"),
            ("one\r\ntwo\rthree", "one\ntwo\\u{d}three"),
            ("a\u{202e}b", "a\\u{202e}b"),
        ] {
            assert_eq!(text(untrusted), shown);
            assert_eq!(text(shown), shown, "made visible once");
        }
        assert_eq!(flat("a\n\tb"), "a  b");
    }

    #[test]
    fn line_is_flattened_and_truncated() {
        assert_eq!(line("a\n b\tc\u{1b}[1m", 80), "a b c\\u{1b}[1m");
        assert_eq!(line("abcdef", 4), "abc…");
        assert_eq!(cut("ab\\u{1b}cd", 7), "ab…", "an escape stays whole");
    }

    #[test]
    fn escapes_are_painted_and_their_imitation_is_not() {
        assert_eq!(painted("a\\u{1b}b"), "a\u{1b}[7m\\u{1b}\u{1b}[27mb");
        assert_eq!(content("\\u{1b}\u{1b}", Colour::Yes), "\\u{1b}\u{1b}[7m\\u{1b}\u{1b}[27m");
        assert_eq!(content("\\u{1b}\u{1b}", Colour::No), "\\u{5c}u{1b}\\u{1b}");
        assert_eq!(units("é\\u{1b}\\u{x}").collect::<Vec<_>>(), ["é", "\\u{1b}", "\\", "u", "{", "x", "}"]);
    }
}
