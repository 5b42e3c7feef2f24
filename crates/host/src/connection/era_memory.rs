//! Which era each server speaks, kept on disk between runs.
//!
//! One small JSON file that several processes share ([`crate::state_file`] says how), so that nobody loses what another
//! wrote. It is a memory and not a record: a file that is missing, broken or too large is an empty one. What is found
//! out, and when it turns out wrong, is decided in [`toolway_wire::up`].
//!
//! Of those in one process who have something to write at the same time, one writes for all, and the others go on: a server
//! is not listed later because fifty are started with it.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use toolway_wire::{
    revision::Era,
    seal::fingerprint,
    up::{EraMemory, Found, transport::Manner},
};
use url::Url;

use super::stdio::Program;
use crate::state_file::StateFile;

/// The memory in one file. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct DiskEraMemory {
    file: StateFile,
    // Nothing is read or written under this lock.
    unwritten: Arc<Mutex<Unwritten>>,
}

/// What is to be written: what is known of a server now, or that nothing is.
#[derive(Debug, Default)]
struct Unwritten {
    changes: BTreeMap<String, Option<Entry>>,
    /// What somebody is writing at this moment.
    under_way: Option<BTreeMap<String, Option<Entry>>>,
}

/// A larger file is not ours.
const FILE_BYTES: usize = 4 * 1024 * 1024;
/// A memory this full is begun anew: nobody has that many servers, but somebody may have a script that makes some.
const ENTRIES: usize = 4_096;

/// The key of a program: its command, arguments and directory. Variables are no part of it; they hold secrets.
pub fn process_key(program: &Program) -> String {
    let directory = program.directory.as_ref().map(|directory| directory.as_os_str().as_encoded_bytes());
    let place = [&b"process"[..], if directory.is_some() { b"in" } else { b"here" }, directory.unwrap_or_default()];
    let words = [&program.command].into_iter().chain(&program.arguments).map(String::as_bytes);
    fingerprint(place.into_iter().chain(words))
}

/// The key of an address.
pub fn address_key(url: &Url) -> String {
    fingerprint([&b"address"[..], url.as_str().as_bytes()])
}

/// The file: what is known of each server, by key.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    servers: BTreeMap<String, Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Entry {
    /// No session.
    Stateless,
    /// A session; over HTTP, its one endpoint.
    Session,
    /// The two endpoints of the oldest revision.
    EventStream,
}

// === impl DiskEraMemory ===

impl DiskEraMemory {
    /// The memory at `path`; the file and its folder are made when there is something to remember.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { file: StateFile::at(path, FILE_BYTES), unwritten: Arc::default() }
    }

    fn read(&self) -> Known {
        let text = self.file.read().ok().flatten().unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Sees to it that this is written: by whoever writes already, or now, together with what others want meanwhile.
    fn change(&self, key: &str, entry: Option<Entry>) {
        let mut unwritten = self.unwritten.lock();
        unwritten.changes.insert(key.to_owned(), entry);
        if unwritten.under_way.is_some() {
            return;
        }
        while !unwritten.changes.is_empty() {
            let changes = std::mem::take(&mut unwritten.changes);
            unwritten.under_way = Some(changes.clone());
            MutexGuard::unlocked(&mut unwritten, || self.write(changes));
        }
        unwritten.under_way = None;
    }

    fn write(&self, changes: BTreeMap<String, Option<Entry>>) {
        if let Err(error) = self.written(changes) {
            tracing::debug!(%error, path = %self.file.path().display(), "the era of a server is not remembered");
        }
    }

    /// Reads, changes and writes while nobody else does. Changes that change nothing are not written.
    fn written(&self, changes: BTreeMap<String, Option<Entry>>) -> io::Result<()> {
        let lock = self.file.lock()?;
        let mut known = self.read();
        let mut changed = false;
        for (key, entry) in changes {
            changed |= match entry {
                Some(entry) => known.keep(key, entry),
                None => known.servers.remove(&key).is_some(),
            };
        }
        if changed { self.file.replace(&lock, &serde_json::to_vec(&known)?) } else { Ok(()) }
    }
}

impl EraMemory for DiskEraMemory {
    fn recall(&self, key: &str) -> Option<Found> {
        let unwritten = self.unwritten.lock().of(key);
        let known = unwritten.unwrap_or_else(|| self.read().servers.get(key).copied());
        known.map(Entry::found)
    }

    fn remember(&self, key: &str, found: Found) {
        // Most of the time it is known already, and then nobody needs the lock.
        if self.recall(key) != Some(found) {
            self.change(key, Some(Entry::of(found)));
        }
    }

    fn forget(&self, key: &str) {
        self.change(key, None);
    }
}

// === impl Unwritten ===

impl Unwritten {
    /// What is to be written of a server, if anything is.
    fn of(&self, key: &str) -> Option<Option<Entry>> {
        let under_way = || self.under_way.as_ref().and_then(|changes| changes.get(key));
        self.changes.get(key).or_else(under_way).copied()
    }
}

// === impl Known ===

impl Known {
    /// Keeps it; whether that is new.
    fn keep(&mut self, key: String, entry: Entry) -> bool {
        if ENTRIES <= self.servers.len() {
            self.servers.clear();
        }
        self.servers.insert(key, entry) != Some(entry)
    }
}

// === impl Entry ===

impl Entry {
    fn of(found: Found) -> Self {
        match (found.era, found.manner) {
            (Era::Modern, _) => Self::Stateless,
            (Era::Legacy, Manner::EventStream) => Self::EventStream,
            (Era::Legacy, Manner::Session | Manner::Stateless) => Self::Session,
        }
    }

    fn found(self) -> Found {
        match self {
            Self::Stateless => Found { era: Era::Modern, manner: Manner::Stateless },
            Self::Session => Found { era: Era::Legacy, manner: Manner::Session },
            Self::EventStream => Found { era: Era::Legacy, manner: Manner::EventStream },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use toolway_wire::{
        revision::Era,
        up::{EraMemory, Found, transport::Manner},
    };

    use super::{DiskEraMemory, ENTRIES, Entry, address_key, process_key};
    use crate::connection::stdio::Program;

    const SESSION: Found = Found { era: Era::Legacy, manner: Manner::Session };
    const OLDEST: Found = Found { era: Era::Legacy, manner: Manner::EventStream };
    const STATELESS: Found = Found { era: Era::Modern, manner: Manner::Stateless };

    fn memory(folder: &tempfile::TempDir) -> DiskEraMemory {
        DiskEraMemory::at(folder.path().join("state/toolway/eras.json"))
    }

    #[test]
    fn what_is_remembered_is_recalled_by_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        for (key, found) in [("a", SESSION), ("b", OLDEST), ("c", STATELESS)] {
            assert_eq!(memory(&folder).recall(key), None);
            memory(&folder).remember(key, found);
            assert_eq!(memory(&folder).recall(key), Some(found));
        }
        memory(&folder).remember("a", STATELESS);
        memory(&folder).forget("b");
        assert_eq!(["a", "b", "c"].map(|key| memory(&folder).recall(key)), [Some(STATELESS), None, Some(STATELESS)]);
    }

    #[test]
    fn a_broken_file_is_an_empty_one_and_is_mended() {
        let folder = tempfile::tempdir().unwrap();
        memory(&folder).remember("a", SESSION);
        for broken in ["", "{", "[]", r#"{"servers":{"a":"from-the-future"}}"#, "\u{0}"] {
            fs::write(memory(&folder).file.path(), broken).unwrap();
            assert_eq!(memory(&folder).recall("a"), None, "{broken}");
            memory(&folder).remember("b", SESSION);
            assert_eq!(memory(&folder).recall("b"), Some(SESSION), "{broken}");
        }
    }

    #[test]
    fn writers_do_not_lose_each_others_entries() {
        let folder = tempfile::tempdir().unwrap();
        let keys = |writer: usize| (0..20).map(move |number| format!("{writer}/{number}"));
        thread::scope(|scope| {
            for writer in 0..4 {
                let memory = memory(&folder);
                scope.spawn(move || keys(writer).for_each(|key| memory.remember(&key, SESSION)));
            }
        });
        let known = memory(&folder).read();
        assert_eq!(known.servers.len(), 80);
    }

    /// Many servers that are started together find out at the same moment: one of them writes for all.
    #[test]
    fn whoever_comes_while_another_writes_goes_on_and_is_written_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let memory = memory(&folder);
        memory.remember("gone", SESSION);
        let lock = memory.file.lock().unwrap();
        thread::scope(|scope| {
            let first = scope.spawn(|| memory.remember("first", SESSION));
            while memory.unwritten.lock().under_way.is_none() {
                thread::yield_now();
            }
            // The lock is held for as long as this takes, so that none of them waits for it.
            (0..50).for_each(|number| memory.remember(&number.to_string(), STATELESS));
            memory.forget("gone");
            let recalled = ["first", "49", "gone"].map(|key| memory.recall(key));
            assert_eq!(recalled, [Some(SESSION), Some(STATELESS), None], "what is not written yet is known");
            assert!(!first.is_finished());
            drop(lock);
        });
        let known = super::tests::memory(&folder).read().servers;
        assert_eq!((known.len(), known.contains_key("gone")), (51, false));
    }

    #[test]
    fn a_memory_that_cannot_be_written_or_locked_is_done_without() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("state"), "a file where a folder should be").unwrap();
        memory(&folder).remember("a", SESSION);
        assert_eq!(memory(&folder).recall("a"), None);

        let folder = tempfile::tempdir().unwrap();
        let lock = memory(&folder).file.lock().unwrap();
        memory(&folder).remember("a", SESSION);
        assert_eq!(memory(&folder).recall("a"), None);
        drop(lock);
        memory(&folder).remember("a", SESSION);
        assert_eq!(memory(&folder).recall("a"), Some(SESSION));
    }

    #[test]
    fn a_full_memory_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        memory(&folder).write((0..ENTRIES).map(|number| (number.to_string(), Some(Entry::Session))).collect());
        assert_eq!(memory(&folder).read().servers.len(), ENTRIES);
        memory(&folder).remember("one more", STATELESS);
        assert_eq!(memory(&folder).read().servers.len(), 1);
    }

    #[test]
    fn every_part_of_a_program_counts_except_its_variables() {
        let program = Program { arguments: vec!["-y".into(), "server".into()], ..Program::new("npx") };
        let same = Program { variables: [("KEY".into(), "secret".into())].into(), ..program.clone() };
        assert_eq!(process_key(&program), process_key(&same));
        let others = [
            Program { command: "npx -y".into(), arguments: vec!["server".into()], ..program.clone() },
            Program { arguments: vec!["-y server".into()], ..program.clone() },
            Program { directory: Some("server".into()), arguments: vec!["-y".into()], ..program.clone() },
            Program { directory: Some(String::new().into()), ..program.clone() },
        ];
        for other in others {
            assert_ne!(process_key(&program), process_key(&other), "{other:?}");
        }
        let address = |text: &str| address_key(&text.parse().unwrap());
        assert_ne!(address("https://example.org/mcp"), address("https://example.org/sse"));
    }
}
