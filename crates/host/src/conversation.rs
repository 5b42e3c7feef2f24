//! The port that stores conversations of agents, and conversations as they are stored. Their contents are opaque to the host.

use futures_util::future::BoxFuture;
use toolway_wire::time::Micros;
use uuid::Uuid;

use crate::record::RecordsError;

/// A conversation as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationHead {
    /// UUIDv7 as text.
    pub id: String,
    /// The first words of the user.
    pub title: String,
    /// Name of the model.
    pub model: String,
    /// `chat`, `run` or `console`.
    pub surface: &'static str,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationMessage {
    /// Position from 0. A message is written once: another one at its position is refused with [`RecordsError::Continued`].
    pub seq: usize,
    /// `user`, `assistant` or `tool`.
    pub role: &'static str,
    /// Plain text, for search and export.
    pub text: String,
    /// The agent's JSON.
    pub body: String,
}

/// Something that is kept about a conversation besides its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationNote {
    /// Its name; a note of the same name is replaced.
    pub name: String,
    /// The agent's JSON.
    pub body: String,
}

/// Begins the names of the notes that only a replay reads. There may be many of them.
pub const REPLAY_NOTES: &str = "replay/";

/// Stores conversations. Writes are submitted when a method is called; the future waits for the commit.
pub trait ConversationLog: Send + Sync {
    /// Creates a conversation, or updates its title and model.
    fn put(&self, conversation: &ConversationHead) -> BoxFuture<'static, Result<(), RecordsError>>;

    /// Adds a message.
    fn append(&self, conversation: &str, message: ConversationMessage) -> BoxFuture<'static, Result<(), RecordsError>>;

    /// Keeps a note.
    fn keep(&self, conversation: &str, note: ConversationNote) -> BoxFuture<'static, Result<(), RecordsError>>;
}

/// One stored conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredConversation {
    /// UUIDv7, so that ids sort by time.
    pub id: Uuid,
    /// When it began.
    pub started_at: Micros,
    /// When its last message was added.
    pub updated_at: Micros,
    /// The first words of the user.
    pub title: String,
    /// Name of the model in the configuration.
    pub model: String,
    /// `chat`, `run`, `console`.
    pub surface: String,
}

/// One stored message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Position in the conversation, from 0.
    pub seq: i64,
    /// When it was added.
    pub at: Micros,
    /// `user`, `attachment`, `assistant`, `tool`, `system`.
    pub role: String,
    /// Plain text, for search and export.
    pub text: String,
    /// The agent's JSON.
    pub body: String,
}

/// A message that contains a text that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundMessage {
    /// The conversation it belongs to.
    pub conversation: StoredConversation,
    /// The first message with the text.
    pub message: StoredMessage,
}
