//! Conversations and their messages. A message is opaque JSON of the agent, with its plain text for search.

use rusqlite::{Connection, Row, params};
use toolway_host::conversation::REPLAY_NOTES;
pub use toolway_host::conversation::{ConversationNote, FoundMessage, StoredConversation, StoredMessage};
use toolway_host::time;
use uuid::Uuid;

use crate::{SqliteReader, StoreError};

pub(crate) fn write(head: &StoredConversation, connection: &Connection) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO conversations VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET \
         updated_at = excluded.updated_at, title = excluded.title, model = excluded.model",
    )?;
    let values = params![head.id, head.started_at, head.updated_at, head.title, head.model, head.surface];
    statement.execute(values)?;
    Ok(())
}

pub(crate) fn write_message(
    message: &StoredMessage,
    connection: &Connection,
    conversation: Uuid,
) -> Result<(), StoreError> {
    // A message is written once; the same one again is that of a repeated commit.
    let mut statement = connection.prepare_cached(
        "INSERT INTO messages (conversation, seq, at, role, text, body) VALUES (?, ?, ?, ?, ?, ?) \
         ON CONFLICT (conversation, seq) DO UPDATE SET at = messages.at WHERE (messages.text, messages.body) = (excluded.text, excluded.body)",
    )?;
    let values = params![conversation, message.seq, message.at, message.role, message.text, message.body];
    if statement.execute(values)? == 0 {
        return Err(StoreError::Continued);
    }
    connection
        .prepare_cached("UPDATE conversations SET updated_at = ? WHERE id = ?")?
        .execute(params![message.at, conversation])?;
    Ok(())
}

pub(crate) fn write_note(
    note: &ConversationNote,
    connection: &Connection,
    conversation: Uuid,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached("INSERT OR REPLACE INTO conversation_notes VALUES (?, ?, ?, ?)")?;
    statement.execute(params![conversation, note.name, time::now(), note.body])?;
    Ok(())
}

pub(crate) fn delete(connection: &Connection, conversation: Uuid) -> Result<(), StoreError> {
    connection.execute("DELETE FROM messages WHERE conversation = ?", [conversation])?;
    connection.execute("DELETE FROM conversation_notes WHERE conversation = ?", [conversation])?;
    connection.execute("DELETE FROM conversations WHERE id = ?", [conversation])?;
    Ok(())
}

impl SqliteReader {
    /// The last conversations, newest first.
    pub fn conversations(&self, limit: usize) -> Result<Vec<StoredConversation>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.rows("SELECT * FROM conversations ORDER BY updated_at DESC, id DESC LIMIT ?", [limit], conversation)
    }

    /// One conversation.
    pub fn conversation(&self, id: Uuid) -> Result<Option<StoredConversation>, StoreError> {
        Ok(self.rows("SELECT * FROM conversations WHERE id = ?", [id], conversation)?.pop())
    }

    /// The messages of a conversation, in order.
    pub fn messages(&self, conversation: Uuid) -> Result<Vec<StoredMessage>, StoreError> {
        let sql = "SELECT seq, at, role, text, body FROM messages WHERE conversation = ? ORDER BY seq";
        self.rows(sql, [conversation], message)
    }

    /// The notes of a conversation, by name, without those for a replay.
    pub fn conversation_notes(&self, conversation: Uuid) -> Result<Vec<ConversationNote>, StoreError> {
        let sql =
            "SELECT name, body FROM conversation_notes WHERE conversation = ? AND NOT instr(name, ?) = 1 ORDER BY name";
        self.rows(sql, params![conversation, REPLAY_NOTES], note)
    }

    /// The notes of a conversation for a replay, by name.
    pub fn replay_notes(&self, conversation: Uuid) -> Result<Vec<ConversationNote>, StoreError> {
        let sql =
            "SELECT name, body FROM conversation_notes WHERE conversation = ? AND instr(name, ?) = 1 ORDER BY name";
        self.rows(sql, params![conversation, REPLAY_NOTES], note)
    }

    /// Conversations in which a message contains the text, newest first, each with the first such message.
    pub fn search_conversations(&self, text: &str, limit: usize) -> Result<Vec<FoundMessage>, StoreError> {
        let sql = "SELECT c.*, min(m.seq), m.at, m.role, m.text, m.body FROM messages m \
                   JOIN conversations c ON c.id = m.conversation WHERE instr(lower(m.text), lower(?)) > 0 \
                   GROUP BY c.id ORDER BY c.updated_at DESC, c.id DESC LIMIT ?";
        self.rows(sql, params![text, i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
            let message = StoredMessage {
                seq: row.get(6)?,
                at: row.get(7)?,
                role: row.get(8)?,
                text: row.get(9)?,
                body: row.get(10)?,
            };
            Ok(FoundMessage { conversation: conversation(row)?, message })
        })
    }
}

fn conversation(row: &Row<'_>) -> rusqlite::Result<StoredConversation> {
    Ok(StoredConversation {
        id: row.get(0)?,
        started_at: row.get(1)?,
        updated_at: row.get(2)?,
        title: row.get(3)?,
        model: row.get(4)?,
        surface: row.get(5)?,
    })
}

fn note(row: &Row<'_>) -> rusqlite::Result<ConversationNote> {
    Ok(ConversationNote { name: row.get(0)?, body: row.get(1)? })
}

fn message(row: &Row<'_>) -> rusqlite::Result<StoredMessage> {
    Ok(StoredMessage { seq: row.get(0)?, at: row.get(1)?, role: row.get(2)?, text: row.get(3)?, body: row.get(4)? })
}
