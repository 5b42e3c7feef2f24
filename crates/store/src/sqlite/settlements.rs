//! What persons found out about calls whose outcome is unknown, and the calls of which that is still to be found out.

use rusqlite::{Connection, OptionalExtension, params};
use toolway_host::record::{CallRow, Finding, Settlement};
use uuid::Uuid;

use crate::{SqliteReader, StoreError, calls};

/// Keeps a settlement; the last one counts.
pub(crate) fn write(connection: &Connection, settlement: &Settlement) -> Result<(), StoreError> {
    let sql = "INSERT INTO settlements (call, at, happened, note) VALUES (?, ?, ?, ?) ON CONFLICT (call) \
               DO UPDATE SET at = excluded.at, happened = excluded.happened, note = excluded.note";
    let Settlement { call, at, finding, note } = settlement;
    connection.execute(sql, params![call, at, *finding == Finding::Happened, note])?;
    Ok(())
}

impl SqliteReader {
    /// The settlement of a call.
    pub(crate) fn settlement(&self, call: Uuid) -> Result<Option<Settlement>, StoreError> {
        let sql = "SELECT at, happened, note FROM settlements WHERE call = ?";
        let found = self.connection.prepare_cached(sql)?.query_row([call], |row| {
            let finding = if row.get(1)? { Finding::Happened } else { Finding::DidNotHappen };
            Ok(Settlement { call, at: row.get(0)?, finding, note: row.get(2)? })
        });
        Ok(found.optional()?)
    }

    /// Tool calls with an unknown outcome that are not idempotent and not settled, newest first; without those of a chat or of
    /// the console that its user has stopped, and without tasks of clients of the gateway that were cancelled. Elsewhere a call may be cancelled without a person (a timeout, a budget, a client); the record of a
    /// call that an operator has cancelled says so as its error.
    pub(crate) fn unsettled(&self, limit: usize) -> Result<Vec<CallRow>, StoreError> {
        let condition = "outcome = 'unknown' AND kind = 'tool' AND idempotent = 0 \
                         AND NOT (state = 'cancelled' AND error IS NULL AND (surface IN ('chat', 'console') \
                         OR (surface = 'gateway' AND EXISTS (SELECT 1 FROM tasks WHERE tasks.id = calls.id)))) \
                         AND id NOT IN (SELECT call FROM settlements)";
        calls::rows_where(self, condition, limit)
    }
}
