//! Strangers' text on its way to a terminal: nothing in it may move the cursor, change a colour or hide anything.

/// The text without control sequences; line breaks and tabs stay.
pub(crate) fn text(stranger: &str) -> String {
    let mut clean = String::with_capacity(stranger.len());
    let mut letters = stranger.chars().peekable();
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

/// The same as one line, at most `most` letters long.
pub(crate) fn line(stranger: &str, most: usize) -> String {
    let text = text(stranger);
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if most < words.chars().count() {
        words = words.chars().take(most.saturating_sub(1)).collect();
        words.push('…');
    }
    words
}

/// The same as one line, spaces as they are.
pub(crate) fn flat(stranger: &str) -> String {
    text(stranger).replace(['\n', '\t'], " ")
}

/// JSON that means the same, without letters a terminal acts on. Inside strings they can be escaped; anywhere else
/// JSON has none.
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

/// C0, DEL, C1, and what turns the direction of a line around.
fn is_hidden(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// After ESC: one of the sequences with parameters, a string until its end, or one letter.
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

/// Until BEL or ST; a string that never ends ends with its line, so that it cannot swallow a text.
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
    fn control_sequences_are_taken_out_whole() {
        for (stranger, clean) in [
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
            assert_eq!(text(stranger), clean, "{stranger:?}");
        }
    }

    #[test]
    fn a_line_is_one_line_and_not_too_long() {
        assert_eq!(line("a\n b\tc\u{1b}[1m", 80), "a b c");
        assert_eq!(line("abcdef", 4), "abc…");
    }

    #[test]
    fn json_keeps_its_meaning() {
        assert_eq!(json("{\"a\":\"\u{9b}31m\u{7f}\"}\n"), "{\"a\":\"\\u009b31m\\u007f\"}\n");
    }
}
