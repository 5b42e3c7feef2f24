//! One step of retention: planned by reading, applied in one short transaction.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;
use uuid::Uuid;

use super::{AuditLimit, RetentionLimits, StoreSize, size};
use crate::{
    StoreError,
    audit::{self, AuditEvent, kind},
    call_days,
    calls::first_id_at,
    chain::Link,
    conversations, sampling, tasks,
    time::{self, Micros, duration},
    write,
};

/// Rows of one kind that are removed in one transaction.
const ROWS: i64 = 500;
/// Bytes of bodies that are removed in one transaction.
const BYTES: i64 = 4 * 1024 * 1024;
/// Bytes that a call takes besides its body: its row and its entries in indexes.
const CALL_BYTES: i64 = 700;
/// The newest calls are kept, whatever else fills the store.
const KEPT_CALLS: i64 = 1_000;
const HOUR: Micros = 60 * 60 * 1_000_000;
const DAY: Micros = 24 * HOUR;

/// Calls that have ended.
const CLOSED: &str = "state NOT IN ('pending', 'running')";

/// What one transaction removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// Corrupt files that were set aside.
    pub(super) files: Vec<PathBuf>,
    /// Calls whose bodies are removed.
    pub(super) bodies: Vec<Uuid>,
    /// Calls, with their bodies.
    pub(super) calls: Vec<Uuid>,
    /// Counts per minute before this time, those per hour before the second one, and inbox items that ended.
    counts_before: Option<CountsBefore>,
    /// Tasks that no process has followed since this time are lost.
    forgotten_before: Option<Micros>,
    pub(super) audit: Option<AuditStep>,
    pub(super) conversations: Vec<Uuid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CountsBefore {
    minutes: Micros,
    hours: Micros,
}

/// Audit entries up to a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AuditStep {
    up_to: i64,
    pub(super) entries: u64,
}

/// How far the size is to be reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// It is within the limit.
    Nothing,
    /// Below the limit, with some room.
    Room,
}

impl Goal {
    pub(crate) fn of(is_reducing: bool) -> Self {
        if is_reducing { Self::Room } else { Self::Nothing }
    }
}

/// The next step; `None` if the store is within its limits, or there is nothing that may be removed. Files that are `left`
/// could not be removed.
pub(crate) fn next_step(
    connection: &Connection,
    limits: &RetentionLimits,
    size: StoreSize,
    goal: Goal,
    left: &[PathBuf],
    now: Micros,
) -> Result<Option<Step>, StoreError> {
    let by_age = by_age(connection, limits, left, now)?;
    if by_age != Step::default() {
        return Ok(Some(by_age));
    }
    let target = limits.target().filter(|target| goal == Goal::Room && *target < limits.counted(size));
    let Some(target) = target else { return Ok(None) };
    let excess = i64::try_from(limits.counted(size) - target).unwrap_or(i64::MAX);
    by_size(connection, limits, excess, left, now).map(|step| Some(step).filter(|step| *step != Step::default()))
}

fn by_age(
    connection: &Connection,
    limits: &RetentionLimits,
    left: &[PathBuf],
    now: Micros,
) -> Result<Step, StoreError> {
    let mut step = Step::default();
    if let Some(from) = limits.calls_from(now) {
        step.calls = ids(
            connection,
            &format!("SELECT id FROM calls WHERE id < ?1 AND {CLOSED} ORDER BY id LIMIT {ROWS}"),
            params![first_id_at(from)],
        )?;
        // The hour that contains the limit is kept.
        let counts = CountsBefore { minutes: from, hours: from - HOUR };
        step.counts_before = has_counts(connection, counts)?.then_some(counts);
        step.forgotten_before = tasks::any_forgotten(connection, from)?.then_some(from);
        let oldest = SystemTime::now().checked_sub(limits.max_age.unwrap_or_default());
        step.files =
            set_aside(connection, left).filter(|file| Some(file.modified) < oldest).map(|file| file.path).collect();
    }
    if let Some(age) = limits.conversations {
        let sql = format!("SELECT id FROM conversations WHERE updated_at < ? ORDER BY updated_at LIMIT {ROWS}");
        step.conversations = ids(connection, &sql, params![now.saturating_sub(duration(age))])?;
    }
    if let Some(from) = limits.audit_from(now) {
        step.audit = audit_step(connection, Some(from))?;
    }
    Ok(step)
}

fn by_size(
    connection: &Connection,
    limits: &RetentionLimits,
    excess: i64,
    left: &[PathBuf],
    now: Micros,
) -> Result<Step, StoreError> {
    let mut step = Step::default();
    if let Some(oldest) = set_aside(connection, left).next() {
        step.files = vec![oldest.path];
        return Ok(step);
    }
    let quarter = i64::try_from(limits.max_bytes.unwrap_or_default() / 4).unwrap_or(i64::MAX);
    let sql = format!(
        "SELECT caller FROM caller_usage WHERE ? < body_bytes + calls * {CALL_BYTES} \
         ORDER BY body_bytes + calls * {CALL_BYTES} DESC LIMIT 1"
    );
    let largest: Option<String> = connection.prepare_cached(&sql)?.query_row([quarter], |row| row.get(0)).optional()?;
    let ended = format!("EXISTS (SELECT 1 FROM calls WHERE id = call AND {CLOSED})");
    if let Some(caller) = &largest {
        let sql = format!("SELECT call, bytes FROM bodies WHERE caller = ? AND {ended} ORDER BY call LIMIT {ROWS}");
        step.bodies = within(connection, &sql, params![caller], excess.min(BYTES))?;
    }
    // Arguments of calls that have not ended come last.
    for which in [ended.as_str(), "1"] {
        if step.bodies.is_empty() {
            let sql = format!("SELECT call, bytes FROM bodies WHERE {which} ORDER BY call LIMIT {ROWS}");
            step.bodies = within(connection, &sql, [], excess.min(BYTES))?;
        }
    }
    if !step.bodies.is_empty() {
        return Ok(step);
    }
    let counts = CountsBefore { minutes: now - DAY, hours: Micros::MIN };
    if has_counts(connection, counts)? {
        step.counts_before = Some(counts);
        return Ok(step);
    }
    let calls: i64 = connection.query_row("SELECT coalesce(sum(calls), 0) FROM caller_usage", [], |row| row.get(0))?;
    let rows = (calls - KEPT_CALLS).min(excess / CALL_BYTES + 1).min(ROWS);
    if 0 < rows {
        let of_caller = largest.as_ref().map_or("1", |_| "caller = ?1");
        let sql = format!("SELECT id FROM calls WHERE {of_caller} AND {CLOSED} ORDER BY id LIMIT {rows}");
        step.calls = match &largest {
            Some(caller) => ids(connection, &sql, params![caller])?,
            None => ids(connection, &sql, [])?,
        };
    }
    if limits.audit == AuditLimit::AsCalls {
        step.audit = audit_step(connection, None)?;
    }
    Ok(step)
}

fn set_aside(connection: &Connection, left: &[PathBuf]) -> impl Iterator<Item = size::SetAside> {
    let files = size::path(connection).map(|path| size::set_aside(&path)).unwrap_or_default();
    files.into_iter().filter(|file| !left.contains(&file.path))
}

fn ids(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<Vec<Uuid>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_map(params, |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// The first ids, until their bytes reach a sum.
fn within(
    connection: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    sum: i64,
) -> Result<Vec<Uuid>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let (mut ids, mut bytes) = (Vec::new(), 0);
    while bytes < sum
        && let Some(row) = rows.next()?
    {
        ids.push(row.get(0)?);
        bytes += row.get::<_, i64>(1)?;
    }
    Ok(ids)
}

fn has_counts(connection: &Connection, counts: CountsBefore) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM rollups WHERE minute < ?) OR EXISTS (SELECT 1 FROM rollups_hourly WHERE minute < ?)";
    Ok(connection.prepare_cached(sql)?.query_row([counts.minutes, counts.hours], |row| row.get(0))?)
}

/// The oldest entries, at most some; with a time, those before it. The chain has them in the order of their positions, which
/// is the order of their times but for clocks. The last one is not about the store itself: a removal adds such an entry, and
/// must not give a reason for the next one.
fn audit_step(connection: &Connection, before: Option<Micros>) -> Result<Option<AuditStep>, StoreError> {
    let first = format!("SELECT seq, at, kind FROM audit ORDER BY seq LIMIT {ROWS}");
    let mut statement = connection.prepare_cached(&first)?;
    let mut rows = statement.query([])?;
    let (mut step, mut entries) = (None, 0);
    while let Some(row) = rows.next()? {
        let at: Micros = row.get(1)?;
        if before.is_some_and(|before| before <= at) {
            break;
        }
        entries += 1;
        if row.get::<_, String>(2)? != kind::STORE {
            step = Some(AuditStep { up_to: row.get(0)?, entries });
        }
    }
    Ok(step)
}

impl Step {
    /// Removes what is planned, inside the caller's transaction. Returns the events to append to the audit log.
    pub(crate) fn apply(&self, connection: &Connection) -> Result<Vec<AuditEvent>, StoreError> {
        let mut events = Vec::new();
        let mut bodies = connection.prepare_cached("DELETE FROM bodies WHERE call = ?")?;
        let mut calls = connection.prepare_cached(&format!("DELETE FROM calls WHERE id = ? AND {CLOSED}"))?;
        for id in self.bodies.iter().chain(&self.calls) {
            bodies.execute([id])?;
        }
        let mut tasks = connection.prepare_cached("DELETE FROM tasks WHERE id = ?")?;
        for id in &self.calls {
            if 0 < calls.execute([id])? {
                tasks.execute([id])?;
            }
        }
        if let Some(CountsBefore { minutes, hours }) = self.counts_before {
            connection.execute("DELETE FROM rollups WHERE minute < ?", [minutes])?;
            connection.execute("DELETE FROM rollups_hourly WHERE minute < ?", [hours])?;
            connection.execute("DELETE FROM inbox WHERE created_at < ? AND ended_at IS NOT NULL", [minutes])?;
            sampling::prune(connection, minutes)?;
            call_days::prune(connection, SystemTime::now())?;
        }
        if let Some(from) = self.forgotten_before {
            // Each call ends once in the audit log.
            events.extend(tasks::forget_before(connection, from, ROWS)?.iter().map(write::recovery_event));
        }
        for id in &self.conversations {
            conversations::delete(connection, *id)?;
        }
        self.files.iter().for_each(|path| size::remove(path));
        events.extend(self.announce(connection)?);
        if let Some(step) = self.audit {
            events.extend(step.apply(connection)?);
        }
        Ok(events)
    }

    /// The first removal of all, which is announced.
    fn announce(&self, connection: &Connection) -> Result<Option<AuditEvent>, StoreError> {
        if self.bodies.is_empty() && self.calls.is_empty() && self.files.is_empty() {
            return Ok(None);
        }
        let mut statement =
            connection.prepare_cached("UPDATE retention SET first_removal = ? WHERE first_removal IS NULL")?;
        if statement.execute([time::now()])? == 0 {
            return Ok(None);
        }
        tracing::warn!(
            "the store has reached `store.maxBytes` or `store.maxAge`; the oldest bodies and calls are removed from now on"
        );
        Ok(Some(store_event(None, &json!({ "change": "removal-began" }))))
    }
}

impl AuditStep {
    fn apply(self, connection: &Connection) -> Result<Option<AuditEvent>, StoreError> {
        // Another process may have removed them since this was planned.
        let sql = "SELECT seq, hash FROM audit WHERE seq <= ? ORDER BY seq DESC LIMIT 1";
        let last = connection.query_row(sql, [self.up_to], |row| Ok(Link { seq: row.get(0)?, hash: row.get(1)? }));
        let Some(last) = last.optional()? else { return Ok(None) };
        last.write(connection, "checkpoint")?;
        let entries = connection.execute("DELETE FROM audit WHERE seq <= ?", [self.up_to])?;
        let (seq, hash) = (last.seq, audit::hexadecimal(&last.hash));
        let details = json!({ "change": "entries-removed", "upTo": seq, "entries": entries, "hash": hash });
        Ok(Some(store_event(None, &details)))
    }
}

/// An audit event about the store itself.
pub(crate) fn store_event(subject: Option<String>, details: &serde_json::Value) -> AuditEvent {
    AuditEvent { at: time::now(), kind: kind::STORE, subject, details: details.to_string(), ..AuditEvent::default() }
}

/// Patience between two looks for records that have become too old.
pub(super) const LOOK: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::{AuditStep, Goal, Step, next_step};
    use crate::{
        database,
        retention::{RetentionLimits, StoreSize},
        time,
    };

    #[test]
    fn a_file_that_cannot_be_removed_does_not_keep_others_from_being_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE rollups (minute); CREATE TABLE rollups_hourly (minute)").unwrap();
        connection
            .execute_batch("CREATE TABLE calls (id, state); CREATE TABLE tasks (run, status, updated_at)")
            .unwrap();
        let corrupt = ["x.db.corrupt-1-0", "x.db.corrupt-2-0"].map(|name| folder.path().join(name));
        corrupt.iter().for_each(|path| fs::write(path, "x").unwrap());
        let limits = RetentionLimits { max_age: Some(Duration::ZERO), ..RetentionLimits::default() };
        let files = |left: &[std::path::PathBuf]| {
            let step = next_step(&connection, &limits, StoreSize::default(), Goal::Nothing, left, time::now());
            step.unwrap().map(|step| step.files).unwrap_or_default()
        };
        assert_eq!(files(&[]), corrupt);
        assert_eq!(files(&corrupt[..1]), corrupt[1..]);
        assert!(files(&corrupt).is_empty(), "nothing is planned again and again");
    }

    #[test]
    fn logs_that_cannot_be_reset_do_not_empty_the_store() {
        let limits = RetentionLimits { max_bytes: Some(1_000), ..RetentionLimits::default() };
        let size = StoreSize { data: 500, logs: 1_000_000, ..StoreSize::default() };
        assert!(!limits.is_exceeded(size));
        assert!(limits.is_exceeded(StoreSize { data: 800, ..size }));
    }

    #[test]
    fn entries_that_another_process_removed_meanwhile_are_not_removed_twice() {
        let connection = database::open_memory("file:retention?mode=memory").unwrap();
        let step = Step { audit: Some(AuditStep { up_to: 7, entries: 7 }), ..Step::default() };
        assert_eq!(step.apply(&connection).unwrap(), []);
    }
}
