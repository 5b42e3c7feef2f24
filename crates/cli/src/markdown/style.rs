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
    pub(super) paint: Paint,
}

/// What a character is in code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Paint {
    /// Text that is no code.
    #[default]
    None,
    Code,
    Comment,
    Keyword,
    Number,
    Quoted,
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

    /// A text in one style.
    pub(super) fn all(text: &str, style: Style) -> Vec<Self> {
        text.chars().map(|letter| Self::new(letter, style)).collect()
    }

    /// Columns that it takes.
    pub(super) fn columns(self) -> usize {
        self.letter.width().unwrap_or(0)
    }
}

impl Paint {
    /// Code of its colour; `None` for the usual one.
    fn code(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Code => Some("36"),
            Self::Comment => Some("90"),
            Self::Keyword => Some("35"),
            Self::Number => Some("33"),
            Self::Quoted => Some("32"),
        }
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
    let codes =
        [(style.bold, "1"), (style.dim, "2"), (style.italic, "3"), (style.underlined, "4"), (style.struck, "9")];
    let mut codes: Vec<&str> = codes.into_iter().filter(|(is_on, _)| *is_on).map(|(_, code)| code).collect();
    codes.extend(style.paint.code());
    if codes.is_empty() { String::new() } else { format!("\u{1b}[{}m", codes.join(";")) }
}
