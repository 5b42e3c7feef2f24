//! Forward-only changes of the schema, each applied once, under an advisory lock.
//!
//! A gateway of the release before may run on the schema of this one: a release only adds (expand), and a later one removes what
//! no release in use reads any more (contract). So the database says which version it has, and the oldest that may use it.

use std::sync::Arc;

use deadpool_postgres::Object;

use crate::StoreError;

/// A change of the schema.
struct Migration {
    sql: &'static str,
    /// The oldest version of the schema whose programs can use the database after it.
    runs_with: i32,
}

/// Migrations in order; the version of a database is how many were applied.
const MIGRATIONS: &[Migration] = &[
    Migration { sql: include_str!("../../migrations/postgres/0001.sql"), runs_with: 1 },
    Migration { sql: include_str!("../../migrations/postgres/0002.sql"), runs_with: 1 },
];

/// Key of the advisory lock that one process holds while it changes the schema: "toolway" as a number.
const LOCK: i64 = 0x0074_6f6f_6c77_6179;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS toolway_schema (one BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (one), \
                     version INTEGER NOT NULL, runs_with INTEGER NOT NULL)";

struct Version {
    version: i32,
    runs_with: i32,
}

/// Brings the schema up to date. A database that this version cannot use is refused and stays as it is.
pub(crate) async fn migrate(client: &mut Object, place: &Arc<str>) -> Result<(), StoreError> {
    let known = i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX);
    if let Some(found) = version(client).await?
        && known <= found.version
    {
        return usable(&found, known, place);
    }
    let transaction = client.transaction().await?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    transaction.batch_execute(TABLE).await?;
    // Another process may have migrated meanwhile.
    let row = transaction.query_opt("SELECT version FROM toolway_schema", &[]).await?;
    let found = row.map_or(0, |row| row.get::<_, i32>(0));
    let applied = usize::try_from(found).unwrap_or_default();
    for migration in MIGRATIONS.iter().skip(applied) {
        transaction.batch_execute(migration.sql).await?;
    }
    if let Some(last) = MIGRATIONS.last().filter(|_| found < known) {
        let write = "INSERT INTO toolway_schema (version, runs_with) VALUES ($1, $2) \
                     ON CONFLICT (one) DO UPDATE SET version = excluded.version, runs_with = excluded.runs_with";
        transaction.execute(write, &[&known, &last.runs_with]).await?;
    }
    transaction.commit().await?;
    match version(client).await? {
        Some(found) => usable(&found, known, place),
        None => Ok(()),
    }
}

fn usable(found: &Version, known: i32, place: &Arc<str>) -> Result<(), StoreError> {
    if found.runs_with <= known {
        return Ok(());
    }
    let number = |version: i32| u32::try_from(version).unwrap_or_default();
    Err(StoreError::NewerDatabase { place: Arc::clone(place), found: number(found.version), known: number(known) })
}

async fn version(client: &Object) -> Result<Option<Version>, StoreError> {
    let exists = client.query_one("SELECT to_regclass('toolway_schema') IS NOT NULL", &[]).await?;
    if !exists.get::<_, bool>(0) {
        return Ok(None);
    }
    let row = client.query_opt("SELECT version, runs_with FROM toolway_schema", &[]).await?;
    Ok(row.map(|row| Version { version: row.get(0), runs_with: row.get(1) }))
}
