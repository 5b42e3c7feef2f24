//! Why records cannot be read or written. Every port of records returns this error.

use std::{error::Error, sync::Arc};

/// What the store reports, for the operator.
pub type RecordsCause = Arc<dyn Error + Send + Sync>;

/// Why records cannot be read or written. Cloning is cheap: one failed commit is reported to every write in it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RecordsError {
    /// The records were written by a later version of Toolway.
    #[error(transparent)]
    Newer(RecordsCause),
    /// Another process holds the store, or too many writes wait. The same may succeed later.
    #[error(transparent)]
    Busy(RecordsCause),
    /// There is no room for further records.
    #[error(transparent)]
    Full(RecordsCause),
    /// The value itself cannot be stored.
    #[error("{0}")]
    Invalid(&'static str),
    /// Another process has closed the call, or follows the task: nothing was written.
    #[error(transparent)]
    NotOwned(RecordsCause),
    /// Another process has written a message at the same position of the conversation.
    #[error("another process has continued this conversation")]
    Continued,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The store cannot be reached, read or written.
    #[error(transparent)]
    Unavailable(RecordsCause),
}

impl RecordsError {
    /// A store that cannot be used, for this reason.
    pub fn unavailable(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable(Arc::from(reason.into()))
    }
}
