//! A connection for queries. It sees what was committed, never waits for the writer, and cannot write.

use std::path::Path;

use rusqlite::{Connection, Params, Row};

use crate::{StoreError, database};

/// A read-only connection. Queries are in the files of their subjects.
#[derive(Debug)]
pub struct Reader {
    pub(crate) connection: Connection,
}

impl Reader {
    /// Opens a file for queries. Returns `None` if there is no file yet.
    pub fn open(path: &Path) -> Result<Option<Self>, StoreError> {
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
