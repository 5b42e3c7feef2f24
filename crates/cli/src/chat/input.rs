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
