//! Why the store cannot do what was asked.

use std::{io, path::PathBuf, sync::Arc};

use rusqlite::ErrorCode;
use toolway_host::record::RecordsError;

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
    /// A value cannot be written.
    #[error("{0}")]
    Invalid(&'static str),
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

impl From<StoreError> for RecordsError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Newer { .. } => Self::Newer(Arc::new(error)),
            StoreError::QueueFull(_) => Self::Busy(Arc::new(error)),
            StoreError::Invalid(what) => Self::Invalid(what),
            StoreError::Closed => Self::Closed,
            _ if error.is_full() => Self::Full(Arc::new(error)),
            _ if error.is_locked() => Self::Busy(Arc::new(error)),
            StoreError::File { .. } | StoreError::Sqlite(_) => Self::Unavailable(Arc::new(error)),
        }
    }
}

impl StoreError {
    /// Whether the reason is the file or its disk, and not what was written.
    pub(crate) fn is_of_file(&self) -> bool {
        let error = match self {
            Self::Sqlite(error) => error,
            Self::Invalid(_) => return false,
            _ => return true,
        };
        let of_write = [ErrorCode::ConstraintViolation, ErrorCode::TypeMismatch, ErrorCode::TooBig, ErrorCode::Unknown];
        error.sqlite_error_code().is_some_and(|code| !of_write.contains(&code))
    }

    /// Whether the disk, or what this user may use of it, is full.
    pub(crate) fn is_full(&self) -> bool {
        let Self::Sqlite(error) = self else { return false };
        error.sqlite_error_code() == Some(ErrorCode::DiskFull)
    }

    /// Whether another process holds the write lock.
    pub(crate) fn is_locked(&self) -> bool {
        let Self::Sqlite(error) = self else { return false };
        matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    pub(crate) fn file(path: impl Into<PathBuf>, error: io::Error) -> Self {
        Self::File { path: path.into(), error: Arc::new(error) }
    }
}
