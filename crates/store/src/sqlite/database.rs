//! Opens the database file: for its user alone, in WAL mode, at the current schema. A corrupt file is set aside.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};
use toolway_config::ownership;

use crate::{
    StoreError, journal, migration,
    store::Sync,
    time::{self, Micros},
};

/// How long a write waits for another process that holds the write lock.
pub(crate) const BUSY: Duration = Duration::from_secs(5);
/// The same after a write waited in vain, until one succeeds.
pub(crate) const BUSY_AGAIN: Duration = Duration::from_millis(100);

/// Pages of the WAL after which it is copied to the database. Under load a page is in it many times and is copied once.
const CHECKPOINT: i64 = 4_000;
/// Bytes of a page.
const PAGE: i64 = 4_096;

/// Suffix of the folder with locks and journals.
const RUNS: &str = ".runs";
/// Begins the suffix of a corrupt file.
const SET_ASIDE: &str = ".corrupt-";
/// Suffixes of everything that belongs to a database, the file itself last.
pub(crate) const PARTS: [&str; 4] = [RUNS, "-wal", "-shm", ""];

/// Something the operator should know about the file that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenNotice {
    /// The file was not a readable database; it was renamed and a new one was created.
    SetAside {
        /// The file as configured.
        path: PathBuf,
        /// Its new name.
        moved_to: PathBuf,
        /// The folder with records of killed processes that were not in it yet; `None` if there are none.
        journals: Option<PathBuf>,
    },
    /// Retention has begun to remove records. Given once.
    Removing {
        /// When it began.
        since: Micros,
    },
}

impl std::fmt::Display for OpenNotice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (path, moved_to, journals) = match self {
            Self::SetAside { path, moved_to, journals } => (path, moved_to, journals),
            Self::Removing { since } => {
                let since = time::rfc3339(*since);
                return write!(
                    f,
                    "the store has reached `store.maxBytes` or `store.maxAge`; since {since} the oldest bodies and calls are \
                     removed"
                );
            }
        };
        let (path, moved_to) = (path.display(), moved_to.display());
        write!(f, "`{path}` is not a readable database; it was renamed to `{moved_to}` and a new one was created")?;
        match journals {
            Some(journals) => write!(f, "; records that were not in it yet are in `{}`", journals.display()),
            None => Ok(()),
        }
    }
}

/// Opens the file for writing, creating it and its folder if needed.
pub(crate) fn open(path: &Path, sync: Sync) -> Result<(Connection, Option<OpenNotice>), StoreError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        ownership::create_private_folder(folder).map_err(|error| StoreError::file(folder, error))?;
    }
    match open_existing(path, sync) {
        Err(StoreError::Sqlite(error)) if is_corrupt(&error) => replace(path, sync),
        opened => opened.map(|connection| (connection, None)),
    }
}

/// Sets a corrupt file aside and creates a new one, unless another process does so at the same time.
fn replace(path: &Path, sync: Sync) -> Result<(Connection, Option<OpenNotice>), StoreError> {
    let lock = suffixed(path, ".lock");
    let locked = ownership::private_write_options().create(true).truncate(true).open(&lock);
    let _locked = locked.and_then(|file| file.lock().map(|()| file)).map_err(|error| StoreError::file(lock, error))?;
    match open_existing(path, sync) {
        Err(StoreError::Sqlite(error)) if is_corrupt(&error) => {}
        opened => return opened.map(|connection| (connection, None)),
    }
    let has_records = journal::has_records(&lock_folder(path));
    let moved_to = set_aside(path).map_err(|error| StoreError::file(path, error))?;
    let journals = has_records.then(|| lock_folder(&moved_to));
    let notice = OpenNotice::SetAside { path: path.to_owned(), moved_to, journals };
    Ok((open_existing(path, sync)?, Some(notice)))
}

fn open_existing(path: &Path, sync: Sync) -> Result<Connection, StoreError> {
    // SQLite creates the file with the default mode; creating it first makes it private. An existing one must not be opened
    // here: closing it would release the locks that SQLite holds on it elsewhere in this process.
    match ownership::private_write_options().create_new(true).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(StoreError::file(path, error)),
        _ => {}
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    if connection.is_readonly(MAIN_DB)? {
        return Err(StoreError::file(path, io::Error::other("the file or its file system is read-only")));
    }
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
    // Only a new file can take this mode, and for an existing one the pragma would write to it.
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    if pages == 0 {
        connection.pragma_update(None, "auto_vacuum", "incremental")?;
    }
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

/// Bounds the WAL by a part of the budget of the store.
pub(crate) fn bound_wal(connection: &Connection, max_bytes: u64) -> Result<(), StoreError> {
    let share = i64::try_from(max_bytes / 16).unwrap_or(i64::MAX);
    let pages = (share / PAGE).clamp(64, CHECKPOINT);
    connection.pragma_update(None, "wal_autocheckpoint", pages)?;
    let _limit: i64 = connection.pragma_update_and_check(None, "journal_size_limit", pages * PAGE, |row| row.get(0))?;
    Ok(())
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

/// Renames the file with everything that belongs to it; nothing is overwritten. The file itself comes last, so that no part
/// of it is taken for one of the next.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let moved_to = (0..100)
        .map(|attempt| suffixed(path, &format!("{SET_ASIDE}{}-{attempt}", time::now() / 1_000_000)))
        .find(|candidate| !candidate.exists() && !lock_folder(candidate).exists())
        .ok_or_else(|| io::Error::other("too many corrupt copies exist; remove some"))?;
    let mut moved: Vec<&str> = Vec::new();
    for part in PARTS {
        let (from, to) = (suffixed(path, part), suffixed(&moved_to, part));
        match fs::rename(from, to) {
            Ok(()) => moved.push(part),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !part.is_empty() => {}
            Err(error) => {
                // As it was before; what cannot be renamed back is kept under its new name.
                moved.iter().for_each(|part| drop(fs::rename(suffixed(&moved_to, part), suffixed(path, part))));
                return Err(error);
            }
        }
    }
    Ok(moved_to)
}

/// Corrupt databases that were set aside, oldest first.
pub(crate) fn set_aside_files(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let prefix = format!("{name}{SET_ASIDE}");
    let number = |text: &str| text.parse::<i64>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let folder = path.parent().map(fs::read_dir).into_iter().flatten().flatten().flatten();
    let files = folder.map(|file| file.path()).filter_map(|path| {
        let (seconds, attempt) = path.file_name()?.to_str()?.strip_prefix(&prefix)?.split_once('-')?;
        Some((number(seconds)?, number(attempt)?, path))
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files.into_iter().map(|(.., path)| path).collect()
}

/// The folder in which processes have their locks and journals, next to the database.
pub(crate) fn lock_folder(path: &Path) -> PathBuf {
    suffixed(path, RUNS)
}

pub(crate) fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
