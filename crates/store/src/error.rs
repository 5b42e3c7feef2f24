//! Why the store cannot do what was asked.

use std::{io, path::PathBuf, sync::Arc};

/// An error of the store. Cloning is cheap: one failed commit is reported to every write in its batch.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The file was written by a later version of Toolway.
    #[error(
        "`{}` has schema version {found}, and this version of toolway knows {known}; use a newer toolway or another \
         `store.path`", path.display()
    )]
    Newer {
        /// Database file.
        path: PathBuf,
        /// Schema version in the file.
        found: u32,
        /// Newest schema version known here.
        known: u32,
    },
    /// A file or folder cannot be created or read.
    #[error("`{}`: {error}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Cause reported by the system.
        error: Arc<io::Error>,
    },
    /// SQLite reports an error: disk full, read-only, locked …
    #[error("{0}")]
    Sqlite(Arc<rusqlite::Error>),
    /// The writer thread has ended.
    #[error("the store is closed")]
    Closed,
    /// The writer cannot keep up and its queue is full.
    #[error("the store's queue is full ({0} writes are waiting)")]
    QueueFull(usize),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(Arc::new(error))
    }
}

impl StoreError {
    pub(crate) fn file(path: impl Into<PathBuf>, error: io::Error) -> Self {
        Self::File { path: path.into(), error: Arc::new(error) }
    }
}
