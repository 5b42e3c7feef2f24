//! The audit log: append-only, hash-chained, one per database.

use rusqlite::{OptionalExtension, Row, Statement, params, params_from_iter, types::Value};
pub use toolway_host::record::{AuditEntry, AuditFilter, AuditGroup, LogOrigin, Verified, kind};
use toolway_host::record::{Detail, GroupPart};
use uuid::Uuid;

use crate::{
    SqliteReader, StoreError,
    chain::{Contents, Hash, Link, contents},
    time::Micros,
};

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

/// Statement of [`Contents::append`].
pub(crate) const APPEND: &str = "INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

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
        contents.append(&mut *connection.prepare_cached(APPEND)?, head)
    }
}

impl Contents<'_> {
    /// Appends an entry with these contents after `head`, and returns the new head. `statement` is [`APPEND`].
    pub(crate) fn append(&self, statement: &mut Statement<'_>, head: Link) -> Result<Link, StoreError> {
        let link = head.next(self);
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

impl SqliteReader {
    /// Entries that match, newest first; with `after`, oldest first.
    pub fn audit(&self, filter: &AuditFilter) -> Result<Vec<AuditEntry>, StoreError> {
        let of_group = filter.group.map(group_condition);
        let mut conditions = vec![of_group.as_deref().unwrap_or("1")];
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
        for (condition, value) in [("at >= ?", filter.since), ("at <= ?", filter.until), ("seq > ?", filter.after)] {
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
            link = link.next(&contents(&found));
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

/// The condition that an entry of a group meets.
fn group_condition(group: AuditGroup) -> String {
    let conditions = group.parts().iter().map(|GroupPart { kinds, detail }| {
        let kinds = format!("kind IN ('{}')", kinds.join("', '"));
        match detail {
            Some(Detail { member, text }) => format!("({kinds} AND json_extract(details, '$.{member}') = '{text}')"),
            None => kinds,
        }
    });
    let any = conditions.collect::<Vec<_>>().join(" OR ");
    let has_calls = group.parts().iter().any(|of| of.kinds.contains(&kind::CALL));
    // The index by kind leaves the ends of calls out, and is used only where the query says that it wants none.
    if has_calls { format!("({any})") } else { format!("kind <> 'call' AND ({any})") }
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
