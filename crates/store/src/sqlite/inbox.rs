//! Inbox items as they were asked and answered. A row records; it never answers anything.

use rusqlite::{Connection, Row, params};
pub use toolway_host::record::InboxRow;

use crate::{SqliteReader, StoreError};

pub(crate) fn write(item: &InboxRow, connection: &Connection) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET \
         ended_at = excluded.ended_at, answer = excluded.answer, answered_by = excluded.answered_by",
    )?;
    statement.execute(params![
        item.id,
        item.created_at,
        item.expires_at,
        item.kind,
        item.server,
        item.caller,
        item.call,
        item.text,
        item.ended_at,
        item.answer,
        item.answered_by,
    ])?;
    Ok(())
}

impl SqliteReader {
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
