//! Words on lines of a given width, behind indents. A line break is written with what follows it, so that nothing that
//! follows has to take it back.

use super::style::{Cell, Style};

/// Places text on lines.
#[derive(Debug)]
pub(super) struct Layout {
    width: usize,
    cells: Vec<Cell>,
    column: usize,
    word: Vec<Cell>,
    /// Style of the space before the word; `None` at the start of a line.
    space: Option<Style>,
    indents: Vec<Indent>,
    line: Line,
}

/// What is on the current line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Empty,
    Begun,
    /// What follows goes to the next line.
    Ended,
}

/// What stands before the lines of a block.
#[derive(Debug)]
struct Indent {
    /// For the first line; taken when it is written.
    first: Option<String>,
    /// For all others.
    rest: String,
    style: Style,
}

/// Columns that a line has at least, however deep it is indented.
const NARROWEST: usize = 8;
/// Joins the characters around it to one picture.
pub(super) const JOINER: char = '\u{200d}';

impl Layout {
    pub(super) fn new(width: usize) -> Self {
        let indents = Vec::new();
        Self { width, cells: Vec::new(), column: 0, word: Vec::new(), space: None, indents, line: Line::Empty }
    }

    /// Everything, the last word included.
    pub(super) fn into_cells(mut self) -> Vec<Cell> {
        self.end_word();
        self.cells
    }

    /// Everything but the last word, which may go on.
    pub(super) fn into_whole_words(self) -> Vec<Cell> {
        self.cells
    }

    /// Adds text that wraps between words, and around wide characters.
    pub(super) fn text(&mut self, text: &str, style: Style) {
        for letter in text.chars() {
            if letter.is_whitespace() && letter != '\u{a0}' {
                self.end_word();
                if self.line == Line::Begun {
                    self.space.get_or_insert(style);
                }
                continue;
            }
            let cell = Cell::new(letter, style);
            if self.word.last().is_some_and(|last| is_break(*last, self.word_columns(), cell)) {
                self.end_word();
            }
            self.word.push(cell);
        }
    }

    /// Adds a line as it is, without wrapping.
    pub(super) fn verbatim(&mut self, line: &[Cell]) {
        self.fresh_line();
        self.begin();
        self.cells.extend_from_slice(line);
        self.fresh_line();
    }

    /// Ends the line, unless nothing is on it.
    pub(super) fn fresh_line(&mut self) {
        self.end_word();
        if self.line == Line::Begun {
            self.line = Line::Ended;
        }
        self.space = None;
    }

    /// Indents the lines that follow.
    pub(super) fn indent(&mut self, first: &str, rest: &str, style: Style) {
        self.fresh_line();
        self.indents.push(Indent { first: Some(first.to_owned()), rest: rest.to_owned(), style });
    }

    pub(super) fn outdent(&mut self) {
        self.fresh_line();
        // An empty item still shows its marker.
        let has_marker = |indent: &Indent| indent.first.as_ref().is_some_and(|first| !first.trim().is_empty());
        if self.indents.last().is_some_and(has_marker) {
            self.begin();
            self.fresh_line();
        }
        self.indents.pop();
    }

    /// Columns that a line has behind its indent.
    pub(super) fn room(&self) -> usize {
        self.width.saturating_sub(self.indent_columns()).max(NARROWEST)
    }

    pub(super) fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let columns = self.word_columns();
        let space = self.space.take();
        if self.line == Line::Begun {
            let width = self.indent_columns() + self.room();
            if self.column + usize::from(space.is_some()) + columns > width {
                self.line = Line::Ended;
            } else if let Some(style) = space {
                self.cells.push(Cell::new(' ', style));
                self.column += 1;
            }
        }
        self.begin();
        self.column += columns;
        self.cells.append(&mut self.word);
    }

    /// Begins a line, unless one is begun.
    fn begin(&mut self) {
        if self.line == Line::Begun {
            return;
        }
        if self.line == Line::Ended {
            self.cells.push(Cell::new('\n', Style::default()));
        }
        (self.line, self.column) = (Line::Begun, 0);
        for indent in &mut self.indents {
            let text = indent.first.take().unwrap_or_else(|| indent.rest.clone());
            let cells: Vec<Cell> = text.chars().map(|letter| Cell::new(letter, indent.style)).collect();
            self.column += cells.iter().map(|cell| cell.columns()).sum::<usize>();
            self.cells.extend(cells);
        }
    }

    fn word_columns(&self) -> usize {
        self.word.iter().map(|cell| cell.columns()).sum()
    }

    fn indent_columns(&self) -> usize {
        self.indents.iter().map(|indent| indent.rest.chars().count()).sum()
    }
}

/// Whether a line may end between two characters of a text without spaces.
fn is_break(last: Cell, columns: usize, next: Cell) -> bool {
    let is_joined = last.letter == JOINER || next.columns() == 0 || columns == 0;
    !is_joined && (last.columns() == 2 || next.columns() == 2)
}
