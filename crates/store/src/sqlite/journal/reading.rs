//! Reads the journals of other processes: of those that have ended, to apply them, and of living ones, to wait for them.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::Connection;
use uuid::Uuid;

use super::{FILE_HEAD, MAX_FILE, applied, encoding, generation_in, paths};
use crate::{StoreError, runs, write::Write};

/// How long a reader waits for commits of living processes.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two looks at a journal.
const LOOK: Duration = Duration::from_millis(1);
/// Bytes of a file that are read. None that was written here has so many.
const MAX_READ: usize = 2 * MAX_FILE;

/// What is left in the journal of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Left {
    /// Writes by generation, oldest first.
    pub(crate) generations: Vec<(i64, Vec<Write>)>,
    /// Files with bytes that could not be read as records.
    pub(crate) damaged: Vec<PathBuf>,
}

/// Reads what is left in the journal of a process. A missing file has no records. Fails if a file cannot be read.
pub(crate) fn read(folder: &Path, run: Uuid) -> Result<Left, StoreError> {
    let mut left = Left::default();
    for path in paths(folder, run) {
        let bytes = match read_file(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(StoreError::file(path, error)),
        };
        let Some((head, records)) = bytes.split_first_chunk() else { continue };
        let Some(generation) = generation_in(*head) else {
            tracing::error!(
                path = %path.display(),
                "a journal of the store was written by another version of the program and cannot be read; it is kept with \
                 the extension `.corrupt`"
            );
            left.damaged.push(path);
            continue;
        };
        let mut decoded = encoding::decode(records);
        if MAX_READ < bytes.len() {
            decoded.damaged = decoded.damaged.max(1);
        }
        left.generations.push((generation, decoded.writes));
        let (bytes, unknown) = (decoded.damaged, decoded.unknown);
        if 0 < bytes || 0 < unknown {
            tracing::error!(
                path = %path.display(), damaged_bytes = bytes, unknown_records = unknown,
                "a journal of the store cannot be read as a whole; it is kept with the extension `.corrupt`"
            );
            left.damaged.push(path);
        }
    }
    left.generations.sort_by_key(|(generation, _)| *generation);
    Ok(left)
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(MAX_READ as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file; opening another kind may wait for ever.
fn open(path: &Path) -> io::Result<File> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    File::open(path)
}

/// Removes files of processes that are not registered: what was in them is committed.
pub(crate) fn remove_strays(connection: &Connection, folder: &Path) -> Result<(), StoreError> {
    for (path, run) in files(folder) {
        if !runs::is_registered(connection, run)? && !runs::lives(folder, run) {
            // Another process may have removed it at the same time.
            let _gone = fs::remove_file(path);
        }
    }
    Ok(())
}

/// Waits until what living processes have acknowledged is committed. Returns the processes that have ended and left
/// records, which have to be applied.
pub(crate) fn settle(connection: &Connection, folder: &Path) -> Vec<Uuid> {
    let deadline = Instant::now() + PATIENCE;
    let mut left = Vec::new();
    for (path, run) in files(folder) {
        let Some(generation) = generation_of(&path).transpose() else { continue };
        // One that cannot be read has to be applied, or never changes.
        let generation = generation.ok();
        while generation_of(&path).ok().flatten() == generation {
            if !runs::lives(folder, run) {
                left.push(run);
                break;
            }
            // A file that could not be emptied keeps its generation.
            if generation.is_some_and(|generation| applied(connection, run).is_ok_and(|applied| generation <= applied))
            {
                break;
            }
            if deadline <= Instant::now() {
                tracing::warn!(
                    path = %path.display(),
                    "a process did not commit its records in time; the answer may lack its last calls"
                );
                break;
            }
            std::thread::sleep(LOOK);
        }
    }
    left
}

/// Whether a process left records in a folder, or files that cannot be read.
pub(crate) fn has_records(folder: &Path) -> bool {
    files(folder).any(|(path, _)| !matches!(generation_of(&path), Ok(None)))
}

/// The journal files in a folder, with their processes.
fn files(folder: &Path) -> impl Iterator<Item = (PathBuf, Uuid)> {
    let entries = fs::read_dir(folder).inspect_err(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::error!(%error, path = %folder.display(), "the journals of the store cannot be listed");
        }
    });
    let files = entries.into_iter().flatten().flatten().map(|file| file.path());
    files.filter_map(|path| {
        let name = path.file_name()?.to_str()?;
        let (run, letter) = name.split_once(".journal-")?;
        let run = run.parse().ok().filter(|_| matches!(letter, "a" | "b"))?;
        Some((path, run))
    })
}

/// The generation of the records in a file; `None` if it has none. Fails if another version of the program wrote it.
fn generation_of(path: &Path) -> io::Result<Option<i64>> {
    let mut head = [0; FILE_HEAD];
    match open(path).and_then(|mut file| file.read_exact(&mut head)) {
        Ok(()) => generation_in(head).map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => Ok(None),
        Err(error) => Err(error),
    }
}
