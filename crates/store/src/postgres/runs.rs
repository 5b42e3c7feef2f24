//! Processes that write. Each has a row that it renews by the clock of the database; one whose row has expired is taken for
//! dead: its open calls are closed and its tasks are freed, once, and what it writes afterwards fails.

use std::time::Duration;

use deadpool_postgres::Object;
use uuid::Uuid;

use super::{
    batch::{Filling, recovery_event},
    calls,
    pipeline::{self, Value},
    tasks,
};
use crate::{StoreError, time};

/// How long a registration holds without a renewal.
pub(super) const LEASE: Duration = Duration::from_secs(15);

/// The registration of the process that writes, in each of its transactions: no other process can end it meanwhile.
pub(super) const FENCE: &str = "SELECT 1 FROM runs WHERE id = $1 AND clock_timestamp() < expires_at FOR KEY SHARE";

/// Registers a process.
pub(super) async fn register(client: &Object, run: Uuid) -> Result<(), StoreError> {
    let sql = "INSERT INTO runs (id, pid, started_at, expires_at) \
               VALUES ($1, $2, $3, clock_timestamp() + $4 * interval '1 millisecond')";
    let values: Vec<Value<'_>> =
        vec![Box::new(run), Box::new(i64::from(std::process::id())), Box::new(time::now()), Box::new(lease())];
    pipeline::execute(client, sql, values).await?;
    Ok(())
}

/// Renews a registration. Returns whether it was still valid.
pub(super) async fn renew(client: &Object, run: Uuid) -> Result<bool, StoreError> {
    let sql = "UPDATE runs SET expires_at = clock_timestamp() + $2 * interval '1 millisecond' \
               WHERE id = $1 AND clock_timestamp() < expires_at";
    Ok(0 < pipeline::execute(client, sql, vec![Box::new(run), Box::new(lease())]).await?)
}

/// Processes whose registration has expired.
pub(super) async fn dead(client: &Object) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT id FROM runs WHERE expires_at <= clock_timestamp() ORDER BY id";
    pipeline::rows(client, sql, &[]).await?.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Closes the open calls of a process that has ended, or of this one, and frees its tasks.
pub(super) async fn recover(filling: &mut Filling<'_>, run: Uuid) -> Result<(), StoreError> {
    // Another process may have done all of it.
    let sql = "DELETE FROM runs WHERE id = $1 AND ($2 OR expires_at <= clock_timestamp())";
    let is_own = run == filling.run;
    if pipeline::execute(filling.client, sql, vec![Box::new(run), Box::new(is_own)]).await? == 0 {
        return Ok(());
    }
    tasks::abandon(filling.client, run).await?;
    for call in calls::interrupt(filling.client, run).await? {
        filling.append(recovery_event(&call));
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a few seconds")]
fn lease() -> f64 {
    LEASE.as_millis() as f64
}
