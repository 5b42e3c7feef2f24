//! Forward-only changes of the schema, each applied once, in one transaction with its version number.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::StoreError;

/// Migrations in order; the version of a file is how many were applied (`PRAGMA user_version`).
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/sqlite/0001.sql"),
    include_str!("../../migrations/sqlite/0002.sql"),
    include_str!("../../migrations/sqlite/0003.sql"),
    include_str!("../../migrations/sqlite/0004.sql"),
    include_str!("../../migrations/sqlite/0005.sql"),
    include_str!("../../migrations/sqlite/0006.sql"),
    include_str!("../../migrations/sqlite/0007.sql"),
    include_str!("../../migrations/sqlite/0008.sql"),
    include_str!("../../migrations/sqlite/0009.sql"),
    include_str!("../../migrations/sqlite/0010.sql"),
    include_str!("../../migrations/sqlite/0011.sql"),
    include_str!("../../migrations/sqlite/0012.sql"),
    include_str!("../../migrations/sqlite/0013.sql"),
    include_str!("../../migrations/sqlite/0014.sql"),
    include_str!("../../migrations/sqlite/0015.sql"),
    include_str!("../../migrations/sqlite/0016.sql"),
    include_str!("../../migrations/sqlite/0017.sql"),
    include_str!("../../migrations/sqlite/0018.sql"),
    include_str!("../../migrations/sqlite/0019.sql"),
    include_str!("../../migrations/sqlite/0020.sql"),
];

/// Brings the schema up to date. A file of a later version is refused and stays as it is.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
    if version(connection)? == known {
        return Ok(());
    }
    // Another process may be migrating: the version is read again under the write lock.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&transaction)?;
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    for migration in MIGRATIONS.iter().skip(found as usize) {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(())
}

fn version(connection: &Connection) -> Result<u32, StoreError> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}
