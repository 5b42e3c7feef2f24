//! The audit log: append-only, hash-chained, one per database.

use rusqlite::{OptionalExtension, Row, params, params_from_iter, types::Value};
use uuid::Uuid;

use crate::{
    Reader, StoreError,
    chain::{Contents, Hash, Link},
    time::Micros,
};

/// Kinds of audit events: the notes of a host, and what the store itself writes.
pub mod kind {
    pub use toolway_host::record::kind::*;

    /// A call ended; `details` has its state.
    pub const CALL: &str = "call";
    /// A process ended without ending its calls.
    pub const RECOVERY: &str = "recovery";

    /// The store itself: it replaces a corrupt one, began to remove records, or removed audit entries.
    pub const STORE: &str = "store";

    /// All of them.
    pub const ALL: [&str; 12] = [
        DECISION,
        APPROVAL,
        SERVER_REQUEST,
        VALIDATION,
        CONNECTION,
        SIGN_IN,
        CONFIGURATION,
        KEY,
        SECRET,
        CALL,
        RECOVERY,
        STORE,
    ];
}

/// An event to append.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditEvent {
    /// When it happened.
    pub at: Micros,
    /// One of [`kind`].
    pub kind: &'static str,
    /// `kind[:name]` of the caller.
    pub caller: Option<String>,
    /// Server name.
    pub server: Option<String>,
    /// Tool, prompt, key, file …
    pub subject: Option<String>,
    /// The call it belongs to.
    pub call: Option<Uuid>,
    /// A JSON object, without secrets.
    pub details: String,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Position in the chain, from 1.
    pub seq: i64,
    /// When it happened.
    pub at: Micros,
    /// One of [`kind`].
    pub kind: String,
    /// `kind[:name]` of the caller.
    pub caller: Option<String>,
    /// Server name.
    pub server: Option<String>,
    /// Tool, prompt, key, file …
    pub subject: Option<String>,
    /// The call it belongs to.
    pub call: Option<Uuid>,
    /// A JSON object.
    pub details: String,
    /// Hash of this entry.
    pub hash: Hash,
}

/// Which entries to return. Absent members match every entry.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// One of [`kind`].
    pub kind: Option<String>,
    /// `kind[:name]` of the caller.
    pub caller: Option<String>,
    /// Server name.
    pub server: Option<String>,
    /// The call the entries belong to.
    pub call: Option<Uuid>,
    /// Not before.
    pub since: Option<Micros>,
    /// Entries after this position only.
    pub after: Option<i64>,
    /// At most this many.
    pub limit: usize,
}

/// Result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// All entries are as they were written.
    Intact {
        /// Entries in the file.
        entries: u64,
        /// Position of the last entry that retention removed; 0 if none was.
        checkpoint: i64,
    },
    /// An entry was changed, removed or added outside the log.
    Broken {
        /// Position of the first entry that does not fit.
        seq: i64,
    },
}

/// What the log says about its own beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOrigin {
    /// The corrupt database that this one replaces.
    pub replaces: Option<String>,
    /// When the entries up to the checkpoint were removed.
    pub removed_at: Option<Micros>,
}

impl AuditEvent {
    /// Appends the event after `head`, inside the caller's transaction, and returns the new head.
    pub(crate) fn append(&self, connection: &rusqlite::Connection, head: Link) -> Result<Link, StoreError> {
        let call = self.call.map(Uuid::into_bytes);
        let contents = Contents {
            at: self.at,
            kind: self.kind,
            caller: self.caller.as_deref(),
            server: self.server.as_deref(),
            subject: self.subject.as_deref(),
            call: call.as_ref().map(<[u8; 16]>::as_slice),
            details: &self.details,
        };
        let link = head.next(&contents);
        let mut statement = connection.prepare_cached("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
        statement.execute(params![
            link.seq,
            self.at,
            self.kind,
            self.caller,
            self.server,
            self.subject,
            self.call,
            self.details,
            link.hash
        ])?;
        Ok(link)
    }
}

impl Reader {
    /// Entries that match, newest first; with `after`, oldest first.
    pub fn audit(&self, filter: &AuditFilter) -> Result<Vec<AuditEntry>, StoreError> {
        let mut conditions = vec!["1"];
        let mut values: Vec<Value> = Vec::new();
        for (column, value) in
            [("kind = ?", &filter.kind), ("caller = ?", &filter.caller), ("server = ?", &filter.server)]
        {
            if let Some(value) = value {
                conditions.push(column);
                values.push(value.clone().into());
            }
        }
        if let Some(call) = filter.call {
            conditions.push("call = ?");
            values.push(call.as_bytes().to_vec().into());
        }
        for (condition, value) in [("at >= ?", filter.since), ("seq > ?", filter.after)] {
            if let Some(value) = value {
                conditions.push(condition);
                values.push(value.into());
            }
        }
        let order = if filter.after.is_some() { "ASC" } else { "DESC" };
        values.push(i64::try_from(filter.limit).unwrap_or(i64::MAX).into());
        let sql = format!("SELECT * FROM audit WHERE {} ORDER BY seq {order} LIMIT ?", conditions.join(" AND "));
        self.rows(&sql, params_from_iter(values), entry)
    }

    /// What the log says about its own beginning.
    pub fn log_origin(&self) -> Result<LogOrigin, StoreError> {
        let checkpoint = Link::read(&self.connection, "checkpoint")?;
        let sql = "SELECT * FROM audit WHERE kind = 'store' AND kind <> 'call' ORDER BY seq LIMIT 1";
        let first = self.rows(sql, [], entry)?.pop().filter(|first| first.seq == 1);
        let replaces = first.filter(|first| first.details.contains(r#""replaced""#)).and_then(|first| first.subject);
        Ok(LogOrigin { replaces, removed_at: removal(&self.connection, checkpoint)? })
    }

    /// Follows the chain from its beginning, or from the checkpoint that retention left. An entry behind the checkpoint must
    /// say that the entries up to it were removed.
    pub fn verify_audit(&self) -> Result<Verified, StoreError> {
        // One snapshot, so that entries appended meanwhile do not look like additions.
        let transaction = self.connection.unchecked_transaction()?;
        let checkpoint = Link::read(&transaction, "checkpoint")?;
        let head = Link::read(&transaction, "head")?;
        let mut statement = transaction.prepare("SELECT * FROM audit ORDER BY seq")?;
        let mut rows = statement.query([])?;
        let mut link = checkpoint;
        while let Some(row) = rows.next()? {
            let found = entry(row)?;
            link = link.next(&found.contents());
            if link != (Link { seq: found.seq, hash: found.hash }) {
                return Ok(Verified::Broken { seq: link.seq });
            }
        }
        if link != head {
            return Ok(Verified::Broken { seq: link.seq + 1 });
        }
        if 0 < checkpoint.seq && removal(&transaction, checkpoint)?.is_none() {
            return Ok(Verified::Broken { seq: checkpoint.seq });
        }
        let entries = u64::try_from(head.seq - checkpoint.seq).unwrap_or_default();
        Ok(Verified::Intact { entries, checkpoint: checkpoint.seq })
    }
}

/// When the entries up to the checkpoint were removed, as an entry of the chain says.
fn removal(connection: &rusqlite::Connection, checkpoint: Link) -> Result<Option<Micros>, StoreError> {
    let sql = "SELECT at FROM audit WHERE kind = 'store' AND kind <> 'call' AND json_extract(details, '$.upTo') = ? \
               AND json_extract(details, '$.hash') = ?";
    let values = params![checkpoint.seq, hexadecimal(&checkpoint.hash)];
    Ok(connection.query_row(sql, values, |row| row.get(0)).optional()?)
}

/// A hash as text.
pub(crate) fn hexadecimal(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn entry(row: &Row<'_>) -> rusqlite::Result<AuditEntry> {
    Ok(AuditEntry {
        seq: row.get(0)?,
        at: row.get(1)?,
        kind: row.get(2)?,
        caller: row.get(3)?,
        server: row.get(4)?,
        subject: row.get(5)?,
        call: row.get(6)?,
        details: row.get(7)?,
        hash: row.get(8)?,
    })
}

#[cfg(test)]
mod tests {
    use super::kind;

    /// One that is not in the list is refused by `audit query --kind`, and lost from a journal.
    #[test]
    fn the_list_of_kinds_has_every_kind() {
        let sources = [include_str!("../../host/src/record/recorder.rs"), include_str!("audit.rs")];
        let lines = sources.iter().flat_map(|source| source.lines());
        let constants = lines.filter_map(|line| line.trim().strip_prefix("pub const "));
        let kinds: Vec<_> =
            constants.filter_map(|line| line.split_once(": &str = \"")?.1.strip_suffix("\";")).collect();
        let missing: Vec<_> = kinds.iter().filter(|word| !kind::ALL.contains(word)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert_eq!(kinds.len(), kind::ALL.len());
    }
}
