//! Idempotency keys: which call holds which key. The claim is one statement, exact under concurrency.

use rusqlite::{Connection, OptionalExtension, params};
use toolway_host::record::{HeldKey, IdempotencyKey, KEPT, KeyClaim, KeyHolder, StoredCall};
use uuid::Uuid;

use crate::{SqliteReader, StoreError, time};

/// Takes the key if it is free: unknown, too old, or of a call that was not sent. A tool that may be called twice is not held
/// by a call whose outcome is unknown, and none by one that a person settled as not happened.
const CLAIM: &str = "INSERT INTO idempotency_keys (owner, key, item, digest, call, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
     ON CONFLICT (owner, key) DO UPDATE SET item = excluded.item, digest = excluded.digest, call = excluded.call, \
     at = excluded.at \
     WHERE idempotency_keys.call <> excluded.call AND EXISTS (SELECT 1 FROM calls WHERE calls.id = idempotency_keys.call \
     AND (calls.outcome = 'not-sent' OR (calls.outcome = 'unknown' AND ( \
     (?7 AND idempotency_keys.item = excluded.item AND idempotency_keys.digest = excluded.digest) \
     OR EXISTS (SELECT 1 FROM settlements WHERE settlements.call = calls.id AND settlements.happened = 0)))))";

/// Claims a key, after all keys that are too old were removed.
pub(crate) fn claim(connection: &Connection, claim: &KeyClaim) -> Result<(), StoreError> {
    let KeyClaim { key, item, digest, call, at, idempotent } = claim;
    let at = time::micros(*at);
    let oldest = at.saturating_sub(time::duration(KEPT));
    connection.prepare_cached("DELETE FROM idempotency_keys WHERE at < ?")?.execute([oldest])?;
    let values = params![key.owner(), key.as_str(), item, digest, call, at, idempotent];
    connection.prepare_cached(CLAIM)?.execute(values)?;
    Ok(())
}

/// Frees the key of a call.
pub(crate) fn release(connection: &Connection, call: Uuid) -> Result<(), StoreError> {
    connection.execute("DELETE FROM idempotency_keys WHERE call = ?", [call])?;
    Ok(())
}

impl SqliteReader {
    /// The call that holds a key.
    pub(crate) fn call_under(&self, key: &IdempotencyKey) -> Result<Option<StoredCall>, StoreError> {
        let sql = "SELECT call FROM idempotency_keys WHERE owner = ? AND key = ?";
        let found = self.connection.prepare_cached(sql)?.query_row([key.owner(), key.as_str()], |row| row.get(0));
        found.optional()?.map_or(Ok(None), |call| self.call(call))
    }

    /// Who holds the key of a claim.
    pub(crate) fn key_holder(&self, claim: &KeyClaim) -> Result<KeyHolder, StoreError> {
        let key: &IdempotencyKey = &claim.key;
        let sql = "SELECT item, digest, call FROM idempotency_keys WHERE owner = ? AND key = ?";
        let row = self.connection.prepare_cached(sql)?.query_row([key.owner(), key.as_str()], |row| {
            let is_same = row.get::<_, String>(0)? == claim.item && row.get::<_, Vec<u8>>(1)? == claim.digest;
            Ok((is_same, row.get::<_, Uuid>(2)?))
        });
        match row.optional()? {
            Some((_, call)) if call == claim.call => Ok(KeyHolder::Claimed),
            Some((is_same, call)) => {
                let record = self.call(call)?;
                Ok(KeyHolder::Held(Box::new(HeldKey { is_same, call, record })))
            }
            // Released between the claim and this look: claimed again.
            None => Ok(KeyHolder::Held(Box::new(HeldKey { is_same: true, call: claim.call, record: None }))),
        }
    }
}
