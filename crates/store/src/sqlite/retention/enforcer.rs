//! Applies the limits continuously, on the writer's thread, between two commits.
//!
//! After a number of written bytes, and every minute, the store is measured. If it is too large, each commit is followed by
//! removals of at least twice what it wrote, in transactions of some megabytes, until there is room. So the files stay below
//! `max_bytes` and what is written between two looks, and no call waits for more than a few such transactions.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;
use uuid::Uuid;

use super::{
    RetentionLimits, StoreSize, next_step, size,
    step::{Goal, LOOK},
};
use crate::{
    StoreError,
    batch::{self, Batch},
    time,
    write::Write,
};

/// Bytes that are removed after a commit at least, while the store is too large.
const LEAST: u64 = 4 * 1024 * 1024;
/// Steps after one commit at most.
const STEPS: usize = 64;
/// Pages that are returned to the file system in one transaction.
const PAGES: u64 = 1_024;
/// Share of the budget that free pages may take before they are returned.
const FREE: u64 = 4;

/// How full a store is, for metrics. Updated by the writer.
#[derive(Debug, Default)]
pub(crate) struct Fullness {
    pub(crate) bytes: AtomicU64,
    pub(crate) removed_bodies: AtomicU64,
    pub(crate) removed_calls: AtomicU64,
}

/// Applies the limits of one store.
#[derive(Debug)]
pub(crate) struct Enforcer {
    limits: RetentionLimits,
    fullness: Arc<Fullness>,
    /// Bytes written since the last look.
    written: u64,
    /// The next look, whatever is written.
    look_at: Instant,
    /// The size exceeded its limit and is not below the target yet.
    is_reducing: bool,
    /// There are free pages to return to the file system.
    is_returning: bool,
    /// Nothing is left that may be removed, and that was logged.
    is_exhausted: bool,
    /// Corrupt files that could not be removed, which was logged. They are tried again by the next process.
    left: Vec<PathBuf>,
}

impl Enforcer {
    pub(crate) fn new(limits: RetentionLimits, fullness: Arc<Fullness>) -> Self {
        let look_at = Instant::now();
        let left = Vec::new();
        Self {
            limits,
            fullness,
            written: 0,
            look_at,
            is_reducing: false,
            is_returning: false,
            is_exhausted: false,
            left,
        }
    }

    /// How long the writer may wait for writes; `None`: there is no limit to apply.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let until = self.look_at.saturating_duration_since(Instant::now());
        (self.limits != RetentionLimits::default()).then_some(if self.is_busy() { Duration::ZERO } else { until })
    }

    /// Looks at the size if that is due, and removes what exceeds the limits.
    pub(crate) fn after_commit(&mut self, connection: &mut Connection, run: Uuid, written: u64) {
        self.written += written;
        let is_due = self.look_at <= Instant::now() || self.look_after() <= self.written || self.is_busy();
        if !is_due {
            return;
        }
        if let Err(error) = self.apply(connection, run) {
            // Tried again at the next look.
            (self.is_reducing, self.is_returning) = (false, false);
            tracing::error!(%error, "retention cannot remove old records");
        }
        (self.written, self.look_at) = (0, Instant::now() + LOOK);
    }

    /// Whether the last look left something to do.
    fn is_busy(&self) -> bool {
        self.is_reducing || self.is_returning
    }

    /// Bytes after which the size is looked at again.
    fn look_after(&self) -> u64 {
        self.limits.max_bytes.map_or(u64::MAX, |most| (most / 64).min(LEAST))
    }

    fn apply(&mut self, connection: &mut Connection, run: Uuid) -> Result<(), StoreError> {
        let mut size = StoreSize::measure(connection)?;
        let before = size;
        let enough = LEAST.max(2 * self.written);
        for _ in 0..STEPS {
            self.is_reducing |= self.limits.is_exceeded(size);
            let goal = Goal::of(self.is_reducing);
            let step = next_step(connection, &self.limits, size, goal, &self.left, time::now())?;
            let Some(step) = step else {
                self.finish(size);
                break;
            };
            self.count(&step);
            let files = step.files.clone();
            let writes = [&Write::Prune(Box::new(step))];
            batch::apply(connection, Batch { run, writes: &writes, journal: None })?;
            self.left.extend(size::remaining(&files));
            size = StoreSize::measure(connection)?;
            if enough <= before.data.saturating_sub(size.data) {
                break;
            }
        }
        self.return_pages(connection, &mut size)?;
        self.fullness.bytes.store(size.total(), Ordering::Relaxed);
        Ok(())
    }

    /// There is nothing more to remove.
    fn finish(&mut self, size: StoreSize) {
        self.is_reducing = false;
        let is_exhausted = self.limits.is_exceeded(size);
        if is_exhausted && !self.is_exhausted {
            tracing::error!(
                bytes = size.used(),
                max_bytes = self.limits.max_bytes,
                "the store exceeds `store.maxBytes` by conversations and audit entries, which are removed by \
                 `store.conversations.maxAge` and `store.audit.maxAge` only; calls are recorded without their bodies"
            );
        }
        self.is_exhausted = is_exhausted;
    }

    fn count(&self, step: &super::Step) {
        let (bodies, calls) = (step.bodies.len() as u64, step.calls.len() as u64);
        self.fullness.removed_bodies.fetch_add(bodies, Ordering::Relaxed);
        self.fullness.removed_calls.fetch_add(calls, Ordering::Relaxed);
        let (files, conversations) = (step.files.len(), step.conversations.len());
        let audit_entries = step.audit.map_or(0, |audit| audit.entries);
        tracing::info!(bodies, calls, audit_entries, conversations, files, "retention removed old records");
    }

    /// Returns free pages to the file system, if the files are too large or there are many.
    fn return_pages(&mut self, connection: &Connection, size: &mut StoreSize) -> Result<(), StoreError> {
        self.is_returning = false;
        let Some(most) = self.limits.max_bytes else { return Ok(()) };
        let is_much = |size: &StoreSize| 0 < size.free && (most < size.total() || most / FREE < size.free);
        if !is_much(size) {
            return Ok(());
        }
        let before = size.free;
        let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
        let mut rows = statement.query([])?;
        while rows.next()?.is_some() {}
        *size = StoreSize::measure(connection)?;
        // A database of an earlier version keeps its pages.
        self.is_returning = size.free < before && is_much(size);
        Ok(())
    }
}
