//! Text tables: each column as wide as its widest cell. A table that is too wide for the terminal is cut in its widest
//! columns, or has its last column below each row, or becomes a list of fields. Headings are shown in all of them.

use super::{Colour, Output, clean, state};
use crate::terminal::text;

/// How the rows are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Layout {
    /// One line per row, with columns of these widths.
    Columns(Vec<usize>),
    /// Like `Columns`, with the last cell on lines of its own.
    LastBelow(Vec<usize>),
    /// One line per cell.
    Fields,
}

/// Between two columns.
const GAP: &str = "  ";
/// A column is not cut below this width.
const NARROWEST: usize = 10;

impl Output {
    /// Prints rows with headings; prints nothing without rows. A column with the heading `STATE` is coloured.
    pub(crate) fn table<const N: usize>(&mut self, headings: [&str; N], rows: &[[String; N]]) {
        if rows.is_empty() {
            return;
        }
        let headings: Vec<String> = headings.map(str::to_owned).into();
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| clean::flat(cell)).collect()).collect();
        let all = || std::iter::once(&headings).chain(&rows);
        let widest = |column: usize| all().map(|row| text::columns(&row[column])).max().unwrap_or(0);
        let natural: Vec<usize> = (0..N).map(widest).collect();
        match self.width.map_or_else(|| Layout::Columns(natural.clone()), |width| layout(&natural, width)) {
            Layout::Columns(widths) => self.columns(&headings, &rows, &widths),
            Layout::LastBelow(widths) => self.last_below(&headings, &rows, &widths),
            Layout::Fields => self.fields(&headings, &rows),
        }
    }

    fn columns(&mut self, headings: &[String], rows: &[Vec<String>], widths: &[usize]) {
        self.line(&padded(headings, widths).concat());
        for row in rows {
            let line = self.painted(headings, padded(row, widths));
            self.print_clean(&line);
        }
    }

    fn last_below(&mut self, headings: &[String], rows: &[Vec<String>], widths: &[usize]) {
        let (Some((last, first)), width) = (headings.split_last(), self.width.unwrap_or(usize::MAX)) else { return };
        self.line(&format!("{}\n    {last}", padded(first, widths).concat()));
        for row in rows {
            let Some((last, cells)) = row.split_last() else { continue };
            let line = self.painted(first, padded(cells, widths));
            self.print_clean(&line);
            self.line(&text::wrap(last, width, "    ", "    ").join("\n"));
        }
    }

    fn fields(&mut self, headings: &[String], rows: &[Vec<String>]) {
        let (longest, width) = (headings.iter().map(|heading| text::columns(heading)).max(), self.width);
        let (longest, width) = (longest.unwrap_or(0), width.unwrap_or(usize::MAX));
        for (number, row) in rows.iter().enumerate() {
            if number > 0 {
                self.line("");
            }
            for (heading, cell) in headings.iter().zip(row) {
                let fits = longest + GAP.len() + text::columns(cell) <= width;
                let line = if fits {
                    format!("{heading:<longest$}{GAP}{cell}")
                } else {
                    format!("{heading}\n{}", text::wrap(cell, width, GAP, GAP).join("\n"))
                };
                self.line(&line);
            }
        }
    }

    /// A row of clean, padded cells: the first is bold, a state is coloured by its meaning.
    fn painted(&self, headings: &[String], mut cells: Vec<String>) -> String {
        if self.colour == Colour::Yes {
            for (heading, cell) in headings.iter().zip(&mut cells) {
                let padding = cell.len() - cell.trim_end().len();
                let (word, rest) = cell.split_at(cell.len() - padding);
                if heading == "STATE" {
                    *cell = format!("{}{rest}", state::painted(word));
                }
            }
            if let Some(first) = cells.first_mut().filter(|_| headings.first().is_none_or(|first| first != "STATE")) {
                let (word, rest) = first.split_at(first.trim_end().len());
                *first = format!("\u{1b}[1m{word}\u{1b}[0m{rest}");
            }
        }
        cells.concat()
    }
}

/// The layout of columns that want to be this wide.
fn layout(natural: &[usize], width: usize) -> Layout {
    let (last, first) = natural.split_last().map_or((0, natural), |(last, first)| (*last, first));
    let is_last_widest = first.iter().all(|column| *column <= last);
    if total(natural) <= width {
        return Layout::Columns(natural.to_vec());
    }
    // The last column is never cut.
    if let (false, Some(widths)) = (is_last_widest, shrunk(natural, first.len(), width)) {
        return Layout::Columns(widths);
    }
    shrunk(first, first.len(), width).filter(|first| !first.is_empty()).map_or(Layout::Fields, Layout::LastBelow)
}

/// Columns of a row with these widths.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
}

/// Widths that fit, of which the first `most` may give way: always the widest, so that each keeps as much as possible.
fn shrunk(widths: &[usize], most: usize, width: usize) -> Option<Vec<usize>> {
    let mut widths = widths.to_vec();
    while width < total(&widths) {
        let widest = widths.iter_mut().take(most).max_by_key(|wide| **wide).filter(|wide| NARROWEST < **wide)?;
        *widest -= 1;
    }
    Some(widths)
}

/// Cells with the blanks after them, except after the last one with text.
fn padded(row: &[String], widths: &[usize]) -> Vec<String> {
    let cells = row.iter().zip(widths).map(|(cell, width)| {
        let cell = text::cut(cell, *width);
        format!("{cell}{}{GAP}", " ".repeat(width - text::columns(&cell)))
    });
    let mut cells: Vec<String> = cells.collect();
    for cell in cells.iter_mut().rev() {
        cell.truncate(cell.trim_end().len());
        if !cell.is_empty() {
            break;
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::{Layout, layout, padded};

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        assert_eq!(padded(&row(&["a", "b", "é"]), &[3, 1, 4]).concat(), "a    b  é");
        assert_eq!(padded(&row(&["a", "", ""]), &[3, 1, 4]).concat(), "a");
        assert_eq!(padded(&row(&["abcdef", "b"]), &[4, 1]).concat(), "abc…  b");
    }

    #[test]
    fn a_table_that_is_too_wide_gives_way_in_its_widest_column() {
        assert_eq!(layout(&[20, 9, 36], 80), Layout::Columns(vec![20, 9, 36]));
        assert_eq!(layout(&[24, 9, 10, 6, 18, 36], 80), Layout::LastBelow(vec![24, 9, 10, 6, 18]));
        assert_eq!(layout(&[42, 5, 6, 7, 7, 8, 8], 80), Layout::Columns(vec![27, 5, 6, 7, 7, 8, 8]));
        assert_eq!(layout(&[24, 9, 10, 6, 18, 36], 40), Layout::Fields);
        assert_eq!(layout(&[90], 40), Layout::Fields);
    }

    /// Lists put there what must be read to its end, such as what a saved approval covers.
    #[test]
    fn the_last_column_is_never_cut() {
        for first in [5, 20, 36, 70] {
            for last in [0, 5, 36, 70, 500] {
                let widths = layout(&[36, first, last], 100);
                assert!(!matches!(&widths, Layout::Columns(widths) if widths[2] < last), "{first} {last}: {widths:?}");
            }
        }
    }
}
