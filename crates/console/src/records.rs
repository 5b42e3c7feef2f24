//! Queries on the store, with errors of the API.

use toolway_store::{Freshness, Reader, Store, StoreError};

use crate::error::ApiError;

/// The store for queries. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    store: Store,
}

impl Records {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Runs a query that sees everything that was written before.
    pub(crate) async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ApiError> {
        Ok(self.store.query(Freshness::Submitted, query).await?)
    }
}
