//! Text tables: each column as wide as its widest cell, except the last.

use super::{Output, clean};

impl Output {
    /// Prints rows with headings; prints nothing without rows. A column with the heading `STATE` is coloured.
    pub(crate) fn table<const N: usize>(&mut self, headings: [&str; N], rows: &[[String; N]]) {
        let state_column = headings.iter().position(|heading| *heading == "STATE");
        if rows.is_empty() {
            return;
        }
        let headings = headings.map(str::to_owned);
        let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| clean::flat(cell))).collect();
        let all = || std::iter::once(&headings).chain(&rows);
        let widths: [usize; N] =
            std::array::from_fn(|column| all().map(|row| row[column].chars().count()).max().unwrap_or(0));
        self.line(&padded(&headings, widths));
        for row in &rows {
            let line = padded(row, widths);
            let first = row[0].len();
            match state_column.filter(|column| line.len() > column_start(row, widths, *column)) {
                Some(column) => {
                    let start = column_start(row, widths, column);
                    let end = start + row[column].len();
                    self.table_row([&line[..first], &line[first..start], &line[start..end], &line[end..]]);
                }
                None => self.entry(&line[..first], &line[first..]),
            }
        }
    }
}

/// Byte at which a column of a padded row begins.
fn column_start<const N: usize>(row: &[String; N], widths: [usize; N], column: usize) -> usize {
    let cell = |(cell, width): (&String, usize)| cell.len() + width - cell.chars().count() + 2;
    row.iter().zip(widths).take(column).map(cell).sum()
}

fn padded<const N: usize>(row: &[String; N], widths: [usize; N]) -> String {
    let cell = |(cell, width): (&String, usize)| format!("{cell}{}", " ".repeat(width - cell.chars().count()));
    let cells: Vec<String> = row.iter().zip(widths).map(cell).collect();
    cells.join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::padded;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        assert_eq!(padded(&["a".to_owned(), "b".to_owned(), "é".to_owned()], [3, 1, 4]), "a    b  é");
    }
}
