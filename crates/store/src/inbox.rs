//! Inbox items as they were asked and answered. A row records; it never answers anything.

use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use crate::{Reader, StoreError, time::Micros};

/// One item that waited for a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRow {
    /// UUIDv7, so that ids sort by time.
    pub id: Uuid,
    /// When it was asked.
    pub created_at: Micros,
    /// When it expires.
    pub expires_at: Micros,
    /// `approval`, `form`, `url`.
    pub kind: String,
    /// Server name.
    pub server: Option<String>,
    /// `kind[:name]` of the caller.
    pub caller: String,
    /// The call it belongs to.
    pub call: Option<Uuid>,
    /// Text of the request, redacted.
    pub text: String,
    /// When it was answered, declined or expired; `None` while it waits.
    pub ended_at: Option<Micros>,
    /// The kind of answer.
    pub answer: Option<String>,
    /// The surface that answered.
    pub answered_by: Option<String>,
}

impl InboxRow {
    pub(crate) fn write(&self, connection: &Connection) -> Result<(), StoreError> {
        let mut statement = connection.prepare_cached(
            "INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET \
             ended_at = excluded.ended_at, answer = excluded.answer, answered_by = excluded.answered_by",
        )?;
        statement.execute(params![
            self.id,
            self.created_at,
            self.expires_at,
            self.kind,
            self.server,
            self.caller,
            self.call,
            self.text,
            self.ended_at,
            self.answer,
            self.answered_by,
        ])?;
        Ok(())
    }
}

impl Reader {
    /// The last items, newest first.
    pub fn inbox(&self, limit: usize) -> Result<Vec<InboxRow>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.rows("SELECT * FROM inbox ORDER BY id DESC LIMIT ?", [limit], row)
    }
}

fn row(row: &Row<'_>) -> rusqlite::Result<InboxRow> {
    Ok(InboxRow {
        id: row.get(0)?,
        created_at: row.get(1)?,
        expires_at: row.get(2)?,
        kind: row.get(3)?,
        server: row.get(4)?,
        caller: row.get(5)?,
        call: row.get(6)?,
        text: row.get(7)?,
        ended_at: row.get(8)?,
        answer: row.get(9)?,
        answered_by: row.get(10)?,
    })
}
