//! Conversations in the store, by id.

use toolway_agent::{StoredAssistant, UnreadableAssistant};
use toolway_host::conversation::{ConversationNote, StoredConversation, StoredMessage};
use toolway_model::Message;

use crate::{app::App, record_id, report::Report};

/// A stored conversation with its messages.
pub(crate) struct Stored {
    pub(crate) head: StoredConversation,
    pub(crate) messages: Vec<Message>,
    pub(crate) notes: Vec<ConversationNote>,
}

/// Conversations among which a part of an id is looked for.
const SEARCHED: usize = 10_000;

/// The last conversations, newest first.
pub(crate) async fn list(app: &App, limit: usize) -> Result<Vec<StoredConversation>, Report> {
    Ok(app.records()?.conversations(limit).await?)
}

/// A conversation by its id, the beginning or end of it, or `last`.
pub(crate) async fn find(app: &App, id: &str) -> Result<StoredConversation, Report> {
    let unknown = || match id {
        "last" => Report::usage("unknown_conversation", "no conversations stored"),
        _ => Report::usage("unknown_conversation", format!("no stored conversation has the id `{id}`"))
            .hint("list them with `toolway history list`"),
    };
    let limit = if id == "last" { 1 } else { SEARCHED };
    let all = list(app, limit).await?;
    let mut matching = match id {
        "last" => all,
        id => record_id::select(all, id, |head| head.id.to_string()),
    };
    if 1 < matching.len() {
        let ids: Vec<String> = matching.iter().map(|head| head.id.to_string()).collect();
        return Err(record_id::ambiguous("unknown_conversation", "stored conversations", id, &ids));
    }
    matching.pop().ok_or_else(unknown)
}

/// The assistant that a conversation began with; `None` if it has none.
pub(crate) async fn assistant(app: &App, id: &str) -> Result<Option<StoredAssistant>, Report> {
    let head = find(app, id).await?;
    assistant_of(&app.records()?.conversation_notes(head.id).await?)
}

/// The assistant in the notes of a conversation.
pub(crate) fn assistant_of(notes: &[ConversationNote]) -> Result<Option<StoredAssistant>, Report> {
    let unreadable = |error: UnreadableAssistant| {
        let hint = "it may have been stored by a newer version; name an assistant with `--assistant`";
        Report::usage("conversation", error.to_string()).hint(hint)
    };
    StoredAssistant::of_notes(notes).map_err(unreadable)
}

/// The messages of a conversation as they were stored.
pub(crate) async fn messages(app: &App, head: &StoredConversation) -> Result<Vec<StoredMessage>, Report> {
    Ok(app.records()?.messages(head.id).await?)
}

/// Loads a conversation to continue it.
pub(crate) async fn load(app: &App, id: &str) -> Result<Stored, Report> {
    let head = find(app, id).await?;
    let messages = messages(app, &head).await?;
    let parsed: Result<Vec<Message>, _> = messages.iter().map(|message| serde_json::from_str(&message.body)).collect();
    let unreadable = |error| {
        let message = format!("conversation `{}` cannot be read: {error}", head.id);
        Report::usage("conversation", message).hint("it may have been stored by a newer version")
    };
    let notes = app.records()?.conversation_notes(head.id).await?;
    Ok(Stored { messages: parsed.map_err(unreadable)?, notes, head })
}
