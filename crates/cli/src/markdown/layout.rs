//! Words on lines of a given width, behind indents.

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
    at_line_start: bool,
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

impl Layout {
    pub(super) fn new(width: usize) -> Self {
        let (cells, word, indents) = (Vec::new(), Vec::new(), Vec::new());
        Self { width, cells, column: 0, word, space: None, indents, at_line_start: true }
    }

    pub(super) fn into_cells(mut self) -> Vec<Cell> {
        self.end_word();
        self.cells
    }

    /// Adds text that wraps between words.
    pub(super) fn text(&mut self, text: &str, style: Style) {
        for letter in text.chars() {
            if letter.is_whitespace() && letter != '\u{a0}' {
                self.end_word();
                if !self.at_line_start {
                    self.space.get_or_insert(style);
                }
            } else {
                self.word.push(Cell::new(letter, style));
            }
        }
    }

    /// Adds a line as it is, without wrapping.
    pub(super) fn verbatim(&mut self, line: &str, style: Style) {
        self.fresh_line();
        self.begin_line();
        self.cells.extend(line.chars().map(|letter| Cell::new(letter, style)));
        self.at_line_start = false;
    }

    /// Adds cells that are laid out already.
    pub(super) fn raw(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.cells.extend(cells);
        self.at_line_start = false;
    }

    /// Ends the line, unless nothing is on it.
    pub(super) fn fresh_line(&mut self) {
        self.end_word();
        if !self.at_line_start {
            self.new_line();
        }
        self.space = None;
    }

    /// Ends the line.
    pub(super) fn new_line(&mut self) {
        self.end_word();
        self.cells.push(Cell::new('\n', Style::default()));
        (self.column, self.space, self.at_line_start) = (0, None, true);
    }

    /// Indents the lines that follow.
    pub(super) fn indent(&mut self, first: &str, rest: &str, style: Style) {
        self.fresh_line();
        self.indents.push(Indent { first: Some(first.to_owned()), rest: rest.to_owned(), style });
    }

    pub(super) fn outdent(&mut self) {
        self.end_word();
        // An empty item still shows its marker.
        let has_marker = |indent: &Indent| indent.first.as_ref().is_some_and(|first| !first.trim().is_empty());
        if self.indents.last().is_some_and(has_marker) && self.at_line_start {
            self.begin_line();
        }
        self.indents.pop();
    }

    fn begin_line(&mut self) {
        for indent in &mut self.indents {
            let text = indent.first.take().unwrap_or_else(|| indent.rest.clone());
            let cells: Vec<Cell> = text.chars().map(|letter| Cell::new(letter, indent.style)).collect();
            self.column += cells.iter().map(|cell| cell.columns()).sum::<usize>();
            self.cells.extend(cells);
        }
        self.at_line_start = false;
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let columns: usize = word.iter().map(|cell| cell.columns()).sum();
        if self.at_line_start {
            self.begin_line();
        } else if let Some(style) = self.space.take() {
            let width = self.width.max(self.indent_columns() + NARROWEST);
            if self.column + 1 + columns > width {
                self.new_line();
                self.begin_line();
            } else {
                self.cells.push(Cell::new(' ', style));
                self.column += 1;
            }
        }
        self.space = None;
        self.column += columns;
        self.cells.extend(word);
    }

    fn indent_columns(&self) -> usize {
        self.indents.iter().map(|indent| indent.rest.chars().count()).sum()
    }
}
