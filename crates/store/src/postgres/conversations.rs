//! Conversations and their messages. A message is opaque JSON of the agent, with its plain text for search.

use tokio_postgres::Row;
use toolway_host::{conversation::REPLAY_NOTES, time};
use uuid::Uuid;

use super::{
    batch::Filling,
    pipeline::{Value, limit, text},
    reader::PostgresReader,
};
use crate::{
    StoreError,
    conversations::{ConversationNote, FoundMessage, StoredConversation, StoredMessage},
};

const COLUMNS: &str = "id, started_at, updated_at, title, model, surface";

pub(super) async fn write<'a>(filling: &mut Filling<'a>, head: &'a StoredConversation) -> Result<(), StoreError> {
    let sql = "INSERT INTO conversations (id, started_at, updated_at, title, model, surface) \
               VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO UPDATE SET \
               updated_at = excluded.updated_at, title = excluded.title, model = excluded.model";
    let values: Vec<Value<'a>> = vec![
        Box::new(head.id),
        Box::new(head.started_at),
        Box::new(head.updated_at),
        Box::new(text(&head.title)),
        Box::new(text(&head.model)),
        Box::new(text(&head.surface)),
    ];
    filling.send(sql, values).await
}

pub(super) async fn write_message<'a>(
    filling: &mut Filling<'a>,
    conversation: Uuid,
    message: &'a StoredMessage,
) -> Result<(), StoreError> {
    // A message is written once; the same one again is that of a repeated commit.
    let sql = "INSERT INTO messages (conversation, seq, at, role, text, body) VALUES ($1, $2, $3, $4, $5, $6) \
               ON CONFLICT (conversation, seq) DO UPDATE SET at = messages.at WHERE (messages.text, messages.body) = (excluded.text, excluded.body)";
    let values: Vec<Value<'a>> = vec![
        Box::new(conversation),
        Box::new(message.seq),
        Box::new(message.at),
        Box::new(text(&message.role)),
        Box::new(text(&message.text)),
        Box::new(text(&message.body)),
    ];
    filling.require(sql, values, StoreError::Continued).await?;
    let values: Vec<Value<'a>> = vec![Box::new(message.at), Box::new(conversation)];
    filling.send("UPDATE conversations SET updated_at = $1 WHERE id = $2", values).await
}

pub(super) async fn write_note<'a>(
    filling: &mut Filling<'a>,
    conversation: Uuid,
    note: &'a ConversationNote,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO conversation_notes (conversation, name, at, body) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (conversation, name) DO UPDATE SET at = excluded.at, body = excluded.body";
    let values: Vec<Value<'a>> =
        vec![Box::new(conversation), Box::new(text(&note.name)), Box::new(time::now()), Box::new(text(&note.body))];
    filling.send(sql, values).await
}

pub(super) async fn delete(filling: &mut Filling<'_>, conversation: Uuid) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM messages WHERE conversation = $1",
        "DELETE FROM conversation_notes WHERE conversation = $1",
        "DELETE FROM conversations WHERE id = $1",
    ] {
        filling.send(sql, vec![Box::new(conversation)]).await?;
    }
    Ok(())
}

impl PostgresReader {
    pub(crate) async fn conversations(&self, most: usize) -> Result<Vec<StoredConversation>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM conversations ORDER BY updated_at DESC, id DESC LIMIT $1");
        self.rows(&sql, &[Box::new(limit(most))]).await?.iter().map(conversation).collect()
    }

    pub(crate) async fn conversation(&self, id: Uuid) -> Result<Option<StoredConversation>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM conversations WHERE id = $1");
        self.rows(&sql, &[Box::new(id)]).await?.first().map(conversation).transpose()
    }

    pub(crate) async fn messages(&self, conversation: Uuid) -> Result<Vec<StoredMessage>, StoreError> {
        let sql = "SELECT seq, at, role, text, body FROM messages WHERE conversation = $1 ORDER BY seq";
        self.rows(sql, &[Box::new(conversation)]).await?.iter().map(|row| message(row, 0)).collect()
    }

    pub(crate) async fn conversation_notes(&self, conversation: Uuid) -> Result<Vec<ConversationNote>, StoreError> {
        self.notes(conversation, "NOT starts_with(name, $2)").await
    }

    pub(crate) async fn replay_notes(&self, conversation: Uuid) -> Result<Vec<ConversationNote>, StoreError> {
        self.notes(conversation, "starts_with(name, $2)").await
    }

    async fn notes(&self, conversation: Uuid, which: &str) -> Result<Vec<ConversationNote>, StoreError> {
        let sql =
            format!("SELECT name, body FROM conversation_notes WHERE conversation = $1 AND {which} ORDER BY name");
        let values: [Value<'_>; 2] = [Box::new(conversation), Box::new(REPLAY_NOTES)];
        let rows = self.rows(&sql, &values).await?;
        rows.iter().map(|row| Ok(ConversationNote { name: row.try_get(0)?, body: row.try_get(1)? })).collect()
    }

    pub(crate) async fn search_conversations(
        &self,
        wanted: &str,
        most: usize,
    ) -> Result<Vec<FoundMessage>, StoreError> {
        let sql = "SELECT * FROM (SELECT DISTINCT ON (c.id) c.id, c.started_at, c.updated_at, c.title, c.model, c.surface, \
                   m.seq, m.at, m.role, m.text, m.body FROM messages m JOIN conversations c ON c.id = m.conversation \
                   WHERE position(lower($1) IN lower(m.text)) > 0 ORDER BY c.id, m.seq) AS found \
                   ORDER BY updated_at DESC, id DESC LIMIT $2";
        let rows = self.rows(sql, &[Box::new(text(wanted)), Box::new(limit(most))]).await?;
        let found = |row: &Row| Ok(FoundMessage { conversation: conversation(row)?, message: message(row, 6)? });
        rows.iter().map(found).collect()
    }
}

fn conversation(row: &Row) -> Result<StoredConversation, StoreError> {
    Ok(StoredConversation {
        id: row.try_get(0)?,
        started_at: row.try_get(1)?,
        updated_at: row.try_get(2)?,
        title: row.try_get(3)?,
        model: row.try_get(4)?,
        surface: row.try_get(5)?,
    })
}

/// A message, whose columns begin at `first`.
fn message(row: &Row, first: usize) -> Result<StoredMessage, StoreError> {
    Ok(StoredMessage {
        seq: row.try_get(first)?,
        at: row.try_get(first + 1)?,
        role: row.try_get(first + 2)?,
        text: row.try_get(first + 3)?,
        body: row.try_get(first + 4)?,
    })
}
