//! Retention by age, in bounded transactions. The size of a database is not limited: its server frees no space by itself.

use deadpool_postgres::Object;
use serde_json::json;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    audit,
    batch::{Filling, recovery_event, undo_if_failed},
    conversations,
    pipeline::{self, Value},
    reader::PostgresReader,
    tasks,
};
use crate::{
    OpenNotice, StoreError,
    audit::{hexadecimal, kind},
    call_days::day_number,
    calls::first_id_at,
    retention::{AuditLimit, RetentionLimits, RetentionPlan, StoreSize, store_event},
    sampling,
    time::{self, Micros, duration},
};

/// Rows of one kind that are removed in one transaction.
const ROWS: i64 = 500;
const HOUR: Micros = 60 * 60 * 1_000_000;
/// Key of the advisory lock of the process that removes: two would only wait for each other.
const LOCK: i64 = 0x746f_6f6c_0004;

/// Calls that have ended and began before an id, with their bodies and tasks.
const REMOVE_CALLS: &str = "\
    WITH old AS (SELECT id FROM calls WHERE id < $1 AND state NOT IN ('pending', 'running') ORDER BY id LIMIT $2), \
    old_bodies AS (DELETE FROM bodies USING old WHERE bodies.call = old.id), \
    old_tasks AS (DELETE FROM tasks USING old WHERE tasks.id = old.id) \
    DELETE FROM calls USING old WHERE calls.id = old.id";

/// Removes some of what exceeds the limits. Returns what it removed: nothing if there is no more, or another process removes.
pub(super) async fn step(client: &Object, run: Uuid, limits: &RetentionLimits) -> Result<RetentionPlan, StoreError> {
    let mut filling = Filling::new(client, run);
    let filled = async {
        filling.begin(&[]).await?;
        let removed = remove(&mut filling, limits, time::now()).await?;
        filling.settle().await?;
        filling.commit(None).await.map(|()| removed)
    };
    let filled = filled.await;
    undo_if_failed(client, filled).await
}

async fn remove(filling: &mut Filling<'_>, limits: &RetentionLimits, now: Micros) -> Result<RetentionPlan, StoreError> {
    let client = filling.client;
    let mut removed = RetentionPlan::default();
    let locked = pipeline::rows(client, "SELECT pg_try_advisory_xact_lock($1)", &[Box::new(LOCK)]).await?;
    if !locked.first().is_some_and(|row| row.get(0)) {
        return Ok(removed);
    }
    if let Some(from) = limits.calls_from(now) {
        let values: Vec<Value<'_>> = vec![Box::new(first_call_at(from)), Box::new(ROWS)];
        removed.calls = pipeline::execute(client, REMOVE_CALLS, values).await?;
        if 0 < removed.calls {
            announce(filling).await?;
        }
        remove_counts(client, from).await?;
        for call in tasks::forget_before(client, from, ROWS).await? {
            filling.append(recovery_event(&call));
        }
    }
    if let Some(age) = limits.conversations {
        let sql = "SELECT id FROM conversations WHERE updated_at < $1 ORDER BY updated_at LIMIT $2";
        let values: [Value<'_>; 2] = [Box::new(now.saturating_sub(duration(age))), Box::new(ROWS)];
        for row in pipeline::rows(client, sql, &values).await? {
            conversations::delete(filling, row.try_get(0)?).await?;
            removed.conversations += 1;
        }
    }
    if let AuditLimit::MaxAge(age) = limits.audit {
        removed.audit = remove_audit(filling, now.saturating_sub(duration(age))).await?;
    }
    Ok(removed)
}

/// The first removal of all, which is announced.
async fn announce(filling: &mut Filling<'_>) -> Result<(), StoreError> {
    let sql = "UPDATE retention SET first_removal = $1 WHERE first_removal IS NULL";
    if 0 < pipeline::execute(filling.client, sql, vec![Box::new(time::now())]).await? {
        tracing::warn!("the store has reached `store.maxAge`; the oldest calls are removed from now on");
        filling.append(store_event(None, &json!({ "change": "removal-began" })));
    }
    Ok(())
}

/// The notice of the first removal, once.
pub(super) async fn take_notice(client: &Object) -> Result<Option<OpenNotice>, StoreError> {
    let sql = "UPDATE retention SET announced = $1 WHERE first_removal IS NOT NULL AND announced IS NULL \
               RETURNING first_removal";
    let rows = pipeline::rows(client, sql, &[Box::new(time::now())]).await?;
    let notice = |row: &Row| Ok(OpenNotice::Removing { since: row.try_get(0)? });
    rows.first().map(notice).transpose()
}

/// Removes counts, inbox items and uses of models that belong to no call any more.
async fn remove_counts(client: &Object, from: Micros) -> Result<(), StoreError> {
    let statements: [(&str, i64); 5] = [
        ("DELETE FROM rollups WHERE minute < $1", from),
        // The hour that contains the limit is kept.
        ("DELETE FROM rollups_hourly WHERE minute < $1", from - HOUR),
        ("DELETE FROM inbox WHERE created_at < $1 AND ended_at IS NOT NULL", from),
        (
            "DELETE FROM sampling WHERE at < $1 AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.id = sampling.call)",
            from.min(sampling::before(time::now(), toolway_host::sampling::quota::DAY)),
        ),
        ("DELETE FROM call_days WHERE day < $1", day_number(std::time::SystemTime::now()) - 1),
    ];
    for (sql, before) in statements {
        pipeline::execute(client, sql, vec![Box::new(before)]).await?;
    }
    Ok(())
}

/// Removes the oldest entries of the audit log before a time. The last one is not about the store itself: a removal adds such
/// an entry, and must not give a reason for the next one.
async fn remove_audit(filling: &mut Filling<'_>, before: Micros) -> Result<u64, StoreError> {
    let client = filling.client;
    let oldest = "SELECT seq, at, kind, hash FROM audit ORDER BY seq LIMIT $1";
    let mut last: Option<(i64, Vec<u8>)> = None;
    for row in pipeline::rows(client, oldest, &[Box::new(ROWS)]).await? {
        if before <= row.try_get::<_, Micros>(1)? {
            break;
        }
        if row.try_get::<_, String>(2)? != kind::STORE {
            last = Some((row.try_get(0)?, row.try_get(3)?));
        }
    }
    let Some((seq, hash)) = last else { return Ok(0) };
    let hash_text = hexadecimal(&hash.clone().try_into().unwrap_or_default());
    let values: Vec<Value<'_>> = vec![Box::new(seq), Box::new(hash), Box::new("checkpoint")];
    pipeline::execute(client, audit::WRITE_END, values).await?;
    let entries = pipeline::execute(client, "DELETE FROM audit WHERE seq <= $1", vec![Box::new(seq)]).await?;
    let details = json!({ "change": "entries-removed", "upTo": seq, "entries": entries, "hash": hash_text });
    filling.append(store_event(None, &details));
    Ok(entries)
}

fn first_call_at(from: Micros) -> Uuid {
    Uuid::from_slice(&first_id_at(from)).unwrap_or_default()
}

impl PostgresReader {
    pub(crate) async fn plan_retention(
        &self,
        limits: &RetentionLimits,
        now: Micros,
    ) -> Result<RetentionPlan, StoreError> {
        let mut plan = RetentionPlan { size: self.size().await?, ..RetentionPlan::default() };
        if let Some(from) = limits.calls_from(now) {
            let sql = "SELECT count(*) FROM calls WHERE id < $1 AND state NOT IN ('pending', 'running')";
            plan.calls = self.count(sql, Box::new(first_call_at(from))).await?;
        }
        if let AuditLimit::MaxAge(age) = limits.audit {
            let from = now.saturating_sub(duration(age));
            plan.audit = self.count("SELECT count(*) FROM audit WHERE at < $1", Box::new(from)).await?;
        }
        if let Some(age) = limits.conversations {
            let from = now.saturating_sub(duration(age));
            let sql = "SELECT count(*) FROM conversations WHERE updated_at < $1";
            plan.conversations = self.count(sql, Box::new(from)).await?;
        }
        Ok(plan)
    }

    /// Bytes of all tables with their indexes, free space in them included.
    pub(crate) async fn size(&self) -> Result<StoreSize, StoreError> {
        let sql = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class \
                   WHERE relkind = 'r' AND relnamespace = (SELECT relnamespace FROM pg_class \
                   WHERE oid = to_regclass('toolway_schema'))";
        let rows = self.rows(sql, &[]).await?;
        let bytes = rows.first().map(|row| row.try_get::<_, i64>(0)).transpose()?.unwrap_or_default();
        Ok(StoreSize { data: bytes.unsigned_abs(), ..StoreSize::default() })
    }

    async fn count(&self, sql: &str, value: Value<'_>) -> Result<u64, StoreError> {
        let rows = self.rows(sql, &[value]).await?;
        let count = rows.first().map(|row| row.try_get::<_, i64>(0)).transpose()?.unwrap_or_default();
        Ok(u64::try_from(count).unwrap_or_default())
    }
}
