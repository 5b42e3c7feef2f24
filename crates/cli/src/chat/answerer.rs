//! Approvals and forms in place: the terminal's answerer, with the chat's own output held back.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use toolway_host::inbox::{Answerer, ElicitationModes, InboxAnswer, InboxItem};

use super::{screen::Screen, terminal_gate::TerminalGate};
use crate::terminal::TerminalAnswerer;

/// Answers at the terminal of a chat.
pub(crate) struct ChatAnswerer {
    terminal: TerminalAnswerer,
    gate: TerminalGate,
    /// Set when the host is built, which needs this first.
    screen: OnceLock<Arc<Screen>>,
}

/// Holds the screen as long as it lives.
struct Held<'a>(Option<&'a Screen>);

impl ChatAnswerer {
    pub(crate) fn new(terminal: TerminalAnswerer) -> Self {
        Self { terminal, gate: TerminalGate::default(), screen: OnceLock::new() }
    }

    /// Decides who has the terminal.
    pub(crate) fn gate(&self) -> TerminalGate {
        self.gate.clone()
    }

    /// The screen that is held back during prompts.
    pub(crate) fn attach(&self, screen: &Arc<Screen>) {
        // It is attached once.
        let _already = self.screen.set(Arc::clone(screen));
    }
}

impl Answerer for ChatAnswerer {
    fn modes(&self) -> ElicitationModes {
        self.terminal.modes()
    }

    fn answer<'a>(&'a self, item: &'a InboxItem) -> BoxFuture<'a, InboxAnswer> {
        Box::pin(async move {
            // A background task may ask while the editor reads.
            let _terminal = self.gate.take_over().await;
            let screen = self.screen.get().map(|screen| &**screen);
            screen.inspect(|screen| screen.hold());
            let _held = Held(screen);
            self.terminal.answer(item).await
        })
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.inspect(|screen| screen.release());
    }
}
