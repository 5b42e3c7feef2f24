//! Where messages come from: the line editor at a terminal, else the lines of standard input.

use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use super::editor::{EditedLine, Editor};

/// Source of messages.
#[derive(Debug)]
pub(crate) enum ChatInput {
    Editor(Editor),
    Lines(Lines<BufReader<Stdin>>),
}

impl ChatInput {
    /// The lines of standard input.
    pub(crate) fn lines() -> Self {
        Self::Lines(BufReader::new(tokio::io::stdin()).lines())
    }

    /// The next message.
    pub(crate) async fn message(&mut self) -> EditedLine {
        match self {
            Self::Editor(editor) => editor.message().await,
            Self::Lines(lines) => lines.next_line().await.ok().flatten().map_or(EditedLine::End, EditedLine::Text),
        }
    }

    /// Interrupts the reading of a message; returns one that was entered at the same moment.
    pub(crate) async fn suspend(&mut self) -> EditedLine {
        match self {
            Self::Editor(editor) => editor.suspend().await,
            Self::Lines(_) => EditedLine::Suspended,
        }
    }

    /// Adds text to what the next message begins with, where messages are edited.
    pub(crate) fn prefill(&mut self, text: &str) {
        match self {
            Self::Editor(editor) => editor.prefill(text),
            Self::Lines(_) => {}
        }
    }

    /// Whether keys can be read while the model works.
    pub(crate) fn has_keys(&self) -> bool {
        matches!(self, Self::Editor(_))
    }

    /// A value that a command needs; `None` if the user does not give it.
    pub(crate) async fn value(&mut self, name: &str) -> Option<String> {
        match self {
            Self::Editor(editor) => match editor.value(name).await {
                EditedLine::Text(text) => Some(text),
                EditedLine::Interrupted | EditedLine::Dropped | EditedLine::Suspended | EditedLine::End => None,
            },
            Self::Lines(lines) => lines.next_line().await.ok().flatten(),
        }
    }
}
