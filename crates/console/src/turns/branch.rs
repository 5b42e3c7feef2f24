//! A branch: a conversation that begins with the messages of another one, up to a message that the user writes anew or asks
//! again. The other one stays as it is. No call of the copied messages is made again: their results are copied.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolway_agent::{Conversation, StoredCompaction};
use toolway_host::conversation::{ConversationHead, ConversationMessage, ConversationNote};
use uuid::Uuid;

use super::{Turns, usage};
use crate::error::ApiError;

/// Name of the note that says where a branch begins.
const NOTE: &str = "branch";
/// Conversations that are remembered of a branch of a branch.
const MAX_ORIGINS: usize = 8;

/// Where a branch begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BranchOrigin {
    /// The conversation that it was begun from, then those that that one was begun from.
    pub(crate) conversations: Vec<Uuid>,
    /// How many messages were copied.
    pub(crate) messages: i64,
}

impl BranchOrigin {
    /// What the notes of a conversation say; `None` if it is no branch.
    pub(crate) fn of_notes(notes: &[ConversationNote]) -> Option<Self> {
        let note = notes.iter().find(|note| note.name == NOTE)?;
        serde_json::from_str(&note.body).ok()
    }
}

impl Turns {
    /// Begins a conversation with the messages of another one before the message `before`, and stores it.
    pub(crate) async fn branch(&self, id: Uuid, of: Uuid, before: i64) -> Result<Conversation, ApiError> {
        let stores = self.records.as_ref().ok_or_else(ApiError::no_store)?;
        let head = stores.records.conversation(of).await?.ok_or_else(ApiError::unknown_conversation)?;
        let messages = stores.records.messages(of).await?;
        let begins = messages.iter().find(|message| message.seq == before && message.role == "user");
        if begins.is_none() {
            return Err(ApiError::not_found("the conversation has no message of yours at this place"));
        }
        let copied: Vec<_> = messages.into_iter().filter(|message| message.seq < before).collect();
        let notes = stores.records.conversation_notes(of).await?;
        let mut conversations = vec![of];
        conversations.extend(BranchOrigin::of_notes(&notes).into_iter().flat_map(|origin| origin.conversations));
        conversations.truncate(MAX_ORIGINS);
        let log = &stores.conversations;
        let name = id.to_string();
        // The first message of a branch that has none yet gives it a title of its own.
        let title = format!("{} (branch)", head.title.trim_end_matches(" (branch)"));
        log.put(&ConversationHead { id: name.clone(), title, model: head.model, surface: "console" }).await?;
        for (seq, message) in copied.iter().enumerate() {
            let role = match message.role.as_str() {
                "attachment" => "attachment",
                "assistant" => "assistant",
                "tool" => "tool",
                _ => "user",
            };
            let copy = ConversationMessage { seq, role, text: message.text.clone(), body: message.body.clone() };
            log.append(&name, copy).await?;
        }
        // What is kept about its assistant holds for the branch, and what is left out of requests if it is about messages that
        // were copied.
        let compaction = StoredCompaction::of_notes(&notes);
        let is_whole = compaction.is_some_and(|left| left.summarised.max(left.shortened) <= copied.len());
        let holds = |note: &ConversationNote| match note.name.as_str() {
            NOTE | usage::NOTE => false,
            StoredCompaction::NOTE => is_whole,
            _ => true,
        };
        let mut kept: Vec<_> = notes.into_iter().filter(holds).collect();
        let origin = BranchOrigin { conversations, messages: before };
        kept.push(ConversationNote { name: NOTE.to_owned(), body: serde_json::to_string(&origin).unwrap_or_default() });
        for note in kept.clone() {
            log.keep(&name, note).await?;
        }
        let messages: Result<Vec<_>, _> = copied.iter().map(|message| serde_json::from_str(&message.body)).collect();
        let messages =
            messages.map_err(|error| ApiError::internal(format!("a stored message cannot be read: {error}")))?;
        let branch = Conversation::resume(&name, messages, Some(Arc::clone(log)));
        Ok(branch.with_notes(&kept))
    }
}
