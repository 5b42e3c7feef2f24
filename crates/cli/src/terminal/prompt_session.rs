//! One prompt on the terminal: raw mode, its keys and its lines. The terminal is restored when the prompt ends, and at
//! once when the last item it asks about is withdrawn.

use std::{
    io::{self, Write},
    time::Duration,
};

use crossterm::{
    event::{self, DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    execute, terminal,
};

use super::{
    line_editor::{Edit, LineEditor},
    prompt_queue::{PromptQueue, State},
    text::{self, Line, Style},
};

/// A prompt on the screen.
pub(super) struct PromptSession<'a> {
    pub(super) queue: &'a PromptQueue,
}

/// What a prompt reads.
#[derive(Debug)]
pub(super) enum KeyInput {
    Key(KeyEvent),
    /// Pasted text. It never answers a question of one key.
    Paste(String),
    /// Nothing for a moment.
    Tick,
}

/// How a line ends.
#[derive(Debug)]
pub(super) enum TypedLine {
    /// Enter after this text, which may be empty.
    Text(String),
    /// Ctrl-D: no value.
    Nothing,
    /// The Escape key, which gives the line up.
    Left,
}

/// Why a prompt ends without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptEnd {
    /// Everything it asks about was answered elsewhere, has expired, or its call has ended.
    Withdrawn,
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The terminal is gone.
    Closed,
}

/// Longest wait for a key before a prompt looks around.
pub(super) const TICK: Duration = Duration::from_millis(40);
/// End of a line; on Unix the terminal adds the carriage return.
const LINE_END: &str = if cfg!(unix) { "\n" } else { "\r\n" };
/// Columns of a terminal that does not tell its width.
const USUAL_WIDTH: usize = 80;

// === impl PromptSession ===

impl<'a> PromptSession<'a> {
    /// Takes the terminal. Keys that were typed before the prompt is visible are discarded: they are not an answer to it.
    pub(super) fn open(queue: &'a PromptQueue) -> Result<Self, PromptEnd> {
        let mut state = queue.state.lock();
        if state.shown.is_empty() {
            return Err(PromptEnd::Withdrawn);
        }
        enter(&mut state).map_err(|_| PromptEnd::Closed)?;
        drop(state);
        while event::poll(Duration::ZERO).map_err(|_| PromptEnd::Closed)? {
            event::read().map_err(|_| PromptEnd::Closed)?;
        }
        Ok(Self { queue })
    }

    /// Columns of the terminal.
    pub(super) fn width(&self) -> usize {
        terminal::size().map_or(USUAL_WIDTH, |(columns, _)| if columns == 0 { USUAL_WIDTH } else { columns.into() })
    }

    /// Prints lines, unless the prompt was withdrawn.
    pub(super) fn print(&self, lines: &[Line]) -> Result<(), PromptEnd> {
        let text: String =
            lines.iter().map(|line| format!("{}{LINE_END}", line.painted(self.queue.is_coloured))).collect();
        self.write(&format!("\r\u{1b}[K{text}"))
    }

    /// Prints text of ours.
    pub(super) fn say(&self, style: Style, text: &str) -> Result<(), PromptEnd> {
        self.print(&text::lines(style, text, self.width()))
    }

    /// Waits a moment for input. Ctrl-C ends the prompt.
    pub(super) fn read(&self) -> Result<KeyInput, PromptEnd> {
        self.check()?;
        if !event::poll(TICK).map_err(|_| PromptEnd::Closed)? {
            return Ok(KeyInput::Tick);
        }
        // Withdrawn meanwhile: the key belongs to what comes next.
        self.check()?;
        match event::read().map_err(|_| PromptEnd::Closed)? {
            Event::Key(key) if key.kind == KeyEventKind::Release => Ok(KeyInput::Tick),
            Event::Key(key) if is_control(key, 'c') => Err(PromptEnd::Interrupted),
            Event::Key(key) => Ok(KeyInput::Key(key)),
            Event::Paste(text) => Ok(KeyInput::Paste(text)),
            _ => Ok(KeyInput::Tick),
        }
    }

    /// Asks for one of these keys. Each is shown with what it does.
    pub(super) fn choose(&self, choices: &[(char, &str)]) -> Result<char, PromptEnd> {
        self.show_choices(choices)?;
        loop {
            if let KeyInput::Key(key) = self.read()?
                && let Some(chosen) = choice(key, choices)
            {
                return Ok(chosen);
            }
        }
    }

    /// Prints the keys of a question.
    pub(super) fn show_choices(&self, choices: &[(char, &str)]) -> Result<(), PromptEnd> {
        // Spaces that do not break keep a key and its meaning on one line.
        let keys: Vec<String> =
            choices.iter().map(|(key, what)| format!("[{key}]\u{a0}{}", what.replace(' ', "\u{a0}"))).collect();
        let lines = text::wrap(&keys.join("  "), self.width(), "", "");
        let lines: Vec<Line> =
            lines.into_iter().map(|line| Line::new(Style::Strong, line.replace('\u{a0}', " "))).collect();
        self.print(&lines)
    }

    /// Reads one line after `prompt`.
    pub(super) fn read_line(&self, prompt: &str, mut editor: LineEditor) -> Result<TypedLine, PromptEnd> {
        self.draw(prompt, &editor)?;
        let line = loop {
            let input = self.read();
            if matches!(input, Err(PromptEnd::Interrupted)) {
                self.write(LINE_END)?;
            }
            let edit = match input? {
                KeyInput::Key(key) => editor.press(key),
                KeyInput::Paste(text) => {
                    editor.insert(&text);
                    Edit::Changed
                }
                KeyInput::Tick => Edit::Ignored,
            };
            match edit {
                Edit::Changed => self.draw(prompt, &editor)?,
                Edit::Ignored => {}
                Edit::Done => break TypedLine::Text(editor.text()),
                Edit::Nothing => break TypedLine::Nothing,
                Edit::Left => break TypedLine::Left,
            }
        };
        self.write(LINE_END)?;
        Ok(line)
    }

    fn draw(&self, prompt: &str, editor: &LineEditor) -> Result<(), PromptEnd> {
        let room = self.width().saturating_sub(text::columns(prompt) + 1);
        let (shown, cursor) = editor.view(room);
        let back = match text::columns(&shown).saturating_sub(cursor) {
            0 => String::new(),
            columns => format!("\u{1b}[{columns}D"),
        };
        self.write(&format!("\r\u{1b}[K{prompt}{shown}{back}"))
    }

    fn write(&self, text: &str) -> Result<(), PromptEnd> {
        let state = self.queue.state.lock();
        if state.shown.is_empty() {
            return Err(PromptEnd::Withdrawn);
        }
        let mut stderr = io::stderr().lock();
        stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()).map_err(|_| PromptEnd::Closed)
    }

    fn check(&self) -> Result<(), PromptEnd> {
        if self.queue.state.lock().shown.is_empty() { Err(PromptEnd::Withdrawn) } else { Ok(()) }
    }
}

impl Drop for PromptSession<'_> {
    fn drop(&mut self) {
        leave(&mut self.queue.state.lock());
    }
}

/// The choice that a key stands for.
pub(super) fn choice(key: KeyEvent, choices: &[(char, &str)]) -> Option<char> {
    let KeyCode::Char(letter) = key.code else { return None };
    if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        return None;
    }
    choices.iter().map(|(key, _)| *key).find(|key| letter.eq_ignore_ascii_case(key))
}

/// Prints a line outside a prompt.
pub(super) fn print(text: &str) {
    let mut stderr = io::stderr().lock();
    let _gone = writeln!(stderr, "{text}");
}

/// Ends a prompt whose items are withdrawn.
pub(super) fn restore(state: &mut State) {
    if state.is_raw {
        let _gone = io::stderr().lock().write_all(LINE_END.as_bytes());
        leave(state);
    }
}

/// Sends this process the signal of Ctrl-C, which raw mode has suppressed; returns whether that is possible.
pub(super) fn interrupt() -> bool {
    #[cfg(unix)]
    return rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT).is_ok();
    #[cfg(not(unix))]
    false
}

fn enter(state: &mut State) -> io::Result<()> {
    discard_input();
    terminal::enable_raw_mode()?;
    state.is_raw = true;
    keep_output_processing();
    execute!(io::stderr(), EnableBracketedPaste)
}

/// Gives the terminal back.
pub(super) fn leave(state: &mut State) {
    if std::mem::take(&mut state.is_raw) {
        // The terminal may be gone.
        let _gone = execute!(io::stderr(), DisableBracketedPaste);
        let _gone = terminal::disable_raw_mode();
    }
}

fn is_control(key: KeyEvent, letter: char) -> bool {
    key.code == KeyCode::Char(letter) && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// Discards what was typed and not read.
pub(super) fn discard_input() {
    #[cfg(unix)]
    let _gone = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
}

/// Raw mode turns line feeds of others, such as log lines, into staircases; this turns that part of it off.
pub(super) fn keep_output_processing() {
    #[cfg(unix)]
    if let Ok(mut modes) = rustix::termios::tcgetattr(io::stdin()) {
        modes.output_modes |= rustix::termios::OutputModes::OPOST;
        let _gone = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Now, &modes);
    }
}
