//! The journal of a process: writes that were acknowledged before they were committed.
//!
//! Under load a call does not wait for a commit. Its record is appended to a file with one `write`, which survives the
//! end of the process as a commit does (not a power failure: with `store.sync: full` there is no journal), and is committed
//! with others some milliseconds later. There are two files. When the writer takes a batch, further records go to the
//! other file under the next generation; the transaction of the batch also stores its generation, and its file is emptied
//! afterwards. So a record of a process that was killed is either committed or in a file with a later generation, never
//! both. The next process that opens the store applies it (`runs.rs`, `write.rs`). A file that cannot be emptied would hide
//! later records behind its old generation: from then on this process appends no more, and calls wait for commits.

mod encoding;
mod reading;

use std::{
    fs::File,
    io::{self, Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OptionalExtension, params};
use toolway_config::ownership;
use uuid::Uuid;

pub(crate) use reading::{Left, has_records, read, remove_strays, settle};

use crate::{StoreError, write::Write};

/// Bytes of a record at most; a larger one waits for its commit.
const MAX_RECORD: usize = 64 * 1024;
/// Bytes of a file at most; beyond it, calls wait for a commit.
const MAX_FILE: usize = 8 * 1024 * 1024;
/// A commit that succeeded within this time shows that the store can be written.
const FRESH: Duration = Duration::from_secs(1);
/// Ends of calls within [`SPAN`] from which there is load: then a commit for several of them costs less than two for each.
const LOAD: u32 = 4;
const SPAN: Duration = Duration::from_millis(100);
/// Bytes before the records of a file: the version of its format in the first, the generation in the others.
const FILE_HEAD: usize = 8;
/// Version of the format. In version 0 a checksum was a part of a SHA-256 digest.
const FORMAT: u8 = 1;
/// Extension of a file that is kept because not all of it could be applied.
pub(crate) const CORRUPT: &str = "corrupt";

/// Appends records of this process.
#[derive(Debug)]
pub(crate) struct Journal {
    paths: [PathBuf; 2],
    /// Opened when they are first used; most processes have no load.
    files: [Option<Arc<File>>; 2],
    current: usize,
    generation: i64,
    length: usize,
    record: Vec<u8>,
    pace: Pace,
    /// When the last commit ended, if it succeeded.
    committed: Option<Instant>,
    /// Both files may have records that are not committed: there is no empty file to change to.
    is_full: bool,
    /// The file may end with a part of a record; nothing may follow it.
    is_torn: bool,
    /// A file could not be emptied; nothing is appended any more.
    is_stopped: bool,
}

/// Ends of calls in the present span of time and in the one before.
#[derive(Debug)]
struct Pace {
    since: Instant,
    now: u32,
    before: u32,
}

/// A file whose records are all in one batch.
#[derive(Debug)]
pub(crate) struct ClosedFile {
    pub(crate) generation: i64,
    file: Option<Arc<File>>,
}

impl Journal {
    pub(crate) fn new(folder: &Path, run: Uuid) -> Self {
        Self {
            paths: paths(folder, run),
            files: [None, None],
            current: 0,
            generation: 1,
            length: 0,
            record: Vec::new(),
            pace: Pace { since: Instant::now(), now: 0, before: 0 },
            committed: None,
            is_full: false,
            is_torn: false,
            is_stopped: false,
        }
    }

    /// Appends a record, if there is load and the store could be written a moment ago. Returns whether it did.
    pub(crate) fn append(&mut self, write: &Write) -> bool {
        if !matches!(write, Write::Call(..) | Write::CallEnd(..) | Write::Audit(_)) {
            return false;
        }
        let now = Instant::now();
        self.pace.count(now, u32::from(matches!(write, Write::CallEnd(..))));
        let is_fresh = self.committed.is_some_and(|committed| now.duration_since(committed) < FRESH);
        if !is_fresh
            || self.is_stopped
            || self.is_torn
            || !self.pace.is_load()
            || MAX_FILE < self.length
            || MAX_RECORD < encoding::bytes(write)
        {
            return false;
        }
        self.append_record(write).unwrap_or_else(|error| {
            tracing::warn!(%error, "the journal of the store cannot be written; calls wait for commits");
            self.is_torn = true;
            false
        })
    }

    /// Appends a record, unless it is too large. Returns whether it did.
    fn append_record(&mut self, write: &Write) -> io::Result<bool> {
        self.record.clear();
        if self.length == 0 {
            self.record.extend_from_slice(&head_of(self.generation));
        }
        encoding::encode(write, &mut self.record);
        if MAX_RECORD < self.record.len() {
            self.record = Vec::new();
            return Ok(false);
        }
        let slot = &mut self.files[self.current];
        let mut file: &File = match slot {
            Some(file) => file,
            None => slot.insert(Arc::new(open(&self.paths[self.current])?)),
        };
        file.write_all(&self.record)?;
        self.length += self.record.len();
        Ok(true)
    }

    /// Begins the next generation in the other file. All records of the present one must be in the batch that is taken.
    /// Returns `None` if there are none.
    pub(crate) fn close_file(&mut self) -> Option<ClosedFile> {
        if self.length == 0 && !self.is_torn && !self.is_full {
            return None;
        }
        let closed = ClosedFile { generation: self.generation, file: self.files[self.current].clone() };
        if !self.is_full {
            self.current = 1 - self.current;
            self.begin_generation();
        }
        Some(closed)
    }

    fn begin_generation(&mut self) {
        (self.length, self.is_torn) = (0, false);
        self.generation += 1;
    }

    /// The batch of the closed file was committed, and everything before it; the file is empty.
    pub(crate) fn mark_committed(&mut self) {
        if self.is_full {
            self.begin_generation();
        }
        (self.committed, self.is_full) = (Some(Instant::now()), false);
    }

    /// The batch of the closed file was not committed. Until one is, calls wait.
    pub(crate) fn mark_failed(&mut self) {
        (self.committed, self.is_full) = (None, true);
    }

    /// A closed file could not be emptied. Calls wait for commits as long as this process lives.
    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
    }
}

impl ClosedFile {
    /// Empties the file after the commit of its batch. The next record is written at its beginning.
    pub(crate) fn empty(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut file: &File = file;
        file.set_len(0)?;
        file.rewind()
    }
}

impl Pace {
    fn count(&mut self, now: Instant, ends: u32) {
        let age = now.duration_since(self.since);
        if SPAN < age {
            self.before = if age < 2 * SPAN { self.now } else { 0 };
            (self.since, self.now) = (now, 0);
        }
        self.now += ends;
    }

    fn is_load(&self) -> bool {
        LOAD <= self.now.max(self.before)
    }
}

/// Stores up to which generation everything of a process is committed, inside the caller's transaction.
pub(crate) fn mark_applied(connection: &Connection, run: Uuid, generation: i64) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached("INSERT OR REPLACE INTO journals VALUES (?, ?)")?;
    statement.execute(params![run, generation])?;
    Ok(())
}

/// The generation up to which everything of a process is committed.
pub(crate) fn applied(connection: &Connection, run: Uuid) -> Result<i64, StoreError> {
    let mut statement = connection.prepare_cached("SELECT generation FROM journals WHERE run = ?")?;
    Ok(statement.query_row([run], |row| row.get(0)).optional()?.unwrap_or_default())
}

/// Forgets a process.
pub(crate) fn forget(connection: &Connection, run: Uuid) -> Result<(), StoreError> {
    connection.execute("DELETE FROM journals WHERE run = ?", [run])?;
    Ok(())
}

/// Removes the files of a process, except those that are damaged, which are renamed.
pub(crate) fn remove(folder: &Path, run: Uuid, damaged: &[PathBuf]) {
    for path in paths(folder, run) {
        // It may never have existed, or another process removed it.
        let _gone = if damaged.contains(&path) {
            std::fs::rename(&path, path.with_added_extension(CORRUPT))
        } else {
            std::fs::remove_file(path)
        };
    }
}

/// The head of a file.
fn head_of(generation: i64) -> [u8; FILE_HEAD] {
    let mut head = generation.to_be_bytes();
    head[0] = FORMAT;
    head
}

/// The generation of a file; `None` if another version of the program wrote it.
fn generation_in(mut head: [u8; FILE_HEAD]) -> Option<i64> {
    (std::mem::take(&mut head[0]) == FORMAT).then(|| i64::from_be_bytes(head))
}

fn paths(folder: &Path, run: Uuid) -> [PathBuf; 2] {
    ["a", "b"].map(|letter| folder.join(format!("{run}.journal-{letter}")))
}

/// Not for appending: on Windows, that excludes emptying the file.
fn open(path: &Path) -> io::Result<File> {
    ownership::private_write_options().create(true).truncate(true).open(path)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        path::Path,
        sync::Arc,
        time::{Duration, Instant},
    };

    use uuid::Uuid;

    use super::{Journal, LOAD, MAX_RECORD, paths, read};
    use crate::{audit::AuditEvent, write::Write};

    /// A journal under load that never ends, after a commit.
    fn journal(folder: &Path, run: Uuid) -> Journal {
        let mut journal = Journal::new(folder, run);
        journal.pace.count(Instant::now() + Duration::from_secs(3_600), LOAD);
        journal.committed = Some(Instant::now() + Duration::from_secs(3_600));
        journal
    }

    fn event(subject: String) -> Write {
        let event = AuditEvent { kind: crate::audit::kind::KEY, subject: Some(subject), ..AuditEvent::default() };
        Write::Audit(Box::new(event))
    }

    #[test]
    fn an_emptied_file_begins_with_its_next_generation() {
        let (folder, run) = (tempfile::tempdir().unwrap(), Uuid::now_v7());
        let mut journal = journal(folder.path(), run);
        for generation in 1..=4 {
            assert!(journal.append(&event("a".to_owned())) && journal.append(&event("b".to_owned())));
            let left = read(folder.path(), run).unwrap();
            let found: Vec<_> = left.generations.iter().map(|(number, writes)| (*number, writes.len())).collect();
            assert_eq!((found, left.damaged.len()), (vec![(generation, 2)], 0));
            journal.close_file().unwrap().empty().unwrap();
        }
    }

    #[test]
    fn a_file_of_another_version_is_kept_and_not_read() {
        let (folder, run) = (tempfile::tempdir().unwrap(), Uuid::now_v7());
        assert!(journal(folder.path(), run).append(&event("a".to_owned())));
        let [path, _] = paths(folder.path(), run);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[0] = 0;
        std::fs::write(&path, bytes).unwrap();
        let left = read(folder.path(), run).unwrap();
        assert_eq!((left.generations.len(), left.damaged), (0, vec![path]));
    }

    #[test]
    fn after_a_file_that_cannot_be_emptied_nothing_is_appended() {
        let (folder, run) = (tempfile::tempdir().unwrap(), Uuid::now_v7());
        let mut journal = journal(folder.path(), run);
        assert!(journal.append(&event("a".to_owned())));
        // A file that is open for reading cannot be emptied.
        journal.files[0] = Some(Arc::new(File::open(&paths(folder.path(), run)[0]).unwrap()));
        journal.close_file().unwrap().empty().unwrap_err();
        journal.stop();
        for _ in 0..3 {
            journal.mark_committed();
            assert!(!journal.append(&event("b".to_owned())));
        }
        assert_eq!(read(folder.path(), run).unwrap().generations.len(), 1);
    }

    #[test]
    fn a_record_whose_small_parts_are_large_waits_for_its_commit() {
        let (folder, run) = (tempfile::tempdir().unwrap(), Uuid::now_v7());
        let mut journal = journal(folder.path(), run);
        assert!(!journal.append(&event("x".repeat(MAX_RECORD))));
        assert!(journal.append(&event("x".repeat(MAX_RECORD / 2))));
        assert_eq!(read(folder.path(), run).unwrap().generations[0].1.len(), 1);
    }
}
