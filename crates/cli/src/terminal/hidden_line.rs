//! One line at the terminal that is not shown: the value of a secret. It works without the queue of prompts, for a command
//! that asks nothing else.

use std::io::{self, Write};

use crossterm::{
    event::{self, DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEventKind, KeyModifiers},
    execute, terminal,
};

use super::line_editor::{Edit, LineEditor};

/// How the line ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HiddenLine {
    /// Enter after this text, which may be empty.
    Text(String),
    /// Escape, Ctrl-C or Ctrl-D.
    Left,
    /// Text of several lines was pasted; a line break would be lost.
    SeveralLines,
}

/// Raw mode, until it is dropped.
struct RawMode;

/// Reads one line after `prompt`, on standard error. Nothing of it is shown, not even its length. Blocks the thread.
pub(crate) fn read(prompt: &str) -> io::Result<HiddenLine> {
    let mut stderr = io::stderr();
    write!(stderr, "{prompt}").and_then(|()| stderr.flush())?;
    let raw = RawMode::enter()?;
    let mut editor = LineEditor::hidden();
    let line = loop {
        let edit = match event::read()? {
            Event::Key(key) if key.kind == KeyEventKind::Release => Edit::Ignored,
            Event::Key(key) if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) => {
                Edit::Left
            }
            Event::Key(key) => editor.press(key),
            Event::Paste(text) if text.trim().contains(['\n', '\r']) => break HiddenLine::SeveralLines,
            Event::Paste(text) => {
                editor.insert(text.trim_end_matches(['\n', '\r']));
                Edit::Changed
            }
            _ => Edit::Ignored,
        };
        match edit {
            Edit::Changed | Edit::Ignored => {}
            Edit::Done => break HiddenLine::Text(editor.text()),
            Edit::Left | Edit::Nothing => break HiddenLine::Left,
        }
    };
    drop(raw);
    writeln!(stderr)?;
    Ok(line)
}

impl RawMode {
    fn enter() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let raw = Self;
        execute!(io::stderr(), EnableBracketedPaste)?;
        Ok(raw)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _gone = execute!(io::stderr(), DisableBracketedPaste);
        let _gone = terminal::disable_raw_mode();
    }
}
