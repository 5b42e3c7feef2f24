//! The audit log: append-only, hash-chained, one per database. A commit that appends locks the head before.

use deadpool_postgres::Object;
use futures_util::{TryStreamExt, future::BoxFuture};
use tokio_postgres::{IsolationLevel, Row};
use toolway_host::record::{Detail, GroupPart};
use uuid::Uuid;

use super::{
    pipeline::{self, Conditions, Value, limit, text},
    reader::PostgresReader,
};
use crate::{
    StoreError,
    audit::{AuditEntry, AuditEvent, AuditFilter, AuditGroup, LogOrigin, Verified, hexadecimal, kind},
    chain::{Contents, Hash, Link, contents},
    time::Micros,
};

const COLUMNS: &str = "seq, at, kind, caller, server, subject, call, details, hash";
const HEAD: &str = "SELECT seq, hash FROM audit_ends WHERE which = 'head' FOR UPDATE";

/// Appends entries, one array for each column.
pub(super) const APPEND: &str = "INSERT INTO audit (seq, at, kind, caller, server, subject, call, details, hash) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::uuid[], \
     $8::text[], $9::bytea[])";

/// Writes an end of the chain.
pub(super) const WRITE_END: &str = "UPDATE audit_ends SET seq = $1, hash = $2 WHERE which = $3";

/// Entries that follow a head, by column.
#[derive(Default)]
pub(super) struct Appended {
    pub(super) head: Link,
    seqs: Vec<i64>,
    ats: Vec<Micros>,
    kinds: Vec<&'static str>,
    callers: Vec<Option<String>>,
    servers: Vec<Option<String>>,
    subjects: Vec<Option<String>>,
    calls: Vec<Option<Uuid>>,
    details: Vec<String>,
    hashes: Vec<Vec<u8>>,
}

impl Appended {
    pub(super) fn after(head: Link, events: &[AuditEvent]) -> Self {
        let mut appended = Self { head, ..Self::default() };
        events.iter().for_each(|event| appended.add(event));
        appended
    }

    fn add(&mut self, event: &AuditEvent) {
        // What is hashed is what is stored.
        let stored = |value: &Option<String>| value.as_deref().map(|value| text(value).into_owned());
        let caller = stored(&event.caller);
        let server = stored(&event.server);
        let subject = stored(&event.subject);
        let details = text(&event.details).into_owned();
        let call = event.call.map(Uuid::into_bytes);
        self.head = self.head.next(&Contents {
            at: event.at,
            kind: event.kind,
            caller: caller.as_deref(),
            server: server.as_deref(),
            subject: subject.as_deref(),
            call: call.as_ref().map(<[u8; 16]>::as_slice),
            details: &details,
        });
        self.seqs.push(self.head.seq);
        self.ats.push(event.at);
        self.kinds.push(event.kind);
        self.callers.push(caller);
        self.servers.push(server);
        self.subjects.push(subject);
        self.calls.push(event.call);
        self.details.push(details);
        self.hashes.push(self.head.hash.to_vec());
    }

    pub(super) fn values(&self) -> Vec<Value<'static>> {
        vec![
            Box::new(self.seqs.clone()),
            Box::new(self.ats.clone()),
            Box::new(self.kinds.clone()),
            Box::new(self.callers.clone()),
            Box::new(self.servers.clone()),
            Box::new(self.subjects.clone()),
            Box::new(self.calls.clone()),
            Box::new(self.details.clone()),
            Box::new(self.hashes.clone()),
        ]
    }
}

/// Sends the query that locks the head until the transaction ends.
pub(super) async fn lock_head(client: &Object) -> Result<BoxFuture<'_, Result<Vec<Row>, StoreError>>, StoreError> {
    pipeline::send_query(client, HEAD).await
}

/// The head, from the rows of its query.
pub(super) fn head(rows: &[Row]) -> Result<Link, StoreError> {
    link(rows)?.ok_or(StoreError::Invalid("the audit log of the database has no head"))
}

fn link(rows: &[Row]) -> Result<Option<Link>, StoreError> {
    let Some(row) = rows.first() else { return Ok(None) };
    let bytes: Vec<u8> = row.try_get(1)?;
    Ok(Some(Link { seq: row.try_get(0)?, hash: hash(&bytes) }))
}

/// The hash of a row; one of another length does not fit the chain.
fn hash(bytes: &[u8]) -> Hash {
    bytes.try_into().unwrap_or_default()
}

impl PostgresReader {
    pub(crate) async fn audit(&self, filter: &AuditFilter) -> Result<Vec<AuditEntry>, StoreError> {
        let mut conditions = Conditions::default();
        conditions.fixed(filter.group.map_or_else(|| "TRUE".to_owned(), group_condition));
        let texts = [("kind = ?", &filter.kind), ("caller = ?", &filter.caller), ("server = ?", &filter.server)];
        texts.into_iter().filter_map(|(term, value)| Some((term, value.as_deref()?))).for_each(|(term, value)| {
            conditions.add(term, text(value));
        });
        if let Some(call) = filter.call {
            conditions.add("call = ?", call);
        }
        let numbers = [("at >= ?", filter.since), ("at <= ?", filter.until), ("seq > ?", filter.after)];
        numbers.into_iter().filter_map(|(term, value)| Some((term, value?))).for_each(|(term, value)| {
            conditions.add(term, value);
        });
        let order = if filter.after.is_some() { "ASC" } else { "DESC" };
        let most = conditions.mark(limit(filter.limit));
        let sql = format!("SELECT {COLUMNS} FROM audit WHERE {} ORDER BY seq {order} LIMIT {most}", conditions.sql());
        self.rows(&sql, &conditions.values).await?.iter().map(entry).collect()
    }

    pub(crate) async fn log_origin(&self) -> Result<LogOrigin, StoreError> {
        let client = self.client().await?;
        let checkpoint = checkpoint(&client).await?;
        Ok(LogOrigin { replaces: None, removed_at: removal(&client, checkpoint).await? })
    }

    pub(crate) async fn verify_audit(&self) -> Result<Verified, StoreError> {
        let mut client = self.client().await?;
        // One snapshot, so that entries appended meanwhile do not look like additions.
        let transaction = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        let transaction = transaction.start().await?;
        let end = |which: &'static str| {
            let sql = format!("SELECT seq, hash FROM audit_ends WHERE which = '{which}'");
            let transaction = &transaction;
            async move { head(&transaction.query(&sql, &[]).await?) }
        };
        let checkpoint = end("checkpoint").await?;
        let last = end("head").await?;
        let all = format!("SELECT {COLUMNS} FROM audit ORDER BY seq");
        let rows = transaction.query_raw(&all, Vec::<i64>::new()).await?;
        let mut rows = std::pin::pin!(rows);
        let mut link = checkpoint;
        while let Some(row) = rows.try_next().await? {
            let found = entry(&row)?;
            link = link.next(&contents(&found));
            if link != (Link { seq: found.seq, hash: found.hash }) {
                return Ok(Verified::Broken { seq: link.seq });
            }
        }
        if link != last {
            return Ok(Verified::Broken { seq: link.seq + 1 });
        }
        drop(transaction);
        if 0 < checkpoint.seq && removal(&client, checkpoint).await?.is_none() {
            return Ok(Verified::Broken { seq: checkpoint.seq });
        }
        let entries = u64::try_from(last.seq - checkpoint.seq).unwrap_or_default();
        Ok(Verified::Intact { entries, checkpoint: checkpoint.seq })
    }
}

async fn checkpoint(client: &Object) -> Result<Link, StoreError> {
    let rows = pipeline::rows(client, "SELECT seq, hash FROM audit_ends WHERE which = 'checkpoint'", &[]).await?;
    head(&rows)
}

/// A member of the details, which are an object unless a later version wrote something else.
fn member(name: &str) -> String {
    format!("(CASE WHEN details LIKE '{{%' THEN details::json ->> '{name}' END)")
}

/// The condition that an entry of a group meets.
fn group_condition(group: AuditGroup) -> String {
    let conditions = group.parts().iter().map(|GroupPart { kinds, detail }| {
        let kinds = format!("kind IN ('{}')", kinds.join("', '"));
        match detail {
            Some(Detail { member: name, text }) => format!("({kinds} AND {} = '{text}')", member(name)),
            None => kinds,
        }
    });
    let any = conditions.collect::<Vec<_>>().join(" OR ");
    let has_calls = group.parts().iter().any(|of| of.kinds.contains(&kind::CALL));
    // The index by kind leaves the ends of calls out, and is used only where the query says that it wants none.
    if has_calls { format!("({any})") } else { format!("kind <> 'call' AND ({any})") }
}

/// When the entries up to the checkpoint were removed, as an entry of the chain says.
async fn removal(client: &Object, checkpoint: Link) -> Result<Option<Micros>, StoreError> {
    let sql = format!(
        "SELECT at FROM audit WHERE kind = 'store' AND kind <> 'call' AND {} = $1 AND {} = $2 LIMIT 1",
        member("upTo"),
        member("hash")
    );
    let values: [Value<'_>; 2] = [Box::new(checkpoint.seq.to_string()), Box::new(hexadecimal(&checkpoint.hash))];
    let rows = pipeline::rows(client, &sql, &values).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

fn entry(row: &Row) -> Result<AuditEntry, StoreError> {
    let bytes: Vec<u8> = row.try_get(8)?;
    Ok(AuditEntry {
        seq: row.try_get(0)?,
        at: row.try_get(1)?,
        kind: row.try_get(2)?,
        caller: row.try_get(3)?,
        server: row.try_get(4)?,
        subject: row.try_get(5)?,
        call: row.try_get(6)?,
        details: row.try_get(7)?,
        hash: hash(&bytes),
    })
}
