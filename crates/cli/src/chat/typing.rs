//! What the user types while the model works: a draft below the output, messages that wait for the end of the turn, and
//! Esc, which stops it.
//!
//! Keys are read only while no prompt has the terminal ([`TerminalGate`]); what was typed before a prompt is visible is no
//! answer to it. Ctrl-C stays a signal.

use std::{io, sync::Arc, time::Duration};

use crossterm::{
    event::{self, DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    execute,
};
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::mpsc};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};

use super::{echo::KeyByKey, terminal_gate::TerminalGate};

/// Longest wait for a key before the reader looks around.
const TICK: Duration = Duration::from_millis(40);
/// Characters of a draft, more than a user types or pastes.
const MAX_LETTERS: usize = 64 * 1024;
/// Messages that wait for the end of a turn.
pub(super) const MAX_QUEUED: usize = 20;
/// Keys that were read and not shown. While they are as many, no more are read.
const MAX_UNSEEN: usize = 64;

/// Reads keys until it is finished or dropped.
pub(super) struct Typing {
    events: mpsc::Receiver<Typed>,
    draft: Arc<Mutex<Draft>>,
    stop: CancellationToken,
    reader: AbortOnDropHandle<()>,
    _stopping: DropGuard,
}

/// What a key did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// The draft is this now.
    Draft(String),
    /// Enter: this is to be sent when the turn ends.
    Message(String),
    /// Esc: the turn is to stop.
    Stop,
}

/// A message that is not complete. The cursor is at its end.
#[derive(Debug, Default)]
struct Draft(String);

impl Typing {
    /// Starts to read keys.
    pub(super) fn start(gate: TerminalGate) -> Self {
        let (sender, events) = mpsc::channel(MAX_UNSEEN);
        let draft = Arc::<Mutex<Draft>>::default();
        let stop = CancellationToken::new();
        let reading = Reading { gate, draft: Arc::clone(&draft), sender, stop: stop.clone() };
        let reader = AbortOnDropHandle::new(Handle::current().spawn(reading.run()));
        Self { events, draft, reader, _stopping: stop.clone().drop_guard(), stop }
    }

    /// The next thing that was typed; pending for ever when keys cannot be read.
    pub(super) async fn next(&mut self) -> Typed {
        match self.events.recv().await {
            Some(typed) => typed,
            None => std::future::pending().await,
        }
    }

    /// Stops to read. Returns the messages that were completed and not taken, and the draft.
    pub(super) async fn finish(mut self) -> Unsent {
        self.stop.cancel();
        let mut messages = Vec::new();
        // Until the reader has ended.
        while let Some(typed) = self.events.recv().await {
            if let Typed::Message(text) = typed {
                messages.push(text);
            }
        }
        // It has no result, and it does not panic.
        let _ended = (&mut self.reader).await;
        Unsent { messages, draft: std::mem::take(&mut self.draft.lock().0) }
    }
}

/// What was typed and not sent.
pub(super) struct Unsent {
    pub(super) messages: Vec<String>,
    pub(super) draft: String,
}

struct Reading {
    gate: TerminalGate,
    draft: Arc<Mutex<Draft>>,
    sender: mpsc::Sender<Typed>,
    stop: CancellationToken,
}

impl Reading {
    async fn run(self) {
        let reading = Arc::new(self);
        while !reading.stop.is_cancelled() {
            let terminal = tokio::select! {
                terminal = reading.gate.take() => terminal,
                () = reading.stop.cancelled() => return,
            };
            let keys = Arc::clone(&reading);
            let read = tokio::task::spawn_blocking(move || keys.read()).await;
            drop(terminal);
            if !matches!(read, Ok(Ok(()))) {
                // The terminal is gone.
                return;
            }
        }
    }

    /// Reads keys until a prompt wants the terminal, or the turn has ended.
    fn read(&self) -> io::Result<()> {
        if self.is_over() {
            return Ok(());
        }
        let Some(_keys) = KeyByKey::new() else { return Err(io::Error::other("no terminal")) };
        let _paste = BracketedPaste::new()?;
        while !self.is_over() {
            if event::poll(TICK)? && !self.is_over() {
                self.take(event::read()?);
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.stop.is_cancelled() || self.gate.is_interrupted()
    }

    fn take(&self, event: Event) {
        let typed = match event {
            Event::Key(key) if key.kind == KeyEventKind::Release => None,
            Event::Key(KeyEvent { code: KeyCode::Esc, .. }) => Some(Typed::Stop),
            Event::Key(key) => self.draft.lock().press(key),
            Event::Paste(text) => self.draft.lock().insert(&text),
            _ => None,
        };
        if let Some(typed) = typed {
            // The turn may be over.
            let _gone = self.sender.blocking_send(typed);
        }
    }
}

impl Draft {
    fn press(&mut self, key: KeyEvent) -> Option<Typed> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let is_plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match key.code {
            KeyCode::Enter if key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT) => self.insert("\n"),
            KeyCode::Enter => self.complete(),
            KeyCode::Char('j') if control => self.complete(),
            KeyCode::Char('u') if control => self.keep(|text| text.clear()),
            KeyCode::Char('w') if control => self.keep(|text| {
                let words = text.trim_end();
                text.truncate(words.rfind(char::is_whitespace).map_or(0, |at| at + 1));
            }),
            KeyCode::Char('h') if control => self.erase(),
            KeyCode::Backspace => self.erase(),
            KeyCode::Char(letter) if is_plain => self.insert(letter.encode_utf8(&mut [0; 4])),
            _ => None,
        }
    }

    /// Adds text of the user; control characters other than line breaks and tabs are left out.
    fn insert(&mut self, given: &str) -> Option<Typed> {
        let room = MAX_LETTERS.saturating_sub(self.0.chars().count());
        let given = given.replace("\r\n", "\n").replace('\r', "\n");
        let is_text = |letter: &char| !letter.is_control() || matches!(letter, '\n' | '\t');
        self.keep(|text| text.extend(given.chars().filter(is_text).take(room)))
    }

    fn erase(&mut self) -> Option<Typed> {
        self.keep(|text| text.truncate(text.char_indices().next_back().map_or(0, |(at, _)| at)))
    }

    fn keep(&mut self, change: impl FnOnce(&mut String)) -> Option<Typed> {
        change(&mut self.0);
        Some(Typed::Draft(self.0.clone()))
    }

    fn complete(&mut self) -> Option<Typed> {
        if self.0.trim().is_empty() {
            return self.keep(String::clear);
        }
        Some(Typed::Message(std::mem::take(&mut self.0)))
    }
}

/// The terminal marks pasted text, until it is dropped.
struct BracketedPaste;

impl BracketedPaste {
    fn new() -> io::Result<Self> {
        execute!(io::stderr(), EnableBracketedPaste)?;
        Ok(Self)
    }
}

impl Drop for BracketedPaste {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _gone = execute!(io::stderr(), DisableBracketedPaste);
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::{Draft, MAX_LETTERS, Typed};

    fn press(draft: &mut Draft, code: KeyCode, modifiers: KeyModifiers) -> Option<Typed> {
        draft.press(KeyEvent::new(code, modifiers))
    }

    #[test]
    fn a_draft_is_edited_and_completed() {
        let mut draft = Draft::default();
        assert_eq!(draft.insert("one\r\ntwo \u{1b}[31mx\u{7}"), Some(Typed::Draft("one\ntwo [31mx".to_owned())));
        press(&mut draft, KeyCode::Char('w'), KeyModifiers::CONTROL);
        press(&mut draft, KeyCode::Char('é'), KeyModifiers::NONE);
        press(&mut draft, KeyCode::Enter, KeyModifiers::ALT);
        press(&mut draft, KeyCode::Char('z'), KeyModifiers::NONE);
        assert_eq!(
            press(&mut draft, KeyCode::Backspace, KeyModifiers::NONE),
            Some(Typed::Draft("one\ntwo é\n".to_owned()))
        );
        assert_eq!(press(&mut draft, KeyCode::Char('d'), KeyModifiers::CONTROL), None);
        let sent = press(&mut draft, KeyCode::Enter, KeyModifiers::NONE);
        assert_eq!(sent, Some(Typed::Message("one\ntwo é\n".to_owned())));
        assert_eq!(press(&mut draft, KeyCode::Enter, KeyModifiers::NONE), Some(Typed::Draft(String::new())));
    }

    #[test]
    fn a_draft_is_bounded() {
        let mut draft = Draft::default();
        draft.insert(&"é".repeat(MAX_LETTERS + 5));
        draft.insert("more");
        assert_eq!(draft.0.chars().count(), MAX_LETTERS);
    }
}
