//! Tables, fitted to the width: cells of wide columns wrap.

use pulldown_cmark::Alignment;

use super::{
    layout::Layout,
    style::{Cell, Style},
};

/// A table as far as it is read. The first row is the head.
#[derive(Debug, Default)]
pub(super) struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Pieces>>,
    row: Vec<Pieces>,
    cell: Pieces,
}

/// Pieces of text of one cell.
type Pieces = Vec<(String, Style)>;
/// Lines of one cell.
type Lines = Vec<Vec<Cell>>;

/// Columns of a column that was shrunk.
const NARROWEST: usize = 6;
/// Between two columns.
const GAP: &str = " │ ";
const GAP_COLUMNS: usize = 3;

impl Table {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, ..Self::default() }
    }

    pub(super) fn text(&mut self, text: &str, style: Style) {
        let bold = style.bold || self.rows.is_empty();
        self.cell.push((text.to_owned(), Style { bold, ..style }));
    }

    pub(super) fn end_cell(&mut self) {
        self.row.push(std::mem::take(&mut self.cell));
    }

    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    pub(super) fn into_cells(self, width: usize) -> Vec<Cell> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let widths = self.widths(count, width);
        let mut cells = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            if number == 1 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                cells.extend(plain(&rule.join("─┼─")));
                cells.extend(plain("\n"));
            }
            if number > 1 {
                cells.extend(plain("\n"));
            }
            cells.extend(self.row(row, &widths));
            if number == 0 && self.rows.len() > 1 {
                cells.extend(plain("\n"));
            }
        }
        cells
    }

    /// The widest columns are shrunk until the table fits.
    fn widths(&self, count: usize, width: usize) -> Vec<usize> {
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| lines(cell, usize::MAX).iter().map(|line| columns(line)).max().unwrap_or(0)).max()
        };
        let mut widths: Vec<usize> = (0..count).map(|column| widest(column).unwrap_or(0).max(1)).collect();
        let room = width.saturating_sub(GAP_COLUMNS * count.saturating_sub(1));
        while widths.iter().sum::<usize>() > room {
            let Some(wide) = widths.iter_mut().max().filter(|wide| **wide > NARROWEST) else { break };
            *wide -= 1;
        }
        widths
    }

    fn row(&self, row: &[Pieces], widths: &[usize]) -> Vec<Cell> {
        let wrapped: Vec<Lines> = row.iter().zip(widths).map(|(cell, width)| lines(cell, *width)).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(1).max(1);
        let mut cells = Vec::new();
        for line in 0..height {
            if line > 0 {
                cells.extend(plain("\n"));
            }
            for (column, width) in widths.iter().enumerate() {
                if column > 0 {
                    cells.extend(plain(GAP));
                }
                let empty = Vec::new();
                let text = wrapped.get(column).and_then(|lines| lines.get(line)).unwrap_or(&empty);
                let (before, after) = self.blanks(column, width.saturating_sub(columns(text)));
                cells.extend(plain(&" ".repeat(before)));
                cells.extend(text.iter().copied());
                if column + 1 < widths.len() {
                    cells.extend(plain(&" ".repeat(after)));
                }
            }
        }
        cells
    }

    /// The blanks before and after the text of a cell.
    fn blanks(&self, column: usize, blanks: usize) -> (usize, usize) {
        match self.alignments.get(column) {
            Some(Alignment::Right) => (blanks, 0),
            Some(Alignment::Center) => (blanks / 2, blanks - blanks / 2),
            _ => (0, blanks),
        }
    }
}

/// The lines of a cell of this width.
fn lines(cell: &Pieces, width: usize) -> Lines {
    let mut layout = Layout::new(width);
    for (text, style) in cell {
        layout.text(text, *style);
    }
    layout.into_cells().split(|cell| cell.letter == '\n').map(<[Cell]>::to_vec).collect()
}

fn columns(line: &[Cell]) -> usize {
    line.iter().map(|cell| cell.columns()).sum()
}

fn plain(text: &str) -> Vec<Cell> {
    Cell::all(text, Style::default())
}
