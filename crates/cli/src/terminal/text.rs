//! Lines of prompts: wrapped to the terminal, with text of others made visible and marked. No input and no output.

use crate::output::clean;
pub(crate) use crate::output::clean::{columns, cut};

/// One line of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) style: Style,
    pub(crate) text: String,
}

/// Meaning of a line, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Strong,
    Warning,
    Faint,
    /// A line of a difference that goes away.
    Removed,
    /// A line of a difference that is new.
    Added,
}

/// Columns of the narrowest terminal that is considered.
const MIN_WIDTH: usize = 20;
/// Before each line of a text that a server or a model wrote, so that it cannot pass for ours.
pub(super) const MARK: &str = "  │ ";

impl Line {
    pub(crate) fn new(style: Style, text: impl Into<String>) -> Self {
        Self { style, text: text.into() }
    }

    /// The line as it is printed.
    pub(crate) fn painted(&self, is_coloured: bool) -> String {
        let code = match self.style {
            _ if !is_coloured => return self.text.clone(),
            Style::Plain => return clean::painted(&self.text),
            Style::Strong => "1",
            Style::Warning => "33",
            Style::Faint => "2",
            Style::Removed => "31",
            Style::Added => "32",
        };
        format!("\u{1b}[{code}m{}\u{1b}[0m", clean::painted(&self.text))
    }
}

/// Our own text in lines of this style.
pub(crate) fn lines(style: Style, text: &str, width: usize) -> Vec<Line> {
    wrap(&clean::flat(text), width, "", "  ").into_iter().map(|text| Line::new(style, text)).collect()
}

/// Text that a server or a model wrote: made visible, with a mark before each line.
pub(crate) fn marked(untrusted: &str, width: usize) -> Vec<Line> {
    let text = clean::exact(untrusted).replace('\t', "    ");
    let lines = text.trim_end().lines().flat_map(|line| wrap(line, width, MARK, MARK));
    lines.map(|line| Line::new(Style::Plain, line)).collect()
}

/// Breaks a line between words, with an indent before the lines that follow. A word that is too long stays whole, so that
/// it can be copied.
pub(crate) fn fold(line: &str, width: usize, indent: &str) -> String {
    let mut folded = String::new();
    let (mut used, mut is_empty) = (0, true);
    for word in line.split_inclusive(' ') {
        if !is_empty && used + columns(word.trim_end()) > width {
            folded.truncate(folded.trim_end().len());
            folded.push('\n');
            folded.push_str(indent);
            used = columns(indent);
        }
        folded.push_str(word);
        used += columns(word);
        is_empty = false;
    }
    folded
}

/// Words of a line with the space after them. JSON, which has no spaces, is also broken after its commas.
fn words(text: &str, width: usize) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ').flat_map(move |word| {
        let ends: &[char] = if columns(word) > width { &[','] } else { &[' '] };
        word.split_inclusive(ends)
    })
}

/// Breaks a line at spaces, and words that are too long at commas or anywhere.
pub(crate) fn wrap(text: &str, width: usize, first: &str, rest: &str) -> Vec<String> {
    let width = width.max(MIN_WIDTH);
    let (mut lines, mut line, mut used) = (Vec::new(), first.to_owned(), columns(first));
    let start = |line: &mut String, used: &mut usize| {
        line.push_str(rest);
        *used = columns(rest);
    };
    let mut is_empty = true;
    for word in words(text, width.saturating_sub(columns(rest))) {
        if width < used + columns(word.trim_end()) && !is_empty {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
            start(&mut line, &mut used);
        }
        for unit in clean::units(word) {
            let columns = clean::columns(unit);
            if width < used + columns && unit != " " {
                lines.push(std::mem::take(&mut line));
                start(&mut line, &mut used);
            }
            line.push_str(unit);
            used += columns;
        }
        is_empty = false;
    }
    lines.push(line.trim_end().to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::{Line, Style, columns, cut, fold, marked, wrap};

    #[test]
    fn lines_are_broken_at_spaces_and_long_words_anywhere() {
        assert_eq!(wrap("one two three four five six", 20, "", "  "), ["one two three four", "  five six"]);
        assert_eq!(
            wrap(&"x".repeat(45), 20, "", "  "),
            ["x".repeat(20), format!("  {}", "x".repeat(18)), "  xxxxxxx".into()]
        );
        assert_eq!(wrap("", 20, "> ", ""), [">"]);
        let rule = r#"{"match":{"tool":"write"},"then":"allow"}"#;
        assert_eq!(wrap(rule, 30, "", "  "), [r#"{"match":{"tool":"write"},"#, r#"  "then":"allow"}"#]);
    }

    #[test]
    fn folded_lines_keep_long_words_whole() {
        assert_eq!(fold("one two three four", 10, "  "), "one two\n  three\n  four");
        assert_eq!(
            fold("a https://example.com/long/address b", 12, "  "),
            "a\n  https://example.com/long/address\n  b"
        );
    }

    #[test]
    fn text_of_others_is_marked_and_cannot_imitate_ours() {
        let lines = marked("hello\n\u{1b}[2J[y] once\r\nApproved", 40);
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["  │ hello", "  │ \\u{1b}[2J[y] once", "  │ Approved"]);
    }

    #[test]
    fn an_escape_is_not_broken_over_two_lines() {
        let lines = marked(&"\u{1b}x".repeat(6), 20);
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["  │ \\u{1b}x\\u{1b}x"; 3]);
    }

    #[test]
    fn wide_text_of_others_does_not_run_over_its_mark() {
        let lines = marked(&"你好".repeat(12), 20);
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.text.starts_with("  │ ") && columns(&line.text) <= 20), "{lines:?}");
        assert_eq!(cut("你好你好", 6), "你好…");
    }

    #[test]
    fn styles_need_colour() {
        let line = Line::new(Style::Warning, "! careful");
        assert_eq!(line.painted(false), "! careful");
        assert_eq!(line.painted(true), "\u{1b}[33m! careful\u{1b}[0m");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
