//! Definitions of tools and servers as they were first seen or last accepted.

use rusqlite::{Connection, Row, params};
use toolway_host::policy::{
    Baseline,
    baseline::{MAX_ITEMS, MAX_TOTAL},
};

use crate::{Reader, StoreError, time};

/// Writes definitions in place of those of the same items. Of a server with too many items, and in a store with too many
/// servers, further ones are left out.
pub(crate) fn write(connection: &Connection, baselines: &[Baseline]) -> Result<(), StoreError> {
    let insert = "INSERT INTO baselines (server, item, digest, text, at) SELECT ?1, ?2, ?3, ?4, ?5 \
                  WHERE EXISTS (SELECT 1 FROM baselines WHERE server = ?1 AND item = ?2) \
                     OR ((SELECT count(*) FROM baselines WHERE server = ?1) < ?6 AND (SELECT count(*) FROM baselines) < ?7) \
                  ON CONFLICT (server, item) DO UPDATE SET digest = excluded.digest, text = excluded.text, at = excluded.at";
    let mut statement = connection.prepare_cached(insert)?;
    for baseline in baselines {
        let Baseline { server, item, digest, text, seen_at } = baseline;
        let at = time::micros(*seen_at);
        statement.execute(params![server.as_str(), item, digest, text, at, MAX_ITEMS as i64, MAX_TOTAL as i64])?;
    }
    Ok(())
}

impl Reader {
    /// All definitions.
    pub(crate) fn baselines(&self) -> Result<Vec<Baseline>, StoreError> {
        self.rows("SELECT server, item, digest, text, at FROM baselines", [], row)
    }

    /// The definitions of a server of this name.
    pub(crate) fn baselines_of(&self, server: &str) -> Result<Vec<Baseline>, StoreError> {
        self.rows("SELECT server, item, digest, text, at FROM baselines WHERE server = ?", [server], row)
    }
}

fn row(row: &Row<'_>) -> rusqlite::Result<Baseline> {
    let server: String = row.get(0)?;
    let invalid = |_| rusqlite::Error::InvalidColumnType(0, "server".to_owned(), rusqlite::types::Type::Text);
    Ok(Baseline {
        server: server.parse().map_err(invalid)?,
        item: row.get(1)?,
        digest: row.get(2)?,
        text: row.get(3)?,
        seen_at: time::system_time(row.get(4)?),
    })
}
