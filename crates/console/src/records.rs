//! Queries on the store, on threads for blocking work. A few open readers are kept.

use std::sync::Arc;

use parking_lot::Mutex;
use toolway_store::{Reader, Store, StoreError};

use crate::error::ApiError;

/// Readers that are kept open.
const KEPT_READERS: usize = 4;

/// The store for queries. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    store: Store,
    // Nothing awaits under this lock.
    readers: Arc<Mutex<Vec<Reader>>>,
}

impl Records {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, readers: Arc::default() }
    }

    /// Runs a query.
    pub(crate) async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (store, readers) = (self.store.clone(), Arc::clone(&self.readers));
        let run = move || {
            let kept = readers.lock().pop();
            let reader = match kept {
                Some(reader) => {
                    store.catch_up();
                    reader
                }
                None => store.reader()?,
            };
            let found = query(&reader)?;
            let mut readers = readers.lock();
            if readers.len() < KEPT_READERS {
                readers.push(reader);
            }
            Ok(found)
        };
        let done: Result<T, StoreError> =
            tokio::task::spawn_blocking(run).await.map_err(|error| ApiError::internal(error.to_string()))?;
        Ok(done?)
    }
}
