//! What persons found out about calls whose outcome is unknown, and the calls of which that is still to be found out.

use toolway_host::record::{Finding, Settlement};
use uuid::Uuid;

use super::{
    batch::Filling,
    calls,
    pipeline::{Value, limit, maybe},
    reader::PostgresReader,
};
use crate::{StoreError, calls::CallRow};

/// Keeps a settlement; the last one counts.
pub(super) async fn write<'a>(filling: &mut Filling<'a>, settlement: &'a Settlement) -> Result<(), StoreError> {
    let sql = "INSERT INTO settlements (call, at, happened, note) VALUES ($1, $2, $3, $4) ON CONFLICT (call) \
               DO UPDATE SET at = excluded.at, happened = excluded.happened, note = excluded.note";
    let Settlement { call, at, finding, note } = settlement;
    let values: Vec<Value<'a>> =
        vec![Box::new(*call), Box::new(*at), Box::new(*finding == Finding::Happened), Box::new(maybe(note.as_deref()))];
    filling.send(sql, values).await
}

impl PostgresReader {
    pub(crate) async fn settlement(&self, call: Uuid) -> Result<Option<Settlement>, StoreError> {
        let rows = self.rows("SELECT at, happened, note FROM settlements WHERE call = $1", &[Box::new(call)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let finding = if row.try_get(1)? { Finding::Happened } else { Finding::DidNotHappen };
        Ok(Some(Settlement { call, at: row.try_get(0)?, finding, note: row.try_get(2)? }))
    }

    pub(crate) async fn unsettled(&self, most: usize) -> Result<Vec<CallRow>, StoreError> {
        let sql = format!(
            "SELECT {} FROM calls WHERE outcome = 'unknown' AND kind = 'tool' AND NOT idempotent \
             AND NOT (state = 'cancelled' AND error IS NULL AND (surface IN ('chat', 'console') \
             OR (surface = 'gateway' AND EXISTS (SELECT 1 FROM tasks WHERE tasks.id = calls.id)))) \
             AND NOT EXISTS (SELECT 1 FROM settlements WHERE settlements.call = calls.id) ORDER BY id DESC LIMIT $1",
            calls::COLUMNS
        );
        self.rows(&sql, &[Box::new(limit(most))]).await?.iter().map(calls::row).collect()
    }
}
