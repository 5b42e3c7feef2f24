//! Processes that write calls. Each holds a lock on a file of its own while it lives; a call that is open and whose
//! process holds no lock was interrupted.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, params};
use toolway_config::ownership;
use uuid::Uuid;

use crate::{
    StoreError,
    journal::{self, Left},
    time,
};

/// Age from which the lock file of a process that did not register is removed. Registering takes milliseconds, or waits
/// a few seconds for the lock of the database.
const STRAY_AFTER: Duration = Duration::from_secs(10 * 60);

/// This process, as long as it is kept.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: Uuid,
    lock: Option<(File, PathBuf)>,
}

/// A process that has ended, with what is left of its journal.
#[derive(Clone, Debug)]
pub(crate) struct DeadRun {
    pub(crate) id: Uuid,
    pub(crate) journal: Left,
}

impl Run {
    /// Registers this process. `None` as folder: the database is private to it.
    pub(crate) fn register(connection: &Connection, folder: Option<&Path>) -> Result<Self, StoreError> {
        let id = Uuid::now_v7();
        let lock = folder.map(|folder| lock_new(folder, id)).transpose()?;
        connection.execute("INSERT INTO runs VALUES (?, ?, ?)", params![id, std::process::id(), time::now()])?;
        Ok(Self { id, lock })
    }

    /// The folder with the files of all processes; `None` if the database is private to this one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.lock.as_ref().and_then(|(_, path)| path.parent())
    }

    /// Removes the files of a process that no longer lives and whose calls were closed.
    pub(crate) fn remove_files_of(&self, dead: &DeadRun) {
        if let Some(folder) = self.folder() {
            journal::remove(folder, dead.id, &dead.journal.damaged);
            // Another process may have removed it at the same time.
            let _gone = fs::remove_file(lock_path(folder, dead.id));
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

/// The processes in the table that no longer live. One whose journal cannot be read is left to a later process.
pub(crate) fn dead(connection: &Connection, folder: &Path) -> Result<Vec<DeadRun>, StoreError> {
    let mut statement = connection.prepare("SELECT id FROM runs")?;
    let runs: Vec<Uuid> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let dead = runs.into_iter().filter(|run| !lives(folder, *run));
    let read = dead.filter_map(|id| {
        let journal = journal::read(folder, id).inspect_err(|error| {
            tracing::error!(%error, "the journal of a process that ended cannot be read; its calls stay open until it can");
        });
        Some(DeadRun { id, journal: journal.ok()? })
    });
    Ok(read.collect())
}

/// Removes lock files of processes that ended before they registered. Recent ones may belong to a process that is about
/// to.
pub(crate) fn remove_stray_locks(connection: &Connection, folder: &Path) -> Result<(), StoreError> {
    let Ok(files) = fs::read_dir(folder) else { return Ok(()) };
    let mut registered = connection.prepare("SELECT 1 FROM runs WHERE id = ?")?;
    for path in files.flatten().map(|file| file.path()) {
        let id = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".lock"));
        let Some(id) = id.and_then(|id| id.parse::<Uuid>().ok()) else { continue };
        if is_old(&path) && !registered.exists([id])? && !is_alive(&path) {
            // Another process may have removed it at the same time.
            let _gone = fs::remove_file(path);
        }
    }
    Ok(())
}

fn is_old(path: &Path) -> bool {
    let age =
        fs::metadata(path).and_then(|file| file.modified()).map(|modified| modified.elapsed().unwrap_or_default());
    age.is_ok_and(|age| STRAY_AFTER < age)
}

/// Forgets a process that no longer lives.
pub(crate) fn forget(connection: &Connection, run: Uuid) -> Result<(), StoreError> {
    connection.execute("DELETE FROM runs WHERE id = ?", [run])?;
    journal::forget(connection, run)
}

/// Whether a process is in the table.
pub(crate) fn is_registered(connection: &Connection, run: Uuid) -> Result<bool, StoreError> {
    Ok(connection.prepare_cached("SELECT 1 FROM runs WHERE id = ?")?.exists([run])?)
}

/// Whether a process holds its lock.
pub(crate) fn lives(folder: &Path, run: Uuid) -> bool {
    is_alive(&lock_path(folder, run))
}

/// Whether any process has its lock in this folder.
pub(crate) fn any_lives(folder: &Path) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    files.filter(|path| path.extension().is_some_and(|end| end == "lock")).any(|path| is_alive(&path))
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

/// A file that is missing belongs to a process that has ended; one that cannot be opened or locked is left alone. The lock
/// is shared, so that two processes that look at the same time do not take each other for its owner.
fn is_alive(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => file.try_lock_shared().is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use uuid::Uuid;

    use super::{lives, lock_new, lock_path};

    #[test]
    fn two_that_look_at_a_lock_at_once_do_not_take_each_other_for_its_owner() {
        let (folder, run) = (tempfile::tempdir().unwrap(), Uuid::now_v7());
        let owner = lock_new(folder.path(), run).unwrap();
        assert!(lives(folder.path(), run));
        drop(owner);
        let other = File::open(lock_path(folder.path(), run)).unwrap();
        other.lock_shared().unwrap();
        assert!(!lives(folder.path(), run));
    }
}
