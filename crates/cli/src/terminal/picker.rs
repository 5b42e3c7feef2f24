//! A list at the terminal from which the user chooses one row with the arrow keys. It erases itself when it is left.

use std::{
    io::{self, Write},
    ops::Range,
};

use crossterm::{event::KeyCode, terminal};

use super::{
    raw_keys::{self, Pressed, RawKeys},
    text,
};
use crate::{app::App, output::clean, report::Report};

/// Rows that are shown at the same time.
const WINDOW: usize = 10;

/// A list to choose from.
#[derive(Clone, Debug)]
pub(crate) struct Picker {
    pub(crate) title: String,
    /// What is chosen from; not empty.
    pub(crate) rows: Vec<String>,
    /// The row that is marked first.
    pub(crate) selected: usize,
}

/// What a key does.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Moved,
    Chosen,
    Left,
    Ignored,
}

impl Picker {
    /// Lets the user choose; `None` if the list is left without a choice.
    pub(crate) async fn pick(self, app: &App) -> Result<Option<usize>, Report> {
        let picked = raw_keys::read_keys(app, move |keys| self.run(keys, &mut io::stderr()));
        Ok(picked.await?.ok().flatten())
    }

    fn run(mut self, keys: &RawKeys, out: &mut impl Write) -> io::Result<Option<usize>> {
        let size = terminal::size().map_or((80, 24), |(columns, rows)| (usize::from(columns), usize::from(rows)));
        let most = WINDOW.min(size.1.saturating_sub(2)).max(1);
        loop {
            let lines = self.lines(size.0, most);
            write!(out, "{}\r\n", lines.join("\r\n"))?;
            out.flush()?;
            let step = match keys.next()? {
                Pressed::Key(key) => self.press(key, most),
                Pressed::Interrupted => Step::Left,
            };
            // Back to the first line of the list, which the next drawing replaces.
            write!(out, "\u{1b}[{}A\r\u{1b}[J", lines.len())?;
            out.flush()?;
            match step {
                Step::Chosen => return Ok(Some(self.selected)),
                Step::Left => return Ok(None),
                Step::Moved | Step::Ignored => {}
            }
        }
    }

    fn press(&mut self, key: KeyCode, page: usize) -> Step {
        let last = self.rows.len().saturating_sub(1);
        self.selected = match key {
            KeyCode::Enter => return Step::Chosen,
            KeyCode::Esc | KeyCode::Char('q') => return Step::Left,
            KeyCode::Up | KeyCode::Char('k') => self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.selected + 1,
            KeyCode::PageUp => self.selected.saturating_sub(page),
            KeyCode::PageDown => self.selected + page,
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => return Step::Ignored,
        }
        .min(last);
        Step::Moved
    }

    /// The lines of the list, each within the width.
    fn lines(&self, width: usize, most: usize) -> Vec<String> {
        let shown = window(self.rows.len(), self.selected, most);
        let title = format!("{} (↑ ↓, Enter chooses, Esc leaves)", self.title);
        let rows = shown.map(|index| {
            let mark = if index == self.selected { "›" } else { " " };
            format!("{mark} {}", clean::flat(&self.rows[index]))
        });
        std::iter::once(title).chain(rows).map(|line| text::cut(&line, width.saturating_sub(1))).collect()
    }
}

/// The rows that are shown: the selected one is among them.
fn window(rows: usize, selected: usize, most: usize) -> Range<usize> {
    let first = selected.saturating_sub(most / 2).min(rows.saturating_sub(most));
    first..rows.min(first + most)
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyCode;

    use super::{Picker, Step, window};

    #[test]
    fn arrows_move_and_stop_at_the_ends() {
        let rows = ["one", "two", "three"].map(str::to_owned).to_vec();
        let mut picker = Picker { title: "Number".to_owned(), rows, selected: 0 };
        assert_eq!((picker.press(KeyCode::Up, 10), picker.selected), (Step::Moved, 0));
        picker.press(KeyCode::Down, 10);
        assert_eq!(picker.lines(40, 10)[1..], ["  one", "› two", "  three"]);
        picker.press(KeyCode::End, 10);
        picker.press(KeyCode::Down, 10);
        assert_eq!((picker.selected, picker.press(KeyCode::Enter, 10)), (2, Step::Chosen));
        assert_eq!(picker.press(KeyCode::Char('x'), 10), Step::Ignored);
        assert_eq!(picker.press(KeyCode::Esc, 10), Step::Left);
        assert!(picker.lines(12, 10).iter().all(|line| line.chars().count() < 12));
    }

    #[test]
    fn the_selected_row_is_always_shown() {
        for selected in 0..30 {
            let shown = window(30, selected, 10);
            assert!(shown.contains(&selected) && shown.len() == 10, "{selected}: {shown:?}");
        }
        assert_eq!(window(3, 2, 10), 0..3);
    }
}
