//! Who has the terminal of a chat: the line editor, a prompt, or a turn. Also the line above the editor's prompt, which
//! says how far background tasks are.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// Decides who has the terminal. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct TerminalGate {
    /// Written by the editor; prompts, which queue among themselves, read it.
    terminal: Arc<RwLock<()>>,
    /// Makes what reads keys stop.
    interrupted: Arc<AtomicBool>,
    /// Nothing awaits under this lock.
    line: Arc<Mutex<TaskLine>>,
}

#[derive(Default)]
struct TaskLine {
    text: String,
    /// Whether the prompt on the screen has the line.
    is_drawn: bool,
    repaint: Option<Repaint>,
}

/// Makes the editor draw its prompt again.
type Repaint = Box<dyn Fn() + Send>;

impl TerminalGate {
    /// Takes the terminal for the editor, or for keys that are typed while the model works, when no prompt has it.
    pub(super) async fn take(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.terminal).write_owned().await
    }

    /// Takes the terminal for a prompt, also from the editor. What was typed is there again afterwards.
    pub(super) async fn take_over(&self) -> OwnedRwLockReadGuard<()> {
        self.interrupt();
        let terminal = Arc::clone(&self.terminal).read_owned().await;
        self.calm();
        terminal
    }

    pub(super) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
    }

    pub(super) fn calm(&self) {
        self.interrupted.store(false, Ordering::SeqCst);
    }

    /// Whether a prompt wants the terminal.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    pub(super) fn break_signal(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.interrupted)
    }

    pub(super) fn repaint_with(&self, repaint: impl Fn() + Send + 'static) {
        self.line.lock().repaint = Some(Box::new(repaint));
    }

    /// Sets the line above the prompt, of printable text; empty: none.
    pub(super) fn show(&self, text: String) {
        let mut line = self.line.lock();
        if line.text != text {
            line.text = text;
            line.repaint.iter().for_each(|repaint| repaint());
        }
    }

    /// What stands before the prompt.
    pub(super) fn above_prompt(&self) -> String {
        let mut line = self.line.lock();
        line.is_drawn = !line.text.is_empty();
        if line.is_drawn { format!("{}\n", line.text) } else { String::new() }
    }

    /// Removes the prompt from the screen, with what was typed.
    pub(super) fn erase_prompt(&self, typed: &str) {
        let lines = typed.matches('\n').count() + usize::from(self.line.lock().is_drawn);
        let up = if lines == 0 { String::new() } else { format!("\u{1b}[{lines}A") };
        let mut out = std::io::stdout();
        // The terminal may be gone.
        let _gone = out.write_all(format!("\r{up}\u{1b}[J").as_bytes()).and_then(|()| out.flush());
    }
}

impl std::fmt::Debug for TaskLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskLine").field("text", &self.text).finish_non_exhaustive()
    }
}
