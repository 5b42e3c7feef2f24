//! The line editor, on a thread of its own, because reading keys blocks.

use std::{borrow::Cow, path::PathBuf, sync::mpsc, thread};

use reedline::{
    ColumnarMenu, EditCommand, Emacs, FileBackedHistory, KeyCode, KeyModifiers, MenuBuilder, Prompt, PromptEditMode,
    PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, Signal, default_emacs_keybindings,
};
use tokio::sync::{OwnedRwLockWriteGuard, oneshot};
use toolway_host::private_file;

use super::{seen_text::SeenText, terminal_gate::TerminalGate, words::Words};
use crate::output::Colour;

/// Reads lines at the terminal.
#[derive(Debug)]
pub(crate) struct Editor {
    requests: mpsc::Sender<Request>,
    gate: TerminalGate,
    /// The line that is being read.
    reading: Option<Reading>,
    /// What the next message begins with.
    prefill: String,
}

#[derive(Debug)]
struct Reading {
    line: oneshot::Receiver<EditedLine>,
    _terminal: OwnedRwLockWriteGuard<()>,
}

/// What the user entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EditedLine {
    /// A message, possibly of several lines.
    Text(String),
    /// Ctrl-C on an empty line.
    Interrupted,
    /// Ctrl-C on a line with text, which is dropped.
    Dropped,
    /// Reading was interrupted for something else at the terminal. What was typed is there again when it goes on.
    Suspended,
    /// Ctrl-D, or the end of the input.
    End,
}

/// What the editor needs.
pub(crate) struct EditorOptions {
    /// File of earlier messages; `None`: they are forgotten.
    pub(crate) history: Option<PathBuf>,
    pub(crate) words: Words,
    pub(crate) colour: Colour,
    pub(crate) gate: TerminalGate,
}

struct Request {
    label: Label,
    /// Text that stands there already.
    prefill: String,
    reply: oneshot::Sender<EditedLine>,
}

/// The text before the cursor.
#[derive(Clone, Debug)]
enum Label {
    /// For a message, with a line about background tasks above it.
    Message(TerminalGate),
    /// For a value with this name.
    Value(String),
}

/// Messages that are remembered.
const REMEMBERED: usize = 1_000;
const MENU: &str = "words";

impl Editor {
    /// Starts the thread. It ends with the process, or when this is dropped and no line is being read.
    pub(crate) fn start(options: EditorOptions) -> std::io::Result<Self> {
        let (requests, received) = mpsc::channel::<Request>();
        let gate = options.gate.clone();
        thread::Builder::new().name("editor".to_owned()).spawn(move || {
            let (mut messages, seen) = (None, SeenText::default());
            let colour = options.colour;
            let mut options = Some(options);
            while let Ok(Request { label, prefill, reply }) = received.recv() {
                let line = match &label {
                    Label::Message(_) => {
                        let editor = messages.get_or_insert_with(|| message_editor(options.take(), &seen, colour));
                        if !prefill.is_empty() {
                            editor.run_edit_commands(&[EditCommand::InsertString(prefill)]);
                        }
                        read(editor, &label, &seen)
                    }
                    Label::Value(_) => read(&mut plain_editor(&seen, colour), &label, &seen),
                };
                // The reader may be gone.
                let _gone = reply.send(line);
            }
        })?;
        Ok(Self { requests, gate, reading: None, prefill: String::new() })
    }

    /// Reads a message. Reading goes on if the future is dropped; the next call returns the same line.
    pub(crate) async fn message(&mut self) -> EditedLine {
        let reading = match &mut self.reading {
            Some(reading) => reading,
            none => {
                let terminal = self.gate.take().await;
                let (reply, line) = oneshot::channel();
                let label = Label::Message(self.gate.clone());
                let prefill = std::mem::take(&mut self.prefill);
                if self.requests.send(Request { label, prefill, reply }).is_err() {
                    return EditedLine::End;
                }
                none.insert(Reading { line, _terminal: terminal })
            }
        };
        let line = (&mut reading.line).await.unwrap_or(EditedLine::End);
        self.reading = None;
        line
    }

    /// Adds text to what the next message begins with.
    pub(crate) fn prefill(&mut self, text: &str) {
        self.prefill.push_str(text);
    }

    /// Interrupts the reading of a message. Returns the line that was entered at the same moment, if any.
    pub(crate) async fn suspend(&mut self) -> EditedLine {
        if self.reading.is_none() {
            return EditedLine::Suspended;
        }
        self.gate.interrupt();
        let line = self.message().await;
        self.gate.calm();
        line
    }

    /// Reads one value.
    pub(crate) async fn value(&self, name: &str) -> EditedLine {
        self.request(Label::Value(name.to_owned())).await
    }

    async fn request(&self, label: Label) -> EditedLine {
        let (reply, line) = oneshot::channel();
        if self.requests.send(Request { label, prefill: String::new(), reply }).is_err() {
            return EditedLine::End;
        }
        line.await.unwrap_or(EditedLine::End)
    }
}

fn read(editor: &mut Reedline, label: &Label, seen: &SeenText) -> EditedLine {
    let read = editor.read_line(label);
    let had_text = seen.take();
    match read {
        Ok(Signal::Success(text)) => EditedLine::Text(text),
        Ok(Signal::CtrlC) if had_text => EditedLine::Dropped,
        Ok(Signal::CtrlC) => EditedLine::Interrupted,
        Ok(Signal::ExternalBreak(text)) => {
            if let Label::Message(gate) = label {
                gate.erase_prompt(&text);
            }
            EditedLine::Suspended
        }
        _ => EditedLine::End,
    }
}

fn message_editor(options: Option<EditorOptions>, seen: &SeenText, colour: Colour) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let next = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(next));
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    for modifier in [KeyModifiers::ALT, KeyModifiers::SHIFT] {
        keys.add_binding(modifier, KeyCode::Enter, ReedlineEvent::Edit(vec![EditCommand::InsertNewline]));
    }
    let menu = ColumnarMenu::default().with_name(MENU).with_columns(2).with_marker("> ");
    let mut editor = plain_editor(seen, colour)
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .use_kitty_keyboard_enhancement(true);
    let Some(options) = options else { return editor };
    editor = editor.with_break_signal(options.gate.break_signal());
    let signal = editor.repaint_signal();
    options.gate.repaint_with(move || signal.request_repaint());
    editor = editor.with_completer(Box::new(options.words));
    match options.history.and_then(history) {
        Some(history) => editor.with_history(Box::new(history)).with_history_exclusion_prefix(Some(" ".to_owned())),
        None => editor,
    }
}

/// An editor for one value, which is not remembered.
fn plain_editor(seen: &SeenText, colour: Colour) -> Reedline {
    let editor = Reedline::create().use_bracketed_paste(true).with_ansi_colors(colour == Colour::Yes);
    editor.with_highlighter(Box::new(seen.clone()))
}

/// Opens the file of earlier messages, which only the user may read.
fn history(file: PathBuf) -> Option<FileBackedHistory> {
    let opened = private_file::make_folder(file.parent()?)
        .and_then(|()| private_file::to_write().create(true).append(true).open(&file));
    if let Err(error) = opened {
        tracing::warn!(%error, "messages are not remembered");
        return None;
    }
    FileBackedHistory::with_file(REMEMBERED, file).ok()
}

// === impl Label ===

impl Prompt for Label {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        match self {
            Self::Message(gate) => Cow::Owned(gate.above_prompt()),
            Self::Value(name) => Cow::Borrowed(name),
        }
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        match self {
            Self::Message(_) => Cow::Borrowed("> "),
            Self::Value(_) => Cow::Borrowed(": "),
        }
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("search `{}`: ", search.term))
    }
}
