//! A connection for queries. It sees what was committed and cannot write.

use std::path::Path;

use rusqlite::{Connection, Params, Row};

use crate::{Store, StoreError, StoreOptions, Sync, database, journal, store};

/// A read-only connection. Queries are in the files of their subjects.
#[derive(Debug)]
pub struct Reader {
    pub(crate) connection: Connection,
}

impl Reader {
    /// Opens a file for queries. Returns `None` if there is no file yet. What any process acknowledged before is seen,
    /// also that of a process that was killed before it was committed.
    pub fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let is_left = path.exists() && journal::settle(&store::lock_folder(path));
        if is_left && let Err(error) = Store::open(&StoreOptions { path: Some(path.to_owned()), sync: Sync::Normal }) {
            tracing::error!(%error, "records of a process that was killed cannot be read");
        }
        Self::open_committed(path)
    }

    /// Opens a file for queries on what is committed.
    pub(crate) fn open_committed(path: &Path) -> Result<Option<Self>, StoreError> {
        Ok(database::open_read_only(path)?.map(|connection| Self { connection }))
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
