//! Saved approvals: what a user answered with "always" or "never".

use rusqlite::{Connection, Row, params};
use toolway_host::policy::{ApprovalKey, ArgumentPattern, SavedEffect as HostEffect, decisive};
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
    /// Digest of the tool's definition, or method and digest of another item. A changed definition is asked about again.
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

impl From<SavedEffect> for HostEffect {
    fn from(effect: SavedEffect) -> Self {
        match effect {
            SavedEffect::Allow => Self::Allow,
            SavedEffect::Deny => Self::Deny,
        }
    }
}

impl SavedApproval {
    /// The one of these that decides about a call; a refusal wins.
    pub fn deciding<'a>(saved: &'a [Self], key: &ApprovalKey) -> Option<&'a Self> {
        let arguments = key.arguments.as_ref().map(ArgumentPattern::to_json);
        let covers = |saved: &&Self| {
            let is_same = saved.server == key.server.as_str() && saved.tool == key.tool;
            let is_covered = saved.arguments.is_none() || saved.arguments == arguments;
            is_same && saved.caller == key.caller && saved.digest == key.digest && is_covered
        };
        decisive(saved.iter().filter(covers), |saved| saved.effect.into())
    }

    /// Method of the calls that it covers. A raw method may be named like a tool.
    pub fn method(&self) -> &str {
        self.digest.rsplit_once(':').map_or("tools/call", |(method, _)| method)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(effect: SavedEffect, arguments: Option<&str>) -> SavedApproval {
        SavedApproval {
            id: Uuid::now_v7(),
            created_at: crate::time::now(),
            caller: "agent".to_owned(),
            server: "files".to_owned(),
            tool: "write".to_owned(),
            arguments: arguments.map(str::to_owned),
            digest: "d".to_owned(),
            effect,
            created_by: "chat".to_owned(),
        }
    }

    #[test]
    fn a_refusal_wins_over_approvals_before_and_after_it() {
        let pattern = ArgumentPattern::parse(r#"{"/path":"a"}"#);
        let (caller, digest) = ("agent".to_owned(), "d".to_owned());
        let key = ApprovalKey {
            caller,
            server: "files".parse().unwrap(),
            tool: "write".to_owned(),
            arguments: pattern,
            digest,
        };
        let allow = |arguments| saved(SavedEffect::Allow, arguments);
        let deny = |arguments| saved(SavedEffect::Deny, arguments);
        let path = Some(r#"{"/path":"a"}"#);
        for (rows, expected) in [
            (vec![allow(path)], Some(SavedEffect::Allow)),
            (vec![allow(None), deny(path)], Some(SavedEffect::Deny)),
            (vec![deny(path), allow(None)], Some(SavedEffect::Deny)),
            (vec![allow(path), deny(None)], Some(SavedEffect::Deny)),
            (vec![allow(path), deny(Some(r#"{"/path":"b"}"#))], Some(SavedEffect::Allow)),
            (vec![SavedApproval { digest: "prompts/get:d".to_owned(), ..allow(path) }], None),
            (vec![], None),
        ] {
            assert_eq!(SavedApproval::deciding(&rows, &key).map(|saved| saved.effect), expected, "{rows:?}");
        }
    }
}
