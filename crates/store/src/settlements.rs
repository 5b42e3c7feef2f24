//! What persons found out about calls whose outcome is unknown, and the calls of which that is still to be found out.

use rusqlite::{Connection, OptionalExtension, params};
use toolway_host::record::{CallRow, Finding, Settlement};
use uuid::Uuid;

use crate::{Reader, StoreError, calls};

/// Keeps a settlement; the last one counts.
pub(crate) fn write(connection: &Connection, settlement: &Settlement) -> Result<(), StoreError> {
    let sql = "INSERT INTO settlements (call, at, happened, note) VALUES (?, ?, ?, ?) ON CONFLICT (call) \
               DO UPDATE SET at = excluded.at, happened = excluded.happened, note = excluded.note";
    let Settlement { call, at, finding, note } = settlement;
    connection.execute(sql, params![call, at, *finding == Finding::Happened, note])?;
    Ok(())
}

impl Reader {
    /// The settlement of a call.
    pub(crate) fn settlement(&self, call: Uuid) -> Result<Option<Settlement>, StoreError> {
        let sql = "SELECT at, happened, note FROM settlements WHERE call = ?";
        let found = self.connection.prepare_cached(sql)?.query_row([call], |row| {
            let finding = if row.get(1)? { Finding::Happened } else { Finding::DidNotHappen };
            Ok(Settlement { call, at: row.get(0)?, finding, note: row.get(2)? })
        });
        Ok(found.optional()?)
    }

    /// Tool calls with an unknown outcome that are not idempotent and not settled, newest first.
    pub(crate) fn unsettled(&self, limit: usize) -> Result<Vec<CallRow>, StoreError> {
        let condition = "outcome = 'unknown' AND kind = 'tool' AND idempotent = 0 \
                         AND id NOT IN (SELECT call FROM settlements)";
        calls::rows_where(self, condition, limit)
    }
}
