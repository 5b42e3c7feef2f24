//! Editing of one line: keys in, text and cursor out. No input and no output.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::output::clean;

/// A line being edited.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineEditor {
    letters: Vec<char>,
    cursor: usize,
    /// Whether the text is hidden.
    is_secret: bool,
}

/// What a key did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    Changed,
    Ignored,
    /// The Enter key: the line is complete.
    Done,
    /// The Escape key: the line is abandoned.
    Left,
    /// Ctrl-D on an empty line: no value at all.
    Nothing,
}

/// Maximum length of a line, more than a user types or pastes.
const MAX_LETTERS: usize = 64 * 1024;

impl LineEditor {
    /// A line whose text is not shown.
    pub(crate) fn hidden() -> Self {
        Self { is_secret: true, ..Self::default() }
    }

    pub(crate) fn text(&self) -> String {
        self.letters.iter().collect()
    }

    /// Inserts text of the user at the cursor; line breaks become spaces, and other control characters are left out.
    pub(crate) fn insert(&mut self, given: &str) {
        let room = MAX_LETTERS.saturating_sub(self.letters.len());
        let given = given.replace("\r\n", "\n").replace(['\n', '\r', '\t'], " ");
        for letter in given.chars().filter(|letter| !letter.is_control()).take(room) {
            self.letters.insert(self.cursor, letter);
            self.cursor += 1;
        }
    }

    pub(crate) fn press(&mut self, key: KeyEvent) -> Edit {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Enter => return Edit::Done,
            KeyCode::Esc => return Edit::Left,
            KeyCode::Char('j' | 'm') if control => return Edit::Done,
            KeyCode::Char('d') if control && self.letters.is_empty() => return Edit::Nothing,
            KeyCode::Char('a') if control => self.cursor = 0,
            KeyCode::Char('e') if control => self.cursor = self.letters.len(),
            KeyCode::Char('u') if control => drop(self.letters.drain(..std::mem::take(&mut self.cursor))),
            KeyCode::Char('k') if control => self.letters.truncate(self.cursor),
            KeyCode::Char('w') if control => self.erase_word(),
            KeyCode::Char('h') if control => self.erase(),
            KeyCode::Char(letter) if !control && !key.modifiers.contains(KeyModifiers::ALT) => {
                self.insert(letter.encode_utf8(&mut [0; 4]));
            }
            KeyCode::Backspace => self.erase(),
            KeyCode::Delete if self.cursor < self.letters.len() => drop(self.letters.remove(self.cursor)),
            KeyCode::Left => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Right => self.cursor = (self.cursor + 1).min(self.letters.len()),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.letters.len(),
            _ => return Edit::Ignored,
        }
        Edit::Changed
    }

    /// The part of the line around the cursor that fits into `width` columns, and the column of the cursor in that part.
    pub(crate) fn view(&self, width: usize) -> (String, usize) {
        let width = width.max(4);
        let shown = |letter: &char| if self.is_secret { '•' } else { *letter };
        let (mut start, mut cursor) = (self.cursor, 0);
        for letter in self.letters[..self.cursor].iter().rev().map(shown) {
            if width <= cursor + clean::letter_columns(letter) {
                break;
            }
            cursor += clean::letter_columns(letter);
            start -= 1;
        }
        let mut used = 0;
        let fits = |letter: &char| {
            used += clean::letter_columns(*letter);
            used <= width
        };
        (self.letters[start..].iter().map(shown).take_while(fits).collect(), cursor)
    }

    fn erase(&mut self) {
        if 0 < self.cursor {
            self.cursor -= 1;
            self.letters.remove(self.cursor);
        }
    }

    fn erase_word(&mut self) {
        let is_space = |letter: Option<&char>| letter.is_some_and(|letter| letter.is_whitespace());
        while 0 < self.cursor && is_space(self.letters.get(self.cursor - 1)) {
            self.erase();
        }
        while 0 < self.cursor && !is_space(self.letters.get(self.cursor - 1)) {
            self.erase();
        }
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::{Edit, LineEditor};

    fn press(editor: &mut LineEditor, code: KeyCode) -> Edit {
        editor.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn a_line_is_edited_anywhere() {
        let mut editor = LineEditor::default();
        "hello wrld".chars().for_each(|letter| assert_eq!(press(&mut editor, KeyCode::Char(letter)), Edit::Changed));
        (0..3).for_each(|_| assert_eq!(press(&mut editor, KeyCode::Left), Edit::Changed));
        press(&mut editor, KeyCode::Char('o'));
        assert_eq!(editor.text(), "hello world");
        press(&mut editor, KeyCode::End);
        editor.press(KeyEvent::new(KeyCode::Char('w'), KeyModifiers::CONTROL));
        assert_eq!(editor.text(), "hello ");
        editor.insert("a\nb\u{1b}[31m");
        assert_eq!(editor.text(), "hello a b[31m");
        assert_eq!(press(&mut editor, KeyCode::Enter), Edit::Done);
    }

    #[test]
    fn the_view_follows_the_cursor_and_hides_secrets() {
        let mut editor = LineEditor::default();
        editor.insert("0123456789");
        assert_eq!(editor.view(5), ("6789".to_owned(), 4));
        editor.is_secret = true;
        assert_eq!(editor.view(20), ("••••••••••".to_owned(), 10));
        let mut wide = LineEditor::default();
        wide.insert("你好吗");
        assert_eq!(wide.view(20), ("你好吗".to_owned(), 6));
        assert_eq!(wide.view(5), ("好吗".to_owned(), 4));
    }
}
