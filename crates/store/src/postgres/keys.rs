//! Idempotency keys: which call holds which key. The claim is one statement, under an advisory lock of its transaction.

use toolway_host::record::{HeldKey, IdempotencyKey, KEPT, KeyClaim, KeyHolder};
use uuid::Uuid;

use super::{
    batch::Filling,
    pipeline::{Value, text},
    reader::PostgresReader,
};
use crate::{StoreError, calls::StoredCall, time};

/// Takes the key if it is free: unknown, too old, or of a call that was not sent. A tool that may be called twice is not held
/// by a call whose outcome is unknown, and none by one that a person settled as not happened. A call that another process has
/// closed takes none.
const CLAIM: &str = "INSERT INTO idempotency_keys (owner, key, item, digest, call, at) SELECT $1, $2, $3, $4, $5, \
     (extract(epoch FROM clock_timestamp()) * 1000000)::bigint \
     WHERE NOT EXISTS (SELECT 1 FROM calls WHERE calls.id = $5 AND calls.state = 'interrupted') \
     ON CONFLICT (owner, key) DO UPDATE SET item = excluded.item, digest = excluded.digest, call = excluded.call, \
     at = excluded.at \
     WHERE idempotency_keys.call <> excluded.call AND EXISTS (SELECT 1 FROM calls WHERE calls.id = idempotency_keys.call \
     AND (calls.outcome = 'not-sent' OR (calls.outcome = 'unknown' AND ( \
     ($6 AND idempotency_keys.item = excluded.item AND idempotency_keys.digest = excluded.digest) \
     OR EXISTS (SELECT 1 FROM settlements WHERE settlements.call = calls.id AND NOT settlements.happened)))))";

/// Removes the keys that are too old by the clock of the database: keys of all processes, whose own clocks may jump.
const FORGET: &str =
    "DELETE FROM idempotency_keys WHERE at < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1";

/// Claims a key, after all keys that are too old were removed.
pub(super) async fn claim<'a>(filling: &mut Filling<'a>, claim: &'a KeyClaim) -> Result<(), StoreError> {
    let KeyClaim { key, item, digest, call, at: _, idempotent } = claim;
    filling.send(FORGET, vec![Box::new(time::duration(KEPT))]).await?;
    let values: Vec<Value<'a>> = vec![
        Box::new(text(key.owner())),
        Box::new(text(key.as_str())),
        Box::new(text(item)),
        Box::new(digest.to_vec()),
        Box::new(*call),
        Box::new(*idempotent),
    ];
    filling.send(CLAIM, values).await
}

/// Frees the key of a call.
pub(super) async fn release(filling: &mut Filling<'_>, call: Uuid) -> Result<(), StoreError> {
    filling.send("DELETE FROM idempotency_keys WHERE call = $1", vec![Box::new(call)]).await
}

impl PostgresReader {
    pub(crate) async fn call_under(&self, key: &IdempotencyKey) -> Result<Option<StoredCall>, StoreError> {
        let sql = "SELECT call FROM idempotency_keys WHERE owner = $1 AND key = $2";
        let values: [Value<'_>; 2] = [Box::new(text(key.owner())), Box::new(text(key.as_str()))];
        match self.rows(sql, &values).await?.first() {
            Some(row) => self.call(row.try_get(0)?).await,
            None => Ok(None),
        }
    }

    pub(crate) async fn key_holder(&self, claim: &KeyClaim) -> Result<KeyHolder, StoreError> {
        let key = &claim.key;
        let sql = "SELECT item, digest, call FROM idempotency_keys WHERE owner = $1 AND key = $2";
        let values: [Value<'_>; 2] = [Box::new(text(key.owner())), Box::new(text(key.as_str()))];
        let rows = self.rows(sql, &values).await?;
        let Some(row) = rows.first() else {
            // Released between the claim and this look: claimed again.
            return Ok(KeyHolder::Held(Box::new(HeldKey { is_same: true, call: claim.call, record: None })));
        };
        let call: Uuid = row.try_get(2)?;
        if call == claim.call {
            return Ok(KeyHolder::Claimed);
        }
        let is_same =
            row.try_get::<_, String>(0)? == text(&claim.item) && row.try_get::<_, Vec<u8>>(1)? == claim.digest;
        let record = self.call(call).await?;
        Ok(KeyHolder::Held(Box::new(HeldKey { is_same, call, record })))
    }
}
