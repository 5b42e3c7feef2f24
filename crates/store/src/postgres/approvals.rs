//! Saved approvals: what a user answered with "always" or "never".

use tokio_postgres::Row;
use toolway_host::policy::{Attendance, SavedApproval};
use uuid::Uuid;

use super::{
    batch::Filling,
    pipeline::{Value, text},
    reader::PostgresReader,
};
use crate::{
    StoreError,
    approvals::{Refusals, StoredApproval, StoredRow},
    time,
};

const COLUMNS: &str = "id, created_at, caller, server, tool, digest, effect, created_by, entry, scope, unattended";

/// Writes an approval.
pub(super) async fn write<'a>(filling: &mut Filling<'a>, stored: &'a StoredApproval) -> Result<(), StoreError> {
    let SavedApproval { id, created_at, key, scope, effect, holds } = &stored.approval;
    let id: Uuid = id.parse().map_err(|_| StoreError::Invalid("the id of an approval is not a UUID"))?;
    let sql = format!("INSERT INTO approvals ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)");
    let values: Vec<Value<'a>> = vec![
        Box::new(id),
        Box::new(time::micros(*created_at)),
        Box::new(text(&key.caller)),
        Box::new(key.server.as_str()),
        Box::new(text(&key.tool)),
        Box::new(text(&key.digest)),
        Box::new(effect.as_str()),
        Box::new(text(&stored.created_by)),
        Box::new(text(&key.entry)),
        Box::new(text(&scope.to_json()).into_owned()),
        Box::new(*holds == Attendance::Unattended),
    ];
    filling.send(&sql, values).await
}

/// Sets where an approval holds.
pub(super) async fn write_holds(filling: &mut Filling<'_>, id: Uuid, holds: Attendance) -> Result<(), StoreError> {
    let values: Vec<Value<'_>> = vec![Box::new(holds == Attendance::Unattended), Box::new(id)];
    filling.send("UPDATE approvals SET unattended = $1 WHERE id = $2", values).await
}

impl PostgresReader {
    pub(crate) async fn approvals(&self) -> Result<Vec<StoredApproval>, StoreError> {
        let rows = self.rows(&format!("SELECT {COLUMNS} FROM approvals ORDER BY id DESC"), &[]).await?;
        rows.iter().map(approval).collect()
    }

    pub(crate) async fn approvals_of(&self, server: &str, tool: &str) -> Result<Vec<StoredApproval>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM approvals WHERE server = $1 AND tool IN ($2, '') ORDER BY id DESC");
        let values: [Value<'_>; 2] = [Box::new(text(server)), Box::new(text(tool))];
        self.rows(&sql, &values).await?.iter().map(approval).collect()
    }

    pub(crate) async fn refusals(&self) -> Result<Refusals, StoreError> {
        let rows = self.rows("SELECT DISTINCT server, tool FROM approvals WHERE effect = 'deny'", &[]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }
}

fn approval(row: &Row) -> Result<StoredApproval, StoreError> {
    let stored = StoredRow {
        id: row.try_get(0)?,
        created_at: row.try_get(1)?,
        caller: row.try_get(2)?,
        server: row.try_get(3)?,
        tool: row.try_get(4)?,
        digest: row.try_get(5)?,
        effect: row.try_get(6)?,
        created_by: row.try_get(7)?,
        entry: row.try_get(8)?,
        scope: row.try_get(9)?,
        is_unattended: row.try_get(10)?,
    };
    stored.approval().map_err(StoreError::Invalid)
}
