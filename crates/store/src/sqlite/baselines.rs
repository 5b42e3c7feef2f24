//! Definitions of tools, prompts and servers as they were first seen or last accepted.

use std::collections::{BTreeSet, HashMap, hash_map::Entry};

use rusqlite::{Connection, Row, params};
use toolway_host::policy::{Baseline, SeenDigest, SeenItem, baseline::MAX_ITEMS};

use crate::{SqliteReader, StoreError, time};

/// Writes definitions in place of those of the same items. Of a server with too many items, further ones are left out.
pub(crate) fn write(connection: &Connection, baselines: &[Baseline]) -> Result<(), StoreError> {
    let mut counted = connection.prepare_cached("SELECT count(*) FROM baselines WHERE server = ?")?;
    let mut counts: HashMap<&str, i64> = HashMap::new();
    let mut left_out = BTreeSet::new();
    let mut update = connection
        .prepare_cached("UPDATE baselines SET digest = ?3, text = ?4, at = ?5 WHERE server = ?1 AND item = ?2")?;
    let mut insert = connection
        .prepare_cached("INSERT INTO baselines (server, item, digest, text, at) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for baseline in baselines {
        let Baseline { server, item, digest, text, seen_at } = baseline;
        let values = params![server.as_str(), item.key(), digest, text, time::micros(*seen_at)];
        if 0 < update.execute(values)? {
            continue;
        }
        let of_server = match counts.entry(server.as_str()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(counted.query_row([server.as_str()], |row| row.get(0))?),
        };
        if *of_server < MAX_ITEMS as i64 || item.is_of_server() {
            insert.execute(values)?;
            *of_server += 1;
        } else {
            left_out.insert(server.as_str());
        }
    }
    for server in left_out {
        tracing::error!(%server, "more than {MAX_ITEMS} definitions of a server are not kept; others count as changed");
    }
    Ok(())
}

impl SqliteReader {
    /// All definitions.
    pub(crate) fn baselines(&self) -> Result<Vec<Baseline>, StoreError> {
        let found = self.rows("SELECT server, item, digest, text, at FROM baselines", [], row)?;
        Ok(found.into_iter().flatten().collect())
    }

    /// The digests of a server of this name.
    pub(crate) fn seen_digests(&self, server: &str) -> Result<Vec<SeenDigest>, StoreError> {
        let digest = |row: &Row<'_>| {
            let item = SeenItem::parse(&row.get::<_, String>(0)?);
            let digest = row.get(1)?;
            Ok(item.map(|item| SeenDigest { item, digest }))
        };
        let found = self.rows("SELECT item, digest FROM baselines WHERE server = ?", [server], digest)?;
        Ok(found.into_iter().flatten().collect())
    }

    /// One definition.
    pub(crate) fn baseline(&self, server: &str, item: &SeenItem) -> Result<Option<Baseline>, StoreError> {
        let sql = "SELECT server, item, digest, text, at FROM baselines WHERE server = ? AND item = ?";
        Ok(self.rows(sql, [server, &item.key()], row)?.into_iter().flatten().next())
    }
}

/// A definition; `None` if a later version wrote it.
fn row(row: &Row<'_>) -> rusqlite::Result<Option<Baseline>> {
    let server: String = row.get(0)?;
    let invalid = |_| rusqlite::Error::InvalidColumnType(0, "server".to_owned(), rusqlite::types::Type::Text);
    let server = server.parse().map_err(invalid)?;
    let Some(item) = SeenItem::parse(&row.get::<_, String>(1)?) else { return Ok(None) };
    let seen_at = time::system_time(row.get(4)?);
    Ok(Some(Baseline { server, item, digest: row.get(2)?, text: row.get(3)?, seen_at }))
}
