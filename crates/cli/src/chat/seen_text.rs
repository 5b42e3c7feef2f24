//! The text at the prompt as it is on the screen. The editor forgets it on Ctrl-C, and this is how we know that there was
//! some. The text has the colour of the terminal, so that it is readable on every background.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use reedline::{Highlighter, SimpleMatchHighlighter, StyledText};

/// The text of the last paint. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenText {
    has_text: Arc<AtomicBool>,
}

impl SeenText {
    /// Whether text was at the prompt. It is forgotten.
    pub(super) fn take(&self) -> bool {
        self.has_text.swap(false, Ordering::Relaxed)
    }
}

impl Highlighter for SeenText {
    fn highlight(&self, line: &str, cursor: usize) -> StyledText {
        self.has_text.store(!line.is_empty(), Ordering::Relaxed);
        SimpleMatchHighlighter::default().highlight(line, cursor)
    }
}
