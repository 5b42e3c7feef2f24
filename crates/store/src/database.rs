//! Opens the database file: for its user alone, in WAL mode, at the current schema. A corrupt file is set aside.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use toolway_config::ownership;

use crate::{StoreError, migration, store::Sync, time};

/// How long a write waits for another process that holds the write lock.
pub(crate) const BUSY: Duration = Duration::from_secs(5);
/// The same after a write waited in vain, until one succeeds.
pub(crate) const BUSY_AGAIN: Duration = Duration::from_millis(100);

/// Pages of the WAL after which it is copied to the database. Under load a page is in it many times and is copied once.
const CHECKPOINT: i64 = 4_000;

/// Something the operator should know about the file that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenNotice {
    /// The file was not a readable database; it was renamed and a new one was created.
    SetAside {
        /// The file as configured.
        path: PathBuf,
        /// Its new name.
        moved_to: PathBuf,
    },
}

impl std::fmt::Display for OpenNotice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::SetAside { path, moved_to } = self;
        let (path, moved_to) = (path.display(), moved_to.display());
        write!(f, "`{path}` is not a readable database; it was renamed to `{moved_to}` and a new one was created")
    }
}

/// Opens the file for writing, creating it and its folder if needed.
pub(crate) fn open(path: &Path, sync: Sync) -> Result<(Connection, Option<OpenNotice>), StoreError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        ownership::create_private_folder(folder).map_err(|error| StoreError::file(folder, error))?;
    }
    match open_existing(path, sync) {
        Err(StoreError::Sqlite(error)) if is_corrupt(&error) => {
            let moved_to = set_aside(path).map_err(|error| StoreError::file(path, error))?;
            let notice = OpenNotice::SetAside { path: path.to_owned(), moved_to };
            Ok((open_existing(path, sync)?, Some(notice)))
        }
        opened => opened.map(|connection| (connection, None)),
    }
}

fn open_existing(path: &Path, sync: Sync) -> Result<Connection, StoreError> {
    // SQLite creates the file with the default mode; creating it first makes it private.
    let created = ownership::private_write_options().create(true).append(true).open(path);
    created.map_err(|error| StoreError::file(path, error))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    prepare(&mut connection, path, sync)?;
    Ok(connection)
}

/// A database that lives as long as its connections.
pub(crate) fn open_memory(uri: &str) -> Result<Connection, StoreError> {
    let mut connection = Connection::open(uri)?;
    connection.pragma_update(None, "read_uncommitted", true)?;
    prepare(&mut connection, Path::new(uri), Sync::Normal)?;
    Ok(connection)
}

fn prepare(connection: &mut Connection, path: &Path, sync: Sync) -> Result<(), StoreError> {
    connection.busy_timeout(BUSY)?;
    let _mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    let synchronous = match sync {
        Sync::Normal => "normal",
        Sync::Full => "full",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.set_prepared_statement_cache_capacity(64);
    migration::migrate(connection, path)
}

/// Opens an existing file for queries. Returns `None` if there is no file yet.
pub(crate) fn open_read_only(path: &Path) -> Result<Option<Connection>, StoreError> {
    if !path.exists() {
        return Ok(None);
    }
    // Read-write, because a reader of a WAL database may have to create its index file; `query_only` forbids writes.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    migration::migrate(&mut connection, path)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(Some(connection))
}

fn is_corrupt(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Renames the file and its journal; nothing is overwritten.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let moved_to = (0..100)
        .map(|attempt| suffixed(path, &format!(".corrupt-{}-{attempt}", time::now() / 1_000_000)))
        .find(|candidate| !candidate.exists())
        .ok_or_else(|| io::Error::other("too many corrupt copies exist; remove some"))?;
    fs::rename(path, &moved_to)?;
    for journal in ["-wal", "-shm"] {
        let from = suffixed(path, journal);
        if from.exists() {
            fs::rename(from, suffixed(&moved_to, journal))?;
        }
    }
    Ok(moved_to)
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
