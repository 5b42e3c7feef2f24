//! Processes that write. Each has a row that is renewed by the clock of the database; one whose row has expired is taken for
//! dead: its open calls are closed and its tasks are freed, once, and what it writes afterwards fails.
//!
//! A member of a cluster is such a process, with more columns ([`super::members`] registers and renews it). Its row stays when
//! it has ended, while a lease names it; the row of another process is deleted.

use std::time::Duration;

use deadpool_postgres::Object;
use toolway_host::cluster::TakenOver;
use uuid::Uuid;

use super::{
    batch::{Filling, recovery_event, undo_if_failed},
    calls,
    pipeline::{self, Value},
    tasks,
};
use crate::{StoreError, calls::Delivery, time};

/// How long the registration of a process that is not a member holds without a renewal.
pub(super) const LEASE: Duration = Duration::from_secs(15);

/// The registration of the process that writes, in each of its transactions: no other process can end it meanwhile. The
/// clock is read when the row is locked.
pub(super) const FENCE: &str = "\
    WITH locked AS MATERIALIZED (SELECT expires_at, ended_at FROM runs WHERE id = $1 FOR KEY SHARE) \
    SELECT 1 FROM locked WHERE ended_at IS NULL AND clock_timestamp() < expires_at";

/// Who closes the calls of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The process itself, or its next registration, whether it has expired or not.
    Own,
    /// Another process, if it has expired.
    Expired,
}

/// Which processes are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looking {
    /// All: no member may be left.
    All,
    /// Those that are not members: members take over each other.
    ProcessesAlone,
}

/// Registers a process.
pub(super) async fn register(client: &Object, run: Uuid) -> Result<(), StoreError> {
    let sql = "INSERT INTO runs (id, pid, started_at, expires_at) \
               VALUES ($1, $2, $3, clock_timestamp() + $4 * interval '1 millisecond')";
    let values: Vec<Value<'_>> =
        vec![Box::new(run), Box::new(i64::from(std::process::id())), Box::new(time::now()), Box::new(lease())];
    pipeline::execute(client, sql, values).await?;
    Ok(())
}

/// Registers a process again whose registration has expired. What no other process has closed or taken meanwhile stays its own:
/// it is alive.
pub(super) async fn register_anew(client: &Object, expired: Uuid, run: Uuid) -> Result<(), StoreError> {
    let registered = async {
        client.batch_execute("BEGIN").await?;
        register(client, run).await?;
        // Waits for a process that is about to close its calls.
        let own = pipeline::execute(client, "DELETE FROM runs WHERE id = $1", vec![Box::new(expired)]).await?;
        if 0 < own {
            for sql in OWN {
                pipeline::execute(client, sql, vec![Box::new(expired), Box::new(run)]).await?;
            }
        }
        Ok(client.batch_execute("COMMIT").await?)
    };
    let registered = registered.await;
    undo_if_failed(client, registered).await
}

/// What a process holds.
const OWN: [&str; 3] = [
    "UPDATE calls SET run = $2 WHERE run = $1 AND state IN ('pending', 'running')",
    "UPDATE tasks SET run = $2 WHERE run = $1 AND status IN ('working', 'input-required')",
    "UPDATE sessions SET run = $2 WHERE run = $1",
];

/// Renews a registration. Returns whether it was still valid.
pub(super) async fn renew(client: &Object, run: Uuid) -> Result<bool, StoreError> {
    let sql = "UPDATE runs SET expires_at = clock_timestamp() + $2 * interval '1 millisecond' \
               WHERE id = $1 AND clock_timestamp() < expires_at";
    Ok(0 < pipeline::execute(client, sql, vec![Box::new(run), Box::new(lease())]).await?)
}

/// Processes whose registration has expired.
pub(super) async fn dead(client: &Object, looking: Looking) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT id FROM runs WHERE expires_at <= clock_timestamp() AND ended_at IS NULL \
               AND ($1 OR gateway IS NULL) ORDER BY id";
    let all = looking == Looking::All;
    pipeline::rows(client, sql, &[Box::new(all)]).await?.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Closes the open calls of a process that has ended, and frees its tasks or gives them to `heir`, with its sessions of servers. `None`: another process has
/// done it, or the process has not expired.
pub(super) async fn settle(
    filling: &mut Filling<'_>,
    run: Uuid,
    ending: Ending,
    heir: Option<Uuid>,
) -> Result<Option<TakenOver>, StoreError> {
    let client = filling.client;
    // Waits for writes of the process, which hold the row shared; later ones find the mark.
    let sql = "WITH locked AS MATERIALIZED (SELECT id, expires_at, ended_at FROM runs WHERE id = $1 FOR UPDATE) \
               UPDATE runs SET ended_at = clock_timestamp() FROM locked WHERE runs.id = locked.id \
               AND locked.ended_at IS NULL AND ($2 OR locked.expires_at <= clock_timestamp())";
    let values: Vec<Value<'_>> = vec![Box::new(run), Box::new(ending == Ending::Own)];
    if pipeline::execute(client, sql, values).await? == 0 {
        return Ok(None);
    }
    pipeline::execute(client, "DELETE FROM runs WHERE id = $1 AND gateway IS NULL", vec![Box::new(run)]).await?;
    let sql = "DELETE FROM leases USING runs WHERE leases.generation = runs.generation AND runs.id = $1 \
               AND starts_with(leases.key, 'session:')";
    pipeline::execute(client, sql, vec![Box::new(run)]).await?;
    if let Some(heir) = heir {
        let sessions = "UPDATE sessions SET run = $2 WHERE run = $1";
        pipeline::execute(client, sessions, vec![Box::new(run), Box::new(heir)]).await?;
    }
    let mut taken = TakenOver { tasks: tasks::abandon(client, run, heir).await?, ..TakenOver::default() };
    for call in calls::interrupt(client, run).await? {
        match call.outcome {
            Some(Delivery::NotSent) => taken.not_sent += 1,
            _ => taken.unknown += 1,
        }
        filling.append(recovery_event(&call));
    }
    Ok(Some(taken))
}

#[expect(clippy::cast_precision_loss, reason = "a few seconds")]
fn lease() -> f64 {
    LEASE.as_millis() as f64
}
