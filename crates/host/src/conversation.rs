//! The port that stores conversations of agents. Their contents are opaque to the host.

use futures_util::future::BoxFuture;

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
    /// Position from 0. A message of the same position is replaced.
    pub seq: usize,
    /// `user`, `assistant` or `tool`.
    pub role: &'static str,
    /// Plain text, for search and export.
    pub text: String,
    /// The agent's JSON.
    pub body: String,
}

/// Stores conversations. Writes are submitted when a method is called; the future waits for the commit.
pub trait ConversationLog: Send + Sync {
    /// Creates a conversation, or updates its title and model.
    fn put(&self, conversation: &ConversationHead) -> BoxFuture<'static, Result<(), String>>;

    /// Adds a message.
    fn append(&self, conversation: &str, message: ConversationMessage) -> BoxFuture<'static, Result<(), String>>;
}
