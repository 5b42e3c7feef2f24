//! Saved approvals: what a user answered with "always" or "never".

use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use crate::{Reader, StoreError, time::Micros};

/// A saved approval or refusal for one tool and caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedApproval {
    /// UUIDv7, so that ids sort by time.
    pub id: Uuid,
    /// When it was saved.
    pub created_at: Micros,
    /// `kind[:name]` of the caller it is for.
    pub caller: String,
    /// Server name.
    pub server: String,
    /// The server's own name of the tool.
    pub tool: String,
    /// JSON object of pointer to value: the arguments that must be the same; `None`: any arguments.
    pub arguments: Option<String>,
    /// Digest of the tool's definition. A changed definition is asked about again.
    pub digest: String,
    /// Whether calls are allowed or denied.
    pub effect: SavedEffect,
    /// The surface on which it was saved.
    pub created_by: String,
}

/// What a saved approval does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedEffect {
    /// Lifts `ask`.
    Allow,
    /// Turns `ask` into a refusal.
    Deny,
}

impl SavedEffect {
    /// The word in the database and for scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

impl SavedApproval {
    pub(crate) fn write(&self, connection: &Connection) -> Result<(), StoreError> {
        connection.prepare_cached("INSERT INTO approvals VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?.execute(params![
            self.id,
            self.created_at,
            self.caller,
            self.server,
            self.tool,
            self.arguments,
            self.digest,
            self.effect.as_str(),
            self.created_by,
        ])?;
        Ok(())
    }
}

impl Reader {
    /// All saved approvals, newest first.
    pub fn approvals(&self) -> Result<Vec<SavedApproval>, StoreError> {
        self.rows("SELECT * FROM approvals ORDER BY id DESC", [], row)
    }

    /// Saved approvals of one tool.
    pub fn approvals_of(&self, server: &str, tool: &str) -> Result<Vec<SavedApproval>, StoreError> {
        self.rows("SELECT * FROM approvals WHERE server = ? AND tool = ? ORDER BY id DESC", [server, tool], row)
    }
}

fn row(row: &Row<'_>) -> rusqlite::Result<SavedApproval> {
    let effect: String = row.get(7)?;
    Ok(SavedApproval {
        id: row.get(0)?,
        created_at: row.get(1)?,
        caller: row.get(2)?,
        server: row.get(3)?,
        tool: row.get(4)?,
        arguments: row.get(5)?,
        digest: row.get(6)?,
        effect: if effect == "allow" { SavedEffect::Allow } else { SavedEffect::Deny },
        created_by: row.get(8)?,
    })
}
