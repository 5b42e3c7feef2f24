//! Lists of records in every format: a table, an array, an object per line, or ids.

use serde_json::Value;
use toolway_wire::json::Raw;

use super::{Format, Output};
use crate::clock::Clock;

/// How the items of a list are shown.
pub(crate) struct Listing<'a, T, const N: usize> {
    /// Notice if there are none.
    pub(crate) empty: &'a str,
    /// Headings of the table.
    pub(crate) headings: [&'a str; N],
    /// Cells of the table.
    pub(crate) row: fn(&T, Clock) -> [String; N],
    /// The line of the raw format.
    pub(crate) id: fn(&T) -> String,
    /// The object for scripts.
    pub(crate) view: fn(&T) -> Value,
}

impl Output {
    /// Prints a list in the format of the command.
    pub(crate) fn listing<T, const N: usize>(&mut self, items: &[T], listing: &Listing<'_, T, N>) {
        match self.format {
            Format::Human if items.is_empty() => self.notice(&format!("toolway: {}", listing.empty)),
            Format::Human => {
                let clock = self.clock();
                let rows: Vec<_> = items.iter().map(|item| (listing.row)(item, clock)).collect();
                self.table(listing.headings, &rows);
            }
            Format::Raw => items.iter().for_each(|item| self.content(format!("{}\n", (listing.id)(item)).as_bytes())),
            Format::Json => self.json(&Raw::of(&items.iter().map(listing.view).collect::<Vec<_>>())),
            Format::Ndjson => items.iter().for_each(|item| self.json(&Raw::of(&(listing.view)(item)))),
        }
    }
}
