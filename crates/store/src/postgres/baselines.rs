//! Definitions of tools, prompts and servers as they were first seen or last accepted.

use std::collections::{BTreeMap, HashSet};

use deadpool_postgres::Object;
use ring::digest::{SHA256, digest};
use tokio_postgres::Row;
use toolway_host::policy::{Baseline, SeenDigest, SeenItem, baseline::MAX_ITEMS};

use super::{
    pipeline::{self, Value, text},
    reader::PostgresReader,
};
use crate::{StoreError, time};

/// Writes definitions, one array for each column. Names of others may be longer than an entry of an index, so their digests are
/// indexed.
const WRITE: &str = "INSERT INTO baselines (server, item, item_digest, digest, text, at) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[], $5::text[], $6::bigint[]) \
     ON CONFLICT (server, item_digest) DO UPDATE SET digest = excluded.digest, text = excluded.text, at = excluded.at";

/// Definitions in one statement.
const CHUNK: usize = 1_000;

/// A definition and the digest of its item.
struct Keyed<'a> {
    baseline: &'a Baseline,
    item: String,
    digest: Vec<u8>,
}

/// Writes definitions in place of those of the same items. Of a server with too many items, further ones are left out.
pub(super) async fn write(client: &Object, baselines: &[Baseline]) -> Result<(), StoreError> {
    let mut by_server: BTreeMap<&str, Vec<Keyed<'_>>> = BTreeMap::new();
    for baseline in baselines {
        let item = text(&baseline.item.key()).into_owned();
        let digest = item_digest(&item);
        by_server.entry(baseline.server.as_str()).or_default().push(Keyed { baseline, item, digest });
    }
    for (server, mut items) in by_server {
        // The last one of an item counts.
        let mut seen = HashSet::new();
        items.reverse();
        items.retain(|keyed| seen.insert(keyed.digest.clone()));
        items.reverse();
        let known = known(client, server, items.iter().map(|keyed| keyed.digest.clone()).collect()).await?;
        let of_server = "SELECT count(*) FROM baselines WHERE server = $1";
        let mut of_server = count(client, of_server, &[Box::new(server)]).await?;
        let named = items.len();
        items.retain(|Keyed { baseline, digest, .. }| {
            if known.contains(digest) {
                return true;
            }
            let has_room = of_server < MAX_ITEMS || baseline.item.is_of_server();
            of_server += usize::from(has_room);
            has_room
        });
        if items.len() < named {
            tracing::error!(%server, "more than {MAX_ITEMS} definitions of a server are not kept; others count as changed");
        }
        for chunk in items.chunks(CHUNK) {
            pipeline::execute(client, WRITE, columns(server, chunk)).await?;
        }
    }
    Ok(())
}

fn columns<'a>(server: &'a str, chunk: &'a [Keyed<'a>]) -> Vec<Value<'a>> {
    let texts = |of: fn(&Baseline) -> &str| chunk.iter().map(|keyed| text(of(keyed.baseline))).collect::<Vec<_>>();
    vec![
        Box::new(vec![server; chunk.len()]),
        Box::new(chunk.iter().map(|keyed| keyed.item.as_str()).collect::<Vec<_>>()),
        Box::new(chunk.iter().map(|keyed| keyed.digest.as_slice()).collect::<Vec<_>>()),
        Box::new(texts(|baseline| &baseline.digest)),
        Box::new(texts(|baseline| &baseline.text)),
        Box::new(chunk.iter().map(|keyed| time::micros(keyed.baseline.seen_at)).collect::<Vec<_>>()),
    ]
}

/// Which of these items of a server are there.
async fn known(client: &Object, server: &str, items: Vec<Vec<u8>>) -> Result<HashSet<Vec<u8>>, StoreError> {
    let sql = "SELECT item_digest FROM baselines WHERE server = $1 AND item_digest = ANY($2)";
    let rows = pipeline::rows(client, sql, &[Box::new(server), Box::new(items)]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

async fn count(client: &Object, sql: &str, values: &[Value<'_>]) -> Result<usize, StoreError> {
    let rows = pipeline::rows(client, sql, values).await?;
    let count: i64 = rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
    Ok(usize::try_from(count).unwrap_or_default())
}

/// What the item is found by.
fn item_digest(item: &str) -> Vec<u8> {
    digest(&SHA256, item.as_bytes()).as_ref().to_vec()
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
        let sql = "SELECT server, item, digest, text, at FROM baselines WHERE server = $1 AND item_digest = $2";
        let values: [Value<'_>; 2] = [Box::new(text(server)), Box::new(item_digest(&text(&item.key())))];
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
