//! Cleans untrusted text for a terminal: nothing in it may move the cursor, change colours or hide text.

use unicode_width::UnicodeWidthChar;

/// Removes control sequences; keeps line breaks and tabs.
pub(crate) fn text(untrusted: &str) -> String {
    let mut clean = String::with_capacity(untrusted.len());
    let mut letters = untrusted.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => skip_sequence(&mut letters),
            '\u{9b}' => skip_parameters(&mut letters),
            '\r' if letters.peek() == Some(&'\n') => {}
            '\r' => clean.push('\n'),
            '\n' | '\t' => clean.push(letter),
            hidden if is_hidden(hidden) => {}
            plain => clean.push(plain),
        }
    }
    clean
}

/// Cleans a text to one line of at most `most` columns.
pub(crate) fn line(untrusted: &str, most: usize) -> String {
    let text = text(untrusted);
    cut(&text.split_whitespace().collect::<Vec<_>>().join(" "), most)
}

/// The beginning of a text, of at most `most` columns, with an ellipsis if there is more.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let mut used = 0;
    let fitting = text.chars().take_while(|letter| {
        used += letter_columns(*letter);
        used < most
    });
    fitting.chain(['…']).collect()
}

/// Columns that a text takes on a terminal.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(letter_columns).sum()
}

/// Columns that a character takes on a terminal: two for Chinese, Japanese and Korean ones and emoji.
pub(crate) fn letter_columns(letter: char) -> usize {
    letter.width().unwrap_or(0)
}

/// Cleans a text to one line, keeping spaces.
pub(crate) fn flat(untrusted: &str) -> String {
    text(untrusted).replace(['\n', '\t'], " ")
}

/// Escapes control characters in JSON. They occur only inside strings, so the meaning does not change.
pub(crate) fn json(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_hidden(letter) && !matches!(letter, '\n' | '\t' | '\r') {
            // All of them are in the basic plane.
            clean.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            clean.push(letter);
        }
    }
    clean
}

/// C0, DEL, C1 and bidirectional control characters.
fn is_hidden(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// After ESC: a sequence with parameters, a string up to its terminator, or one character.
fn skip_sequence(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match letters.peek() {
        Some('[') => {
            letters.next();
            skip_parameters(letters);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            letters.next();
            skip_string(letters);
        }
        Some(' '..='/') => {
            letters.next();
            letters.next_if(|letter| ('0'..='~').contains(letter));
        }
        Some('0'..='~') => {
            letters.next();
        }
        _ => {}
    }
}

fn skip_parameters(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while letters.next_if(|letter| (' '..='?').contains(letter)).is_some() {}
    letters.next_if(|letter| ('@'..='~').contains(letter));
}

/// Skips to BEL or ST; an unterminated string ends with its line, so that it cannot hide the rest.
fn skip_string(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(letter) = letters.next_if(|letter| *letter != '\n') {
        match letter {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                letters.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{json, line, text};

    #[test]
    fn control_sequences_are_removed() {
        for (untrusted, clean) in [
            ("plain\ttext\nmore", "plain\ttext\nmore"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("a\u{1b}]0;title\u{7}b", "ab"),
            ("a\u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\", "alink"),
            ("a\u{9b}2Jb", "ab"),
            ("a\u{1b}Pq#0\u{1b}\\b", "ab"),
            ("up\u{1b}[2A\u{1b}[2Kover", "upover"),
            ("one\r\ntwo\rthree", "one\ntwo\nthree"),
            ("bell\u{7}back\u{8}del\u{7f}", "bellbackdel"),
            ("a\u{202e}b\u{2066}c", "abc"),
            ("end\u{1b}", "end"),
            ("end\u{1b}[", "end"),
            ("\u{1b}]0;never ends\nnext", "\nnext"),
            ("\u{1b}(Bx\u{1b}cy", "xy"),
        ] {
            assert_eq!(text(untrusted), clean, "{untrusted:?}");
        }
    }

    #[test]
    fn line_is_flattened_and_truncated() {
        assert_eq!(line("a\n b\tc\u{1b}[1m", 80), "a b c");
        assert_eq!(line("abcdef", 4), "abc…");
    }

    #[test]
    fn json_keeps_its_meaning() {
        assert_eq!(json("{\"a\":\"\u{9b}31m\u{7f}\"}\n"), "{\"a\":\"\\u009b31m\\u007f\"}\n");
    }
}
