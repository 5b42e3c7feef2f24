//! Styled characters, and the control sequences for them.

use unicode_width::UnicodeWidthChar;

use crate::output::Colour;

/// How a character looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) bold: bool,
    pub(super) italic: bool,
    pub(super) underlined: bool,
    pub(super) struck: bool,
    pub(super) dim: bool,
    pub(super) code: bool,
}

/// One character on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) letter: char,
    pub(super) style: Style,
}

/// Writes cells with as few control sequences as possible.
#[derive(Debug)]
pub(super) struct Pen {
    colour: Colour,
    style: Style,
}

impl Cell {
    pub(super) fn new(letter: char, style: Style) -> Self {
        Self { letter, style }
    }

    /// Columns that it takes.
    pub(super) fn columns(self) -> usize {
        self.letter.width().unwrap_or(0)
    }
}

impl Pen {
    pub(super) fn new(colour: Colour) -> Self {
        Self { colour, style: Style::default() }
    }

    pub(super) fn write(&mut self, cell: Cell, out: &mut String) {
        // Underlines and strokes of blanks would show.
        let style = if cell.letter == '\n' { Style::default() } else { cell.style };
        if self.colour == Colour::Yes && style != self.style {
            out.push_str(self.reset());
            out.push_str(&sequence(style));
            self.style = style;
        }
        out.push(cell.letter);
    }

    /// The sequence that ends all styles.
    pub(super) fn reset(&mut self) -> &'static str {
        let was_styled = std::mem::take(&mut self.style) != Style::default();
        if was_styled { "\u{1b}[0m" } else { "" }
    }
}

fn sequence(style: Style) -> String {
    let codes = [
        (style.bold, "1"),
        (style.dim, "2"),
        (style.italic, "3"),
        (style.underlined, "4"),
        (style.struck, "9"),
        (style.code, "36"),
    ];
    let codes: Vec<&str> = codes.into_iter().filter(|(is_on, _)| *is_on).map(|(_, code)| code).collect();
    if codes.is_empty() { String::new() } else { format!("\u{1b}[{}m", codes.join(";")) }
}
