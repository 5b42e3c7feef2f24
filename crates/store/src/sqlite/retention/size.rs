//! Bytes of the database and of the files beside it: logs, journals, and corrupt files that were set aside.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use rusqlite::Connection;

use crate::{StoreError, database, journal};

/// Bytes of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// Pages in use.
    pub data: u64,
    /// Pages of the database file that are free.
    pub free: u64,
    /// The WAL, its index, and the journals of processes.
    pub logs: u64,
    /// Corrupt files that were set aside.
    pub set_aside: u64,
    /// Number of corrupt databases and journals that were set aside.
    pub set_aside_files: u64,
}

/// A corrupt file with everything that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetAside {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) modified: SystemTime,
}

impl StoreSize {
    /// Everything but pages that are free.
    pub fn used(&self) -> u64 {
        self.data + self.logs + self.set_aside
    }

    /// Bytes of all files.
    pub fn total(&self) -> u64 {
        self.used() + self.free
    }

    pub(crate) fn measure(connection: &Connection) -> Result<Self, StoreError> {
        let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let bytes = |pages: i64, size: i64| u64::try_from(pages * size).unwrap_or_default();
        let (pages, free, size) = (pragma("page_count")?, pragma("freelist_count")?, pragma("page_size")?);
        let mut measured = Self { data: bytes(pages - free, size), free: bytes(free, size), ..Self::default() };
        if let Some(path) = path(connection) {
            let logs = ["-wal", "-shm"].map(|suffix| length(&database::suffixed(&path, suffix)));
            let journals = files(&database::lock_folder(&path)).filter(|file| !is_damaged(file));
            measured.logs = logs.into_iter().chain(journals.map(|file| length(&file))).sum();
            let set_aside = set_aside(&path);
            measured.set_aside = set_aside.iter().map(|file| file.bytes).sum();
            measured.set_aside_files = set_aside.len() as u64;
        }
        Ok(measured)
    }
}

/// The file of a connection; `None` in memory.
pub(super) fn path(connection: &Connection) -> Option<PathBuf> {
    let path = connection.path().filter(|path| !path.is_empty())?;
    Some(PathBuf::from(path)).filter(|path| path.is_absolute())
}

/// Corrupt databases and journals, oldest first.
pub(super) fn set_aside(path: &Path) -> Vec<SetAside> {
    let databases = database::set_aside_files(path).into_iter().map(|path| {
        let parts = database::PARTS.map(|part| database::suffixed(&path, part));
        let bytes = parts.iter().map(|part| if part.is_dir() { folder_bytes(part) } else { length(part) }).sum();
        SetAside { bytes, modified: modified(&path), path }
    });
    let journals = files(&database::lock_folder(path)).filter(|file| is_damaged(file));
    let journals = journals.map(|path| SetAside { bytes: length(&path), modified: modified(&path), path });
    let mut found: Vec<SetAside> = databases.chain(journals).collect();
    found.sort_by_key(|file| file.modified);
    found
}

/// Removes a corrupt file with everything that belongs to it. What cannot be removed is tried again later.
pub(super) fn remove(path: &Path) {
    for part in database::PARTS {
        let path = database::suffixed(path, part);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        if let Err(error) = removed
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::error!(%error, path = %path.display(), "a corrupt file of the store cannot be removed");
        }
    }
}

/// The files of these that are still there.
pub(super) fn remaining(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().filter(|path| fs::symlink_metadata(path).is_ok()).cloned().collect()
}

/// Whether a file is a journal that could not be read as a whole.
fn is_damaged(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == journal::CORRUPT)
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path())
}

fn folder_bytes(folder: &Path) -> u64 {
    files(folder).map(|file| length(&file)).sum()
}

fn length(path: &Path) -> u64 {
    fs::symlink_metadata(path).map_or(0, |file| file.len())
}

fn modified(path: &Path) -> SystemTime {
    fs::symlink_metadata(path).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}
