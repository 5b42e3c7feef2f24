//! Inbox items as they were asked and answered. A row records; it never answers anything.

use tokio_postgres::Row;

use super::{
    batch::Filling,
    pipeline::{Value, limit, maybe, text},
    reader::PostgresReader,
};
use crate::{StoreError, inbox::InboxRow};

const WRITE: &str = "INSERT INTO inbox (id, created_at, expires_at, kind, server, caller, call, text, ended_at, answer, \
     answered_by) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (id) DO UPDATE SET \
     ended_at = excluded.ended_at, answer = excluded.answer, answered_by = excluded.answered_by";

pub(super) async fn write<'a>(filling: &mut Filling<'a>, item: &'a InboxRow) -> Result<(), StoreError> {
    let values: Vec<Value<'a>> = vec![
        Box::new(item.id),
        Box::new(item.created_at),
        Box::new(item.expires_at),
        Box::new(text(&item.kind)),
        Box::new(maybe(item.server.as_deref())),
        Box::new(text(&item.caller)),
        Box::new(item.call),
        Box::new(text(&item.text)),
        Box::new(item.ended_at),
        Box::new(maybe(item.answer.as_deref())),
        Box::new(maybe(item.answered_by.as_deref())),
    ];
    filling.send(WRITE, values).await
}

impl PostgresReader {
    pub(crate) async fn inbox(&self, most: usize) -> Result<Vec<InboxRow>, StoreError> {
        let sql = "SELECT id, created_at, expires_at, kind, server, caller, call, text, ended_at, answer, answered_by \
                   FROM inbox ORDER BY id DESC LIMIT $1";
        self.rows(sql, &[Box::new(limit(most))]).await?.iter().map(row).collect()
    }
}

fn row(row: &Row) -> Result<InboxRow, StoreError> {
    Ok(InboxRow {
        id: row.try_get(0)?,
        created_at: row.try_get(1)?,
        expires_at: row.try_get(2)?,
        kind: row.try_get(3)?,
        server: row.try_get(4)?,
        caller: row.try_get(5)?,
        call: row.try_get(6)?,
        text: row.try_get(7)?,
        ended_at: row.try_get(8)?,
        answer: row.try_get(9)?,
        answered_by: row.try_get(10)?,
    })
}
