//! The texts of a script of the console: its string and template literals. `${…}` of a template becomes `{}`.
//!
//! Not a parser of JavaScript: comments, literals and regular expressions are told apart, which is enough for our own files.

use std::iter::Peekable;
use std::str::Chars;

/// Code before literals that are names of styles and relations, not texts.
const NAMES: [&str; 3] = ["class:", "className=", "rel:"];

/// All literals of a script, in the order they end, without [`NAMES`].
pub(super) fn literals(source: &str) -> Vec<String> {
    let mut reader = Reader { rest: source.chars().peekable(), code: String::new(), texts: Vec::new() };
    reader.read_code(None);
    reader.texts
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    /// The code before the current place, without literals and blanks.
    code: String,
    texts: Vec<String>,
}

// === impl Reader ===

impl Reader<'_> {
    /// Reads until the brace that closes a `${`, or to the end of the script.
    fn read_code(&mut self, mut open_braces: Option<usize>) {
        while let Some(letter) = self.rest.next() {
            match (letter, &mut open_braces) {
                ('"' | '\'' | '`', _) => {
                    let text = self.read_literal(letter);
                    if !NAMES.iter().any(|name| self.code.ends_with(name)) {
                        self.texts.push(text);
                    }
                    self.code.push('"');
                }
                ('/', _) => self.read_slash(),
                ('}', Some(0)) => return,
                ('}', Some(count)) => *count -= 1,
                ('{', Some(count)) => *count += 1,
                _ => {}
            }
            if !letter.is_whitespace() && !matches!(letter, '"' | '\'' | '`' | '/') {
                self.code.push(letter);
            }
        }
    }

    fn read_literal(&mut self, quote: char) -> String {
        let mut text = String::new();
        while let Some(letter) = self.rest.next() {
            match letter {
                '\\' => text.extend(self.rest.next().map(|escaped| if escaped == 'n' { '\n' } else { escaped })),
                '$' if quote == '`' && self.rest.next_if_eq(&'{').is_some() => {
                    self.read_code(Some(0));
                    text.push_str("{}");
                }
                letter if letter == quote => return text,
                letter => text.push(letter),
            }
        }
        text
    }

    /// A comment, a regular expression or a division.
    fn read_slash(&mut self) {
        match self.rest.peek() {
            Some('/') => while self.rest.next().is_some_and(|letter| letter != '\n') {},
            Some('*') => {
                let mut last = ' ';
                for letter in self.rest.by_ref() {
                    if (last, letter) == ('*', '/') {
                        return;
                    }
                    last = letter;
                }
            }
            _ if self.code.ends_with(['(', ',', '=', ':', '!', '&', '|', '?', '{', ';', '[', '>']) => {
                self.read_pattern()
            }
            _ => self.code.push('/'),
        }
    }

    fn read_pattern(&mut self) {
        let mut in_class = false;
        while let Some(letter) = self.rest.next() {
            match letter {
                '\\' => drop(self.rest.next()),
                '[' => in_class = true,
                ']' => in_class = false,
                '/' if !in_class => return,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_told_from_comments_patterns_and_styles() {
        let script = r#"
            // "not this"
            const QUOTE = /["'`[/"]/; /* 'nor this' */
            h("p", { class: "wide card" }, `Sent to ${server ?? `the ${"first"} server`}, ${{ a: 1 }.a / 2} left`);
            say('it\'s "done"');
        "#;
        let expected = ["p", "first", "the {} server", "Sent to {}, {} left", "it's \"done\""];
        assert_eq!(literals(script), expected);
    }
}
