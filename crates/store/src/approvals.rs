//! Saved approvals: what a user answered with "always" or "never".

use std::collections::HashSet;

use rusqlite::{Connection, Row, params};
use toolway_config::ServerName;
pub use toolway_host::policy::StoredApproval;
use toolway_host::policy::{ApprovalKey, Attendance, SavedApproval, SavedEffect, Scope};
use uuid::Uuid;

use crate::{Reader, StoreError, time};

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

impl Reader {
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
    let id: Uuid = row.get(0)?;
    let (effect, scope, is_unattended): (String, String, bool) = (row.get(6)?, row.get(9)?, row.get(10)?);
    let entry: String = row.get(8)?;
    let server: String = row.get(3)?;
    let scope = Scope::parse(&scope);
    let effect = if effect == "allow" { SavedEffect::Allow } else { SavedEffect::Deny };
    let invalid = |column: usize, what: &str| {
        let kind = rusqlite::types::Type::Text;
        rusqlite::Error::FromSqlConversionFailure(column, kind, format!("not {what}").into())
    };
    let key = ApprovalKey {
        caller: row.get(2)?,
        server: server.parse::<ServerName>().map_err(|_| invalid(3, "the name of a server"))?,
        // What it covers is not known: it allows nothing.
        entry: if scope.is_some() { entry } else { String::new() },
        tool: row.get(4)?,
        digest: row.get(5)?,
    };
    let holds = if is_unattended { Attendance::Unattended } else { Attendance::Attended };
    let created_at = time::system_time(row.get(1)?);
    let scope = scope.unwrap_or(Scope::Any);
    let approval = SavedApproval { id: id.to_string(), created_at, key, scope, effect, holds };
    Ok(StoredApproval { approval, created_by: row.get(7)? })
}
