//! A connection for queries. It sees what was committed and cannot write.

use std::path::Path;

use rusqlite::{Connection, Params, Row};
use uuid::Uuid;

use crate::{Store, StoreError, StoreOptions, database, journal, runs};

/// A read-only connection. Queries are in the files of their subjects.
#[derive(Debug)]
pub struct SqliteReader {
    pub(crate) connection: Connection,
}

impl SqliteReader {
    /// Opens a file for queries. Returns `None` if there is no file yet. What any process acknowledged before is seen,
    /// also that of a process that was killed before it was committed.
    pub fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let Some(reader) = Self::open_committed(path)? else { return Ok(None) };
        let left = journal::settle(&reader.connection, &database::lock_folder(path));
        if !left.is_empty() {
            reader.recover(path, &left)?;
        }
        Ok(Some(reader))
    }

    /// Applies what processes that were killed have left, by opening the store for writing.
    fn recover(&self, path: &Path, left: &[Uuid]) -> Result<(), StoreError> {
        // It is applied when the store is dropped again.
        match Store::open(&StoreOptions { path: Some(path.to_owned()), ..StoreOptions::default() }) {
            Ok((_store, Some(notice))) => tracing::error!("{notice}"),
            Ok((_store, None)) => {}
            Err(error) => tracing::error!(%error, "records of a process that was killed cannot be applied"),
        }
        for run in left {
            if runs::is_registered(&self.connection, *run)? {
                tracing::error!(
                    "records of a process that was killed are not applied yet; the answer may lack its last calls"
                );
            }
        }
        Ok(())
    }

    /// Opens a file for queries on what is committed.
    pub(crate) fn open_committed(path: &Path) -> Result<Option<Self>, StoreError> {
        Ok(database::open_read_only(path)?.map(|connection| Self { connection }))
    }

    /// Frees the pages that the last query has read; the operating system still has them.
    pub(crate) fn release_memory(&self) {
        // A failure leaves the pages where they are.
        self.connection.execute_batch("PRAGMA shrink_memory").ok();
    }

    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params, row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}
