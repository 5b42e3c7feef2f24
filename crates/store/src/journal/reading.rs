//! Reads the journals of other processes: of those that have ended, to apply them, and of living ones, to wait for them.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::Connection;
use uuid::Uuid;

use super::{encoding, paths};
use crate::{StoreError, runs, write::Write};

/// How long a reader waits for commits of living processes.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two looks at a journal.
const LOOK: Duration = Duration::from_millis(1);

/// What is left in the journal of a process: writes by generation, oldest first.
pub(crate) fn read(folder: &Path, run: Uuid) -> Vec<(i64, Vec<Write>)> {
    let files = paths(folder, run).into_iter().filter_map(|path| {
        let bytes = fs::read(path).ok()?;
        let (generation, records) = bytes.split_first_chunk()?;
        Some((i64::from_be_bytes(*generation), encoding::decode(records)))
    });
    let mut generations: Vec<_> = files.collect();
    generations.sort_by_key(|(generation, _)| *generation);
    generations
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

/// Waits until what living processes have acknowledged is committed. Returns whether a process that has ended left
/// records, which have to be applied.
pub(crate) fn settle(folder: &Path) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let mut is_left = false;
    for (path, run) in files(folder) {
        let Some(generation) = generation_of(&path) else { continue };
        while generation_of(&path) == Some(generation) && Instant::now() < deadline {
            if !runs::lives(folder, run) {
                is_left = true;
                break;
            }
            std::thread::sleep(LOOK);
        }
    }
    is_left
}

/// The journal files in a folder, with their processes.
fn files(folder: &Path) -> impl Iterator<Item = (PathBuf, Uuid)> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    files.filter_map(|path| {
        let name = path.file_name()?.to_str()?;
        let run = name.split_once(".journal-")?.0.parse().ok()?;
        Some((path, run))
    })
}

/// The generation of the records in a file; `None` if it has none.
fn generation_of(path: &Path) -> Option<i64> {
    let mut generation = [0; 8];
    File::open(path).and_then(|mut file| file.read_exact(&mut generation)).ok()?;
    Some(i64::from_be_bytes(generation))
}
