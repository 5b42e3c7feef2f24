//! Processes that write calls. Each holds a lock on a file of its own while it lives; a call that is open and whose
//! process holds no lock was interrupted.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, params};
use toolway_config::ownership;
use uuid::Uuid;

use crate::{StoreError, time};

/// This process, as long as it is kept.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: Uuid,
    lock: Option<(File, PathBuf)>,
}

impl Run {
    /// Registers this process. `None` as folder: the database is private to it.
    pub(crate) fn register(connection: &Connection, folder: Option<&Path>) -> Result<Self, StoreError> {
        let id = Uuid::now_v7();
        let lock = folder.map(|folder| lock_new(folder, id)).transpose()?;
        connection.execute("INSERT INTO runs VALUES (?, ?, ?)", params![id, std::process::id(), time::now()])?;
        Ok(Self { id, lock })
    }

    /// Whether the database ends with this process.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.lock.is_none()
    }

    /// Removes the lock file of a process that no longer lives and whose calls were closed.
    pub(crate) fn remove_lock_of(&self, dead: Uuid) {
        let folder = self.lock.as_ref().and_then(|(_, path)| path.parent());
        if let Some(folder) = folder {
            // Another process may have removed it at the same time.
            let _gone = fs::remove_file(lock_path(folder, dead));
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.lock {
            // Kept, it is only found again by the next process.
            let _kept = fs::remove_file(path);
        }
    }
}

/// The processes in the table that no longer live.
pub(crate) fn dead(connection: &Connection, folder: &Path) -> Result<Vec<Uuid>, StoreError> {
    let mut statement = connection.prepare("SELECT id FROM runs")?;
    let runs: Vec<Uuid> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(runs.into_iter().filter(|run| !is_alive(&lock_path(folder, *run))).collect())
}

/// Forgets a process that no longer lives.
pub(crate) fn forget(connection: &Connection, run: Uuid) -> Result<(), StoreError> {
    connection.execute("DELETE FROM runs WHERE id = ?", [run])?;
    Ok(())
}

fn lock_new(folder: &Path, id: Uuid) -> Result<(File, PathBuf), StoreError> {
    ownership::create_private_folder(folder).map_err(|error| StoreError::file(folder, error))?;
    let path = lock_path(folder, id);
    let lock = || -> io::Result<File> {
        let file = ownership::private_write_options().create_new(true).open(&path)?;
        file.lock()?;
        Ok(file)
    };
    match lock() {
        Ok(file) => Ok((file, path)),
        Err(error) => Err(StoreError::file(path, error)),
    }
}

fn lock_path(folder: &Path, run: Uuid) -> PathBuf {
    folder.join(format!("{run}.lock"))
}

/// A file that is missing belongs to a process that has ended; one that cannot be opened is left alone.
fn is_alive(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => matches!(file.try_lock(), Err(TryLockError::WouldBlock)),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}
