//! Definitions of tools, prompts and servers as they were first seen or last accepted.

use deadpool_postgres::Object;
use tokio_postgres::Row;
use toolway_host::policy::{Baseline, SeenDigest, SeenItem, baseline::MAX_ITEMS};

use super::{
    pipeline::{self, Value, limit, text},
    reader::PostgresReader,
};
use crate::{StoreError, time};

/// Inserts a definition if its server has room or it is about the whole server, or replaces that of the same item.
const WRITE: &str = "INSERT INTO baselines (server, item, digest, text, at) \
     SELECT $1, $2, $3, $4, $5 WHERE EXISTS (SELECT 1 FROM baselines WHERE server = $1 AND item = $2) \
     OR $7::boolean OR (SELECT count(*) FROM baselines WHERE server = $1) < $6 \
     ON CONFLICT (server, item) DO UPDATE SET digest = excluded.digest, text = excluded.text, at = excluded.at";

/// Writes definitions in place of those of the same items. Of a server with too many items, further ones are left out.
pub(super) async fn write(client: &Object, baselines: &[Baseline]) -> Result<(), StoreError> {
    for Baseline { server, item, digest, text: definition, seen_at } in baselines {
        let values: Vec<Value<'_>> = vec![
            Box::new(server.as_str()),
            Box::new(text(&item.key()).into_owned()),
            Box::new(text(digest)),
            Box::new(text(definition)),
            Box::new(time::micros(*seen_at)),
            Box::new(limit(MAX_ITEMS)),
            Box::new(item.is_of_server()),
        ];
        pipeline::execute(client, WRITE, values).await?;
    }
    Ok(())
}

impl PostgresReader {
    pub(crate) async fn baselines(&self) -> Result<Vec<Baseline>, StoreError> {
        let sql = "SELECT server, item, digest, text, at FROM baselines ORDER BY server, item";
        self.rows(sql, &[]).await?.iter().filter_map(|row| baseline(row).transpose()).collect()
    }

    pub(crate) async fn seen_digests(&self, server: &str) -> Result<Vec<SeenDigest>, StoreError> {
        let sql = "SELECT item, digest FROM baselines WHERE server = $1 ORDER BY item";
        let mut found = Vec::new();
        for row in self.rows(sql, &[Box::new(text(server))]).await? {
            if let Some(item) = SeenItem::parse(&row.try_get::<_, String>(0)?) {
                found.push(SeenDigest { item, digest: row.try_get(1)? });
            }
        }
        Ok(found)
    }

    pub(crate) async fn baseline(&self, server: &str, item: &SeenItem) -> Result<Option<Baseline>, StoreError> {
        let sql = "SELECT server, item, digest, text, at FROM baselines WHERE server = $1 AND item = $2";
        let key = item.key();
        let values: [Value<'_>; 2] = [Box::new(text(server)), Box::new(text(&key))];
        self.rows(sql, &values).await?.first().map_or(Ok(None), baseline)
    }
}

/// A definition; `None` if a later version wrote it.
fn baseline(row: &Row) -> Result<Option<Baseline>, StoreError> {
    let server: String = row.try_get(0)?;
    let server = server.parse().map_err(|_| StoreError::Invalid("a stored definition names no server"))?;
    let Some(item) = SeenItem::parse(&row.try_get::<_, String>(1)?) else { return Ok(None) };
    let seen_at = time::system_time(row.try_get(4)?);
    Ok(Some(Baseline { server, item, digest: row.try_get(2)?, text: row.try_get(3)?, seen_at }))
}
