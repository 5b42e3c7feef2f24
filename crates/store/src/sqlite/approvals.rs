//! Saved approvals: what a user answered with "always" or "never".

use std::collections::HashSet;

use rusqlite::{Connection, Row, params};
use toolway_config::ServerName;
pub use toolway_host::policy::StoredApproval;
use toolway_host::policy::{ApprovalKey, Attendance, SavedApproval, SavedEffect, Scope};
use uuid::Uuid;

use crate::{
    SqliteReader, StoreError,
    time::{self, Micros},
};

/// Items for which a refusal is saved, as server and tool.
pub(crate) type Refusals = HashSet<(String, String)>;

const COLUMNS: &str = "id, created_at, caller, server, tool, digest, effect, created_by, entry, scope, unattended";

/// Writes an approval. Approvals of an earlier release for the same tool are replaced: the user was asked again.
pub(crate) fn write(stored: &StoredApproval, connection: &Connection) -> Result<(), StoreError> {
    let SavedApproval { id, created_at, key, scope, effect, holds } = &stored.approval;
    let id: Uuid = id.parse().map_err(|_| StoreError::Invalid("the id of an approval is not a UUID"))?;
    let insert = format!("INSERT INTO approvals ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    connection.prepare_cached(&insert)?.execute(params![
        id,
        time::micros(*created_at),
        key.caller,
        key.server.as_str(),
        key.tool,
        key.digest,
        effect.as_str(),
        stored.created_by,
        key.entry,
        scope.to_json(),
        *holds == Attendance::Unattended,
    ])?;
    let replace =
        "DELETE FROM approvals WHERE caller = ? AND server = ? AND tool = ? AND entry = '' AND effect = 'allow'";
    connection.prepare_cached(replace)?.execute(params![key.caller, key.server.as_str(), key.tool])?;
    Ok(())
}

/// Sets where an approval holds.
pub(crate) fn write_holds(connection: &Connection, id: Uuid, holds: Attendance) -> Result<(), StoreError> {
    let unattended = holds == Attendance::Unattended;
    connection.execute("UPDATE approvals SET unattended = ? WHERE id = ?", params![unattended, id])?;
    Ok(())
}

impl SqliteReader {
    /// All saved approvals, newest first.
    pub fn approvals(&self) -> Result<Vec<StoredApproval>, StoreError> {
        self.rows(&format!("SELECT {COLUMNS} FROM approvals ORDER BY id DESC"), [], row)
    }

    /// Saved approvals of one tool, and those of its server that are about every tool.
    pub fn approvals_of(&self, server: &str, tool: &str) -> Result<Vec<StoredApproval>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM approvals WHERE server = ? AND tool IN (?, '') ORDER BY id DESC");
        self.rows(&query, [server, tool], row)
    }

    /// Items for which a refusal is saved.
    pub(crate) fn refusals(&self) -> Result<Refusals, StoreError> {
        let query = "SELECT DISTINCT server, tool FROM approvals WHERE effect = 'deny'";
        let rows = self.rows(query, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.into_iter().collect())
    }
}

fn row(row: &Row<'_>) -> rusqlite::Result<StoredApproval> {
    let stored = StoredRow {
        id: row.get(0)?,
        created_at: row.get(1)?,
        caller: row.get(2)?,
        server: row.get(3)?,
        tool: row.get(4)?,
        digest: row.get(5)?,
        effect: row.get(6)?,
        created_by: row.get(7)?,
        entry: row.get(8)?,
        scope: row.get(9)?,
        is_unattended: row.get(10)?,
    };
    let kind = rusqlite::types::Type::Text;
    stored.approval().map_err(|what| rusqlite::Error::FromSqlConversionFailure(3, kind, what.into()))
}

/// The columns of an approval.
pub(crate) struct StoredRow {
    pub(crate) id: Uuid,
    pub(crate) created_at: Micros,
    pub(crate) caller: String,
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) digest: String,
    pub(crate) effect: String,
    pub(crate) created_by: String,
    pub(crate) entry: String,
    pub(crate) scope: String,
    pub(crate) is_unattended: bool,
}

impl StoredRow {
    /// The approval, or what is wrong with the row.
    pub(crate) fn approval(self) -> Result<StoredApproval, &'static str> {
        let scope = Scope::parse(&self.scope);
        let key = ApprovalKey {
            caller: self.caller,
            server: self.server.parse::<ServerName>().map_err(|_| "a saved approval names no server")?,
            // What it covers is not known: it allows nothing.
            entry: if scope.is_some() { self.entry } else { String::new() },
            tool: self.tool,
            digest: self.digest,
        };
        let effect = if self.effect == "allow" { SavedEffect::Allow } else { SavedEffect::Deny };
        let holds = if self.is_unattended { Attendance::Unattended } else { Attendance::Attended };
        let created_at = time::system_time(self.created_at);
        let scope = scope.unwrap_or(Scope::Any);
        let approval = SavedApproval { id: self.id.to_string(), created_at, key, scope, effect, holds };
        Ok(StoredApproval { approval, created_by: self.created_by })
    }
}
