//! Why the store cannot do what was asked.

use std::{io, path::PathBuf, sync::Arc};

use rusqlite::ErrorCode;
use tokio_postgres::error::SqlState;
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
    /// The Postgres database cannot be used as configured.
    #[error("the database {place}: {reason}")]
    Database {
        /// Host, port and name of the database, without its password.
        place: Arc<str>,
        /// What is wrong.
        reason: Arc<str>,
    },
    /// Postgres reports an error, or cannot be reached.
    #[error("{}", of_postgres(.0))]
    Postgres(Arc<tokio_postgres::Error>),
    /// The database was changed by a later version of Toolway.
    #[error(
        "the database {place} has schema version {found}, and this version of toolway knows {known}; use a newer toolway"
    )]
    NewerDatabase {
        /// Host, port and name of the database.
        place: Arc<str>,
        /// Schema version in the database.
        found: u32,
        /// Newest schema version known here.
        known: u32,
    },
    /// Another process has taken this one for dead, and has closed its calls.
    #[error("this process did not renew its registration in the database in time, and its calls were closed")]
    Expired,
    /// Another process has closed the call, or follows the task.
    #[error("{0}")]
    NotOwned(&'static str),
    /// The database did not answer within a time limit.
    #[error("the database {0} did not answer in time")]
    TimedOut(Arc<str>),
    /// A value cannot be written.
    #[error("{0}")]
    Invalid(&'static str),
    /// Another process has written another message at the same position of the conversation.
    #[error("another process has continued this conversation")]
    Continued,
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

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(Arc::new(error))
    }
}

/// What Postgres says; without its answer, why it did not come.
fn of_postgres(error: &tokio_postgres::Error) -> String {
    if let Some(answer) = error.as_db_error() {
        return format!("the database: {} ({})", answer.message(), answer.code().code());
    }
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl From<StoreError> for RecordsError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Newer { .. } | StoreError::NewerDatabase { .. } => Self::Newer(Arc::new(error)),
            StoreError::QueueFull(_) => Self::Busy(Arc::new(error)),
            StoreError::Invalid(what) => Self::Invalid(what),
            StoreError::Continued => Self::Continued,
            StoreError::Closed => Self::Closed,
            StoreError::NotOwned(_) => Self::NotOwned(Arc::new(error)),
            _ if error.is_full() => Self::Full(Arc::new(error)),
            _ if error.is_locked() => Self::Busy(Arc::new(error)),
            StoreError::File { .. }
            | StoreError::Sqlite(_)
            | StoreError::Database { .. }
            | StoreError::Postgres(_)
            | StoreError::Expired
            | StoreError::TimedOut(_) => Self::Unavailable(Arc::new(error)),
        }
    }
}

impl StoreError {
    /// Whether the reason is the file or its disk, and not what was written.
    pub(crate) fn is_of_file(&self) -> bool {
        let error = match self {
            Self::Sqlite(error) => error,
            Self::Postgres(error) => return !error.code().is_some_and(is_of_write),
            Self::Invalid(_) | Self::NotOwned(_) | Self::Continued => return false,
            _ => return true,
        };
        let of_write = [ErrorCode::ConstraintViolation, ErrorCode::TypeMismatch, ErrorCode::TooBig, ErrorCode::Unknown];
        error.sqlite_error_code().is_some_and(|code| !of_write.contains(&code))
    }

    /// Whether the disk, or what this user may use of it, is full.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Sqlite(error) => error.sqlite_error_code() == Some(ErrorCode::DiskFull),
            Self::Postgres(error) => error.code() == Some(&SqlState::DISK_FULL),
            _ => false,
        }
    }

    /// Whether another process holds the write lock.
    pub(crate) fn is_locked(&self) -> bool {
        let Self::Sqlite(error) = self else { return false };
        matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Whether the connection to Postgres is of no more use.
    pub(crate) fn is_disconnection(&self) -> bool {
        match self {
            Self::Postgres(error) => {
                error.is_closed() || error.code().is_none_or(|code| code.code().starts_with("57P"))
            }
            Self::TimedOut(_) => true,
            _ => false,
        }
    }

    pub(crate) fn file(path: impl Into<PathBuf>, error: io::Error) -> Self {
        Self::File { path: path.into(), error: Arc::new(error) }
    }
}

/// Whether a code is about one statement: data, constraints, names, limits of values, and what can be tried again alone.
fn is_of_write(code: &SqlState) -> bool {
    ["0A", "21", "22", "23", "40", "42", "54"].iter().any(|class| code.code().starts_with(class))
}
