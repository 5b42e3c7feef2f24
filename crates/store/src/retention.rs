//! Retention as a plan: a pure function of the limits, the time and what is in the file, applied by the writer.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use crate::{
    Reader, Store, StoreError,
    calls::{self, first_id_at},
    chain::Link,
    time::{Micros, duration},
};

/// Share of `max_bytes` that is filled after a run, so that the next call does not exceed it again.
const ROOM: f64 = 0.9;
/// Rows of one kind that are removed in one transaction; calls are recorded between two of them.
const STEP: i64 = 5_000;
/// Microseconds of an hour.
const HOUR: Micros = 60 * 60 * 1_000_000;
/// Time between two runs in a process that serves.
const INTERVAL: Duration = Duration::from_secs(60 * 60);

/// What may be kept. An absent limit keeps everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionLimits {
    /// Rows that are older are removed.
    pub max_age: Option<Duration>,
    /// The oldest calls are removed until the file has at most this many bytes of data.
    pub max_bytes: Option<u64>,
}

/// What a run of retention removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionPlan {
    /// Calls that began before this time are removed, with their bodies.
    pub calls_before: Option<Micros>,
    /// Number of these calls; open ones are kept.
    pub calls: u64,
    /// Audit entries up to this position are removed and leave a checkpoint.
    pub audit_up_to: i64,
    /// Number of these entries.
    pub audit: u64,
    /// Conversations last changed before this time are removed.
    pub conversations_before: Option<Micros>,
    /// Number of these conversations.
    pub conversations: u64,
    /// Bytes of data in the file before.
    pub bytes: u64,
}

impl RetentionPlan {
    /// Whether there is nothing to remove.
    pub fn is_empty(&self) -> bool {
        self.calls == 0 && self.audit == 0 && self.conversations == 0
    }

    /// Removes what is planned, inside the caller's transaction.
    pub(crate) fn apply(&self, connection: &Connection) -> Result<(), StoreError> {
        if let Some(before) = self.calls_before {
            calls::remove_before(connection, before)?;
            connection.execute("DELETE FROM rollups WHERE minute < ?", [before])?;
            // The hour that contains the limit is kept.
            connection.execute("DELETE FROM rollups_hourly WHERE minute < ?", [before - HOUR])?;
            connection.execute("DELETE FROM inbox WHERE created_at < ? AND ended_at IS NOT NULL", [before])?;
        }
        if let Some(before) = self.conversations_before {
            let old = "SELECT id FROM conversations WHERE updated_at < ?";
            connection.execute(&format!("DELETE FROM messages WHERE conversation IN ({old})"), [before])?;
            connection.execute("DELETE FROM conversations WHERE updated_at < ?", [before])?;
        }
        if self.audit > 0 {
            // Another process may have removed them since this was planned.
            let sql = "SELECT seq, hash FROM audit WHERE seq <= ? ORDER BY seq DESC LIMIT 1";
            let last = connection.query_row(sql, [self.audit_up_to], |row| Ok((row.get(0)?, row.get(1)?)));
            if let Some((seq, hash)) = last.optional()? {
                Link { seq, hash }.write(connection, "checkpoint")?;
                connection.execute("DELETE FROM audit WHERE seq <= ?", [self.audit_up_to])?;
            }
        }
        Ok(())
    }
}

impl Store {
    /// Applies the limits now and then every hour, until it is dropped. What was removed, and what failed, is logged.
    pub async fn keep_pruned(&self, limits: &RetentionLimits) {
        if *limits == RetentionLimits::default() {
            return;
        }
        loop {
            match self.prune(limits).await {
                Ok(RetentionPlan { calls, audit, conversations, .. }) if calls + audit + conversations > 0 => {
                    tracing::info!(calls, audit_entries = audit, conversations, "retention removed old records");
                }
                Ok(_) => tracing::debug!("retention found no old records"),
                Err(error) => tracing::error!(%error, "retention cannot remove old records"),
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

impl Reader {
    /// Plans what retention would remove at `now`.
    pub fn plan_retention(&self, limits: &RetentionLimits, now: Micros) -> Result<RetentionPlan, StoreError> {
        plan(&self.connection, limits, now)
    }

    /// Bytes of the pages in use.
    pub fn data_bytes(&self) -> Result<u64, StoreError> {
        data_bytes(&self.connection)
    }

    /// The next part of a plan that is not applied yet; `None` if it is applied.
    pub(crate) fn next_step(&self, plan: &RetentionPlan) -> Result<Option<RetentionPlan>, StoreError> {
        let connection = &self.connection;
        let mut step = RetentionPlan { conversations_before: plan.conversations_before, ..RetentionPlan::default() };
        if let Some(before) = plan.conversations_before {
            step.conversations = count(connection, OLD_CONVERSATIONS, before)?;
        }
        if let Some(before) = plan.calls_before {
            let before_id = first_id_at(before);
            step.calls = count(connection, &format!("SELECT count(*) FROM calls WHERE {CLOSED}"), &before_id)?;
            let sql = format!("SELECT id FROM calls WHERE {CLOSED} ORDER BY id LIMIT 1 OFFSET {STEP}");
            let after_step: Option<Uuid> = connection.query_row(&sql, [before_id], |row| row.get(0)).optional()?;
            // Ids have milliseconds: all calls of one millisecond are removed together.
            step.calls_before = Some(after_step.map_or(before, |id| before.min(calls::id_time(id) + 1_000)));
        }
        if plan.audit > 0 {
            let first = "SELECT seq FROM audit WHERE seq <= ? ORDER BY seq LIMIT ?";
            let sql = format!("SELECT coalesce(max(seq), 0), count(*) FROM ({first})");
            let (up_to, entries) =
                connection.query_row(&sql, [plan.audit_up_to, STEP], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?;
            (step.audit_up_to, step.audit) = (up_to, u64::try_from(entries).unwrap_or_default());
        }
        Ok((!step.is_empty()).then_some(step))
    }
}

/// Calls before an id that have ended.
const CLOSED: &str = "id < ? AND state NOT IN ('pending', 'running')";
const OLD_CONVERSATIONS: &str = "SELECT count(*) FROM conversations WHERE updated_at < ?";

/// Plans what retention would remove at `now`.
pub(crate) fn plan(
    connection: &Connection,
    limits: &RetentionLimits,
    now: Micros,
) -> Result<RetentionPlan, StoreError> {
    let bytes = data_bytes(connection)?;
    let by_age = limits.max_age.map(|age| now.saturating_sub(duration(age)));
    let by_size = match limits.max_bytes {
        Some(most) if most < bytes => started_at_of_share(connection, 1.0 - ROOM * most as f64 / bytes as f64)?,
        _ => None,
    };
    let calls_before = by_age.max(by_size);
    let mut plan = RetentionPlan { calls_before, conversations_before: by_age, bytes, ..RetentionPlan::default() };
    if let Some(before) = calls_before {
        plan.calls = count(connection, &format!("SELECT count(*) FROM calls WHERE {CLOSED}"), first_id_at(before))?;
        let last = connection.query_row("SELECT max(seq) FROM audit WHERE at < ?", [before], |row| row.get(0))?;
        if let Some(last) = last {
            plan.audit_up_to = last;
            plan.audit = count(connection, "SELECT count(*) FROM audit WHERE seq <= ?", last)?;
        }
    }
    if let Some(before) = by_age {
        plan.conversations = count(connection, OLD_CONVERSATIONS, before)?;
    }
    Ok(plan)
}

/// Bytes of the pages in use.
pub(crate) fn data_bytes(connection: &Connection) -> Result<u64, StoreError> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = pragma("page_count")? - pragma("freelist_count")?;
    Ok(u64::try_from(pages * pragma("page_size")?).unwrap_or_default())
}

/// When the call began that has the given share of all calls before it, rounded up.
fn started_at_of_share(connection: &Connection, share: f64) -> Result<Option<Micros>, StoreError> {
    let calls = count(connection, "SELECT count(*) FROM calls WHERE id >= ?", Uuid::nil())?;
    let skip = (calls as f64 * share).ceil() as i64;
    let last = i64::try_from(calls).unwrap_or(i64::MAX) - 1;
    let sql = "SELECT started_at FROM calls ORDER BY id LIMIT 1 OFFSET ?";
    Ok(connection.query_row(sql, [skip.min(last).max(0)], |row| row.get(0)).optional()?)
}

fn count(connection: &Connection, sql: &str, value: impl rusqlite::ToSql) -> Result<u64, StoreError> {
    let count: i64 = connection.query_row(sql, [value], |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::RetentionPlan;
    use crate::database;

    #[test]
    fn entries_that_another_process_removed_meanwhile_are_not_removed_twice() {
        let connection = database::open_memory("file:retention?mode=memory").unwrap();
        let plan = RetentionPlan { audit_up_to: 7, audit: 7, ..RetentionPlan::default() };
        plan.apply(&connection).unwrap();
    }
}
