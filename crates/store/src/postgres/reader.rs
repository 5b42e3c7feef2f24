//! A connection for queries. Queries are in the files of their subjects.

use std::{fmt, future::Future, sync::Arc};

use deadpool_postgres::Object;
use tokio_postgres::Row;
use toolway_config::Secret;

use super::{
    database::Database,
    pipeline::{self, Value},
};
use crate::StoreError;

/// Answers queries with connections of the pool.
#[derive(Clone)]
pub(crate) struct PostgresReader {
    database: Arc<Database>,
}

impl PostgresReader {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }

    /// Connects for queries alone. Blocks.
    pub(crate) fn connect(url: &Secret) -> Result<Self, StoreError> {
        Ok(Self { database: Database::open(url)? })
    }

    /// Waits for a query on this thread. Blocks.
    pub(crate) fn wait<T>(&self, query: impl Future<Output = T>) -> T {
        self.database.wait(query)
    }

    pub(super) async fn client(&self) -> Result<Object, StoreError> {
        self.database.client().await
    }

    /// The rows of one query.
    pub(super) async fn rows(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let client = self.client().await?;
        pipeline::rows(&client, sql, values).await
    }
}

impl fmt::Debug for PostgresReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresReader").field("place", self.database.place()).finish_non_exhaustive()
    }
}
