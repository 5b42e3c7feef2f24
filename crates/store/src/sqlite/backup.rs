//! Backup and restore of the whole database. A backup is one database file, made while others write, with a table of its
//! own for what the program adds to it.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::{
    Connection, OpenFlags, OptionalExtension,
    backup::{Backup, StepResult},
    params,
};
use toolway_config::ownership;

use crate::{
    SqliteReader, StoreError, Sync,
    audit::Verified,
    database::{self, BUSY, PARTS, suffixed},
    runs,
    time::{self, Micros},
};

/// What a backup file contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupContent {
    /// When it was made.
    pub made_at: Micros,
    /// Recorded calls in it.
    pub calls: u64,
    /// Sealed secrets; `None` if it was made without.
    pub secrets: Option<Vec<u8>>,
}

/// What happens to a file that has the name of the new backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The backup is refused.
    Keep,
    /// It is replaced, once the backup is complete.
    Replace,
}

/// Why a backup cannot be made or restored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BackupError {
    /// A file of this name exists.
    #[error("`{}` exists already", .0.display())]
    Exists(PathBuf),
    /// There is no database yet.
    #[error("`{}` does not exist: nothing was recorded yet", .0.display())]
    NoDatabase(PathBuf),
    /// The file is not a backup.
    #[error("`{}` is not a backup of `toolway store backup`", .0.display())]
    NotABackup(PathBuf),
    /// The backup is damaged.
    #[error("`{}` is damaged: {problem}", file.display())]
    Damaged {
        /// The backup.
        file: PathBuf,
        /// The first problem that was found.
        problem: String,
    },
    /// A process uses the database.
    #[error("a running process uses `{}`; stop `toolway serve` and other commands first", .0.display())]
    InUse(PathBuf),
    /// The store or its file failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The table that makes a database a backup.
const TABLE: &str = "toolway_backup";
/// Pause before the copy is tried again while another process holds a lock.
const RETRY: Duration = Duration::from_millis(20);

impl From<rusqlite::Error> for BackupError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Writes a backup of the database to a file that only its owner can read. Other processes may write to the database
/// meanwhile; everything that they acknowledged before is in it.
pub fn write(
    database: &Path,
    to: &Path,
    secrets: Option<&[u8]>,
    existing: Existing,
) -> Result<BackupContent, BackupError> {
    if existing == Existing::Keep && to.exists() {
        return Err(BackupError::Exists(to.to_owned()));
    }
    let partial = suffixed(to, ".partial");
    let written = write_partial(database, &partial, secrets).and_then(|content| {
        put(&partial, to).map_err(|error| StoreError::file(to, error))?;
        Ok(content)
    });
    if written.is_err() {
        // Half a backup is of no use.
        let _gone = fs::remove_file(&partial);
    }
    written
}

fn write_partial(database: &Path, partial: &Path, secrets: Option<&[u8]>) -> Result<BackupContent, BackupError> {
    let source = SqliteReader::open(database)?.ok_or_else(|| BackupError::NoDatabase(database.to_owned()))?;
    create_private(partial).map_err(|error| StoreError::file(partial, error))?;
    let mut backup = Connection::open(partial)?;
    copy_pages(&source.connection, &mut backup)?;
    drop(source);
    // One file: a database in WAL mode would need two more.
    let _mode: String = backup.pragma_update_and_check(None, "journal_mode", "delete", |row| row.get(0))?;
    backup.execute_batch(&format!("CREATE TABLE {TABLE} (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT"))?;
    // The id of a session lets its holder use it, and a session belongs to the process that has it.
    backup.execute_batch("PRAGMA secure_delete = ON")?;
    if backup.table_exists(None, "sessions")? {
        backup.execute("DELETE FROM sessions", [])?;
    }
    let insert = format!("INSERT INTO {TABLE} VALUES (?, ?)");
    backup.execute(&insert, params!["madeAt", time::now().to_string().into_bytes()])?;
    if let Some(secrets) = secrets {
        backup.execute(&insert, params!["secrets", secrets])?;
    }
    check(&backup, partial)?;
    read_content(&backup, partial)
}

/// Copies all pages in one step: one snapshot, whatever others write meanwhile.
fn copy_pages(source: &Connection, to: &mut Connection) -> Result<(), BackupError> {
    let backup = Backup::new(source, to)?;
    let end = Instant::now() + BUSY;
    loop {
        match backup.step(-1)? {
            StepResult::Done => return Ok(()),
            _ if Instant::now() < end => std::thread::sleep(RETRY),
            _ => return Err(StoreError::Invalid("another process keeps the database locked").into()),
        }
    }
}

/// Checks a backup, and returns what it contains. It is not changed.
pub fn read(file: &Path) -> Result<BackupContent, BackupError> {
    let backup = open(file)?;
    check(&backup, file)?;
    read_content(&backup, file)
}

/// Replaces the database by a backup whose pages and audit log are intact. The database before is kept under another name,
/// which is returned.
pub fn restore(file: &Path, database: &Path) -> Result<Option<PathBuf>, BackupError> {
    read(file)?;
    if runs::any_lives(&database::lock_folder(database)) {
        return Err(BackupError::InUse(database.to_owned()));
    }
    if let Some(folder) = database.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        ownership::create_private_folder(folder).map_err(|error| StoreError::file(folder, error))?;
    }
    // Prepared beside the database, so that only renames are left when it is replaced.
    let prepared = suffixed(database, ".restoring");
    let restored = prepare(file, &prepared).and_then(|()| {
        let failed = |error| StoreError::file(database, error);
        let kept = keep_current(database).map_err(failed)?;
        put(&prepared, database).map_err(failed)?;
        Ok(kept)
    });
    if restored.is_err() {
        for part in PARTS {
            let _gone = fs::remove_file(suffixed(&prepared, part));
        }
    }
    restored
}

/// Makes a database of a backup, at the current schema, and verifies its audit log.
fn prepare(file: &Path, prepared: &Path) -> Result<(), BackupError> {
    copy(file, prepared).map_err(|error| StoreError::file(prepared, error))?;
    let (connection, notice) = database::open(prepared, Sync::Full)?;
    let damaged = |problem: String| BackupError::Damaged { file: file.to_owned(), problem };
    if notice.is_some() {
        return Err(damaged("it is not a readable database".to_owned()));
    }
    connection.execute_batch(&format!("DROP TABLE {TABLE}"))?;
    let reader = SqliteReader { connection };
    if let Verified::Broken { seq } = reader.verify_audit()? {
        return Err(damaged(format!("its audit log is broken at entry {seq}")));
    }
    // Closing it moves everything from the WAL to the file.
    reader.connection.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// Creates a file that only its owner can read. One that is left over, or that another user put there to read what is
/// written, is removed first and never opened.
fn create_private(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    ownership::private_write_options().create_new(true).open(path)
}

fn copy(file: &Path, to: &Path) -> io::Result<()> {
    let mut copy = create_private(to)?;
    io::copy(&mut File::open(file)?, &mut copy)?;
    copy.sync_all()
}

/// Gives a complete file its name, and waits until both are on the disk.
fn put(complete: &Path, name: &Path) -> io::Result<()> {
    File::open(complete)?.sync_all()?;
    fs::rename(complete, name)?;
    let folder = name.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Renames the database with everything that belongs to it.
fn keep_current(database: &Path) -> io::Result<Option<PathBuf>> {
    if !database.exists() {
        return Ok(None);
    }
    let named = |number: u32| suffixed(database, &format!(".before-restore-{number}"));
    let kept = (1..1_000).map(named).find(|name| !name.exists());
    let kept = kept.ok_or_else(|| io::Error::other("too many databases from before a restore exist; remove some"))?;
    for part in PARTS {
        match fs::rename(suffixed(database, part), suffixed(&kept, part)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(Some(kept))
}

fn open(file: &Path) -> Result<Connection, BackupError> {
    if !file.is_file() {
        return Err(StoreError::file(file, io::ErrorKind::NotFound.into()).into());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(BUSY)?;
    let found = connection.table_exists(None, TABLE);
    if !found.unwrap_or(false) {
        return Err(BackupError::NotABackup(file.to_owned()));
    }
    Ok(connection)
}

fn check(backup: &Connection, file: &Path) -> Result<(), BackupError> {
    let damaged = |problem: String| BackupError::Damaged { file: file.to_owned(), problem };
    let found = backup.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0));
    match found {
        Ok(found) if found == "ok" => Ok(()),
        Ok(problem) => Err(damaged(problem)),
        Err(error) => Err(damaged(error.to_string())),
    }
}

fn read_content(backup: &Connection, file: &Path) -> Result<BackupContent, BackupError> {
    let value = |name: &str| {
        let select = format!("SELECT value FROM {TABLE} WHERE name = ?");
        backup.query_row(&select, [name], |row| row.get::<_, Vec<u8>>(0)).optional()
    };
    let made_at = value("madeAt")?.and_then(|text| String::from_utf8(text).ok()?.parse().ok());
    let made_at = made_at.ok_or_else(|| BackupError::NotABackup(file.to_owned()))?;
    let calls = backup.query_row("SELECT count(*) FROM calls", [], |row| row.get::<_, i64>(0))?;
    Ok(BackupContent { made_at, calls: calls.unsigned_abs(), secrets: value("secrets")? })
}
