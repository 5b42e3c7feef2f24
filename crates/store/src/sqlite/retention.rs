//! Retention: what is removed when the store is too large or records are too old, in bounded steps.
//!
//! | part | file |
//! |---|---|
//! | bytes of the database and of the files beside it | `size.rs` |
//! | the next step, as a plan, and its application | `step.rs` |
//! | continuously, by the writer | `enforcer.rs` |
//!
//! By size, in this order: corrupt files that were set aside; the oldest bodies; counts per minute that are older than a
//! day; the oldest calls. Bodies and calls of a caller that has more than a quarter of the budget come before those of
//! others. Conversations and audit entries are removed by an age of their own only. New databases return pages to the file system
//! (`auto_vacuum = incremental`); in older ones free pages are reused.

mod enforcer;
mod size;
mod step;

use std::{path::PathBuf, time::Duration};

use rusqlite::{Connection, OptionalExtension};

pub(crate) use enforcer::{Enforcer, Fullness};
pub use size::StoreSize;
pub(crate) use step::{Step, next_step, store_event};

use crate::{
    OpenNotice, SqliteReader, Store, StoreError,
    calls::first_id_at,
    store::Freshness,
    time::{self, Micros, duration},
};

/// Share of `max_bytes` that is filled after a removal, so that the next call does not exceed it again.
const ROOM: f64 = 0.9;

/// Share of `max_bytes` that logs count at most. A reader that keeps the WAL from being reset must not empty the store.
const LOG_SHARE: u64 = 4;

/// What may be kept. An absent limit keeps everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionLimits {
    /// Calls that are older are removed.
    pub max_age: Option<Duration>,
    /// Bytes of the database and of the files beside it.
    pub max_bytes: Option<u64>,
    /// Conversations that were not changed for longer are removed.
    pub conversations: Option<Duration>,
    /// Which audit entries are removed.
    pub audit: AuditLimit,
}

/// Which audit entries are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditLimit {
    /// No entry is removed.
    #[default]
    Kept,
    /// Those that are older.
    MaxAge(Duration),
    /// The oldest, together with calls: for a store in memory.
    AsCalls,
}

/// What retention removes, or has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionPlan {
    /// Corrupt files that were set aside.
    pub files: u64,
    /// Bodies of calls that are kept.
    pub bodies: u64,
    /// Calls, with their bodies. Open ones are kept.
    pub calls: u64,
    /// Audit entries. They leave a checkpoint.
    pub audit: u64,
    /// Conversations, with their messages.
    pub conversations: u64,
    /// Size before.
    pub size: StoreSize,
}

impl RetentionLimits {
    /// Bytes to which a store that is too large is reduced.
    fn target(&self) -> Option<u64> {
        self.max_bytes.map(|most| (most as f64 * ROOM) as u64)
    }

    /// Bytes of a store that count.
    fn counted(&self, size: StoreSize) -> u64 {
        let logs = self.max_bytes.map_or(size.logs, |most| size.logs.min(most / LOG_SHARE));
        size.data + size.set_aside + logs
    }

    /// Whether a store is too large.
    fn is_exceeded(&self, size: StoreSize) -> bool {
        self.max_bytes.is_some_and(|most| most < self.counted(size))
    }

    /// Begin of the time of which calls are kept.
    pub(crate) fn calls_from(&self, now: Micros) -> Option<Micros> {
        self.max_age.map(|age| now.saturating_sub(duration(age)))
    }

    /// Begin of the time of which audit entries are kept.
    fn audit_from(&self, now: Micros) -> Option<Micros> {
        match self.audit {
            AuditLimit::MaxAge(age) => Some(now.saturating_sub(duration(age))),
            AuditLimit::Kept | AuditLimit::AsCalls => None,
        }
    }

    /// Bytes of one body at most; `None`: any.
    pub(crate) fn max_body(&self) -> Option<u64> {
        self.max_bytes.map(|most| most / 64)
    }
}

impl RetentionPlan {
    /// Whether there is nothing to remove.
    pub fn is_empty(&self) -> bool {
        self.files + self.bodies + self.calls + self.audit + self.conversations == 0
    }

    fn add(&mut self, step: &Step) {
        self.files += step.files.len() as u64;
        self.bodies += step.bodies.len() as u64;
        self.calls += step.calls.len() as u64;
        self.audit += step.audit.as_ref().map_or(0, |audit| audit.entries);
        self.conversations += step.conversations.len() as u64;
    }
}

impl Store {
    /// Applies the limits to a file now, in steps between which other writes are committed.
    pub(crate) async fn prune_file(&self, limits: &RetentionLimits) -> Result<RetentionPlan, StoreError> {
        let limits = *limits;
        let mut removed = RetentionPlan::default();
        let mut is_reducing = false;
        // They cannot be removed.
        let mut left: Vec<PathBuf> = Vec::new();
        loop {
            let kept = left.clone();
            let planned = self.query(Freshness::Submitted, move |reader| {
                let reader = reader.of_file()?;
                let size = reader.size()?;
                let is_reducing = is_reducing || limits.is_exceeded(size);
                let goal = step::Goal::of(is_reducing);
                let step = next_step(&reader.connection, &limits, size, goal, &kept, time::now())?;
                Ok((size, is_reducing, step))
            });
            let (size, reducing, step) = planned.await?;
            if removed.is_empty() {
                removed.size = size;
            }
            is_reducing = reducing;
            let Some(step) = step else { return Ok(removed) };
            let files = step.files.clone();
            removed.add(&step);
            self.submit_step(step).await?;
            let remaining = size::remaining(&files);
            removed.files -= remaining.len() as u64;
            left.extend(remaining);
        }
    }
}

impl SqliteReader {
    /// Estimates what retention would remove at `now`.
    pub fn plan_retention(&self, limits: &RetentionLimits, now: Micros) -> Result<RetentionPlan, StoreError> {
        let (connection, size) = (&self.connection, self.size()?);
        let mut plan = RetentionPlan { size, ..RetentionPlan::default() };
        if let Some(from) = limits.calls_from(now) {
            let sql = "SELECT count(*) FROM calls WHERE id < ? AND state NOT IN ('pending', 'running')";
            plan.calls = count(connection, sql, first_id_at(from))?;
        }
        if let Some(from) = limits.audit_from(now) {
            plan.audit = count(connection, "SELECT count(*) FROM audit WHERE at < ?", from)?;
        }
        if let Some(age) = limits.conversations {
            let from = now.saturating_sub(duration(age));
            plan.conversations = count(connection, "SELECT count(*) FROM conversations WHERE updated_at < ?", from)?;
        }
        if let (Some(most), Some(target)) = (limits.max_bytes, limits.target())
            && most < limits.counted(size)
        {
            let excess = i64::try_from(limits.counted(size) - target).unwrap_or(i64::MAX);
            let sums = "SELECT sum(bytes) OVER (ORDER BY call) - bytes AS before FROM bodies";
            plan.bodies = count(connection, &format!("SELECT count(*) FROM ({sums}) WHERE before < ?"), excess)?;
            plan.files = size.set_aside_files;
        }
        Ok(plan)
    }

    /// Bytes of the database and of the files beside it.
    pub fn size(&self) -> Result<StoreSize, StoreError> {
        StoreSize::measure(&self.connection)
    }
}

/// The notice of the first removal, once.
pub(crate) fn take_notice(connection: &Connection) -> Result<Option<OpenNotice>, StoreError> {
    let sql = "SELECT first_removal FROM retention WHERE first_removal IS NOT NULL AND announced IS NULL";
    let since: Option<Micros> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    let Some(since) = since else { return Ok(None) };
    connection.execute("UPDATE retention SET announced = ?", [time::now()])?;
    Ok(Some(OpenNotice::Removing { since }))
}

fn count(connection: &Connection, sql: &str, value: impl rusqlite::ToSql) -> Result<u64, StoreError> {
    let count: i64 = connection.query_row(sql, [value], |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or_default())
}
