//! The hash chain of the audit log: each entry's hash covers its contents and the hash of the entry before it.

use ring::digest::{SHA256, digest};
use rusqlite::{Connection, params};

use crate::{StoreError, audit::AuditEntry, time::Micros};

/// Hash of one entry, and of the nothing before the first.
pub(crate) type Hash = [u8; 32];

/// One end of the chain: the last entry, or the last one that retention removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) seq: i64,
    pub(crate) hash: Hash,
}

/// The contents that an entry's hash covers.
pub(crate) struct Contents<'a> {
    pub(crate) at: Micros,
    pub(crate) kind: &'a str,
    pub(crate) caller: Option<&'a str>,
    pub(crate) server: Option<&'a str>,
    pub(crate) subject: Option<&'a str>,
    pub(crate) call: Option<&'a [u8]>,
    pub(crate) details: &'a str,
}

impl Link {
    /// The link that follows this one.
    pub(crate) fn next(&self, contents: &Contents<'_>) -> Self {
        let seq = self.seq + 1;
        let texts = [Some(contents.kind), contents.caller, contents.server, contents.subject, Some(contents.details)];
        let fields = texts.map(|text| text.map(str::as_bytes)).into_iter().chain([contents.call]);
        // All bytes at once: a hash of many small parts costs more than their copy.
        let mut bytes = Vec::with_capacity(512);
        bytes.extend_from_slice(&self.hash);
        bytes.extend_from_slice(&seq.to_be_bytes());
        bytes.extend_from_slice(&contents.at.to_be_bytes());
        for field in fields {
            // A length before each field, so that no two entries have the same bytes; absent differs from empty.
            let length = field.map_or(u64::MAX, |field| field.len() as u64);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(field.unwrap_or_default());
        }
        let mut hash = Hash::default();
        hash.copy_from_slice(digest(&SHA256, &bytes).as_ref());
        Self { seq, hash }
    }

    pub(crate) fn read(connection: &Connection, which: &str) -> Result<Self, StoreError> {
        let mut statement = connection.prepare_cached("SELECT seq, hash FROM audit_ends WHERE which = ?")?;
        Ok(statement.query_row([which], |row| Ok(Self { seq: row.get(0)?, hash: row.get(1)? }))?)
    }

    pub(crate) fn write(&self, connection: &Connection, which: &str) -> Result<(), StoreError> {
        let mut statement = connection.prepare_cached("UPDATE audit_ends SET seq = ?, hash = ? WHERE which = ?")?;
        statement.execute(params![self.seq, self.hash, which])?;
        Ok(())
    }
}

/// What the hash of an entry covers.
pub(crate) fn contents(entry: &AuditEntry) -> Contents<'_> {
    Contents {
        at: entry.at,
        kind: &entry.kind,
        caller: entry.caller.as_deref(),
        server: entry.server.as_deref(),
        subject: entry.subject.as_deref(),
        call: entry.call.as_ref().map(|call| call.as_bytes().as_slice()),
        details: &entry.details,
    }
}
