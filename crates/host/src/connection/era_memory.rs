//! A cache on disk of the protocol era of each server.
//!
//! One small JSON file, shared by several processes without lost updates (see [`crate::state_file`]). A file that is
//! missing, invalid or too large counts as empty. [`toolway_wire::up`] detects eras, and decides when an entry is wrong.
//!
//! Concurrent writes within one process are batched: one thread writes for all, and the others continue, so that a server
//! is not delayed by others that start with it.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use toolway_wire::{
    revision::Era,
    seal::fingerprint,
    up::{DetectedProtocol, EraMemory, SessionSupport, transport::HttpMode},
};
use url::Url;

use super::stdio::Program;
use crate::state_file::StateFile;

/// The cache in one file. Clones share it.
#[derive(Clone, Debug)]
pub struct DiskEraMemory {
    file: StateFile,
    // Nothing is read or written under this lock.
    unwritten: Arc<Mutex<Unwritten>>,
}

/// Changes not written yet, by key; `None` removes the entry.
#[derive(Debug, Default)]
struct Unwritten {
    changes: BTreeMap<String, Option<EraEntry>>,
    /// Changes being written at the moment.
    in_progress: Option<BTreeMap<String, Option<EraEntry>>>,
}

/// Size limit of the file.
const FILE_BYTES: usize = 4 * 1024 * 1024;
/// At this number of entries the cache is cleared.
const ENTRIES: usize = 4_096;

/// How long an era that was concluded from silence is used before it is checked again. A server that never answers an
/// unknown method costs one probe timeout each time.
const SUPPOSED_FOR: Duration = Duration::from_secs(24 * 3_600);

/// How long a server counts as one without sessions before that is tried again.
const ABSENT_FOR: Duration = Duration::from_secs(24 * 3_600);
/// Tools of one server that are remembered as asking by their results.
const TOOLS: usize = 256;

/// The key of a program: its command, arguments and directory, without variables, which may hold secrets.
pub fn process_key(program: &Program) -> String {
    let directory = program.directory.as_ref().map(|directory| directory.as_os_str().as_encoded_bytes());
    let place = [&b"process"[..], if directory.is_some() { b"in" } else { b"here" }, directory.unwrap_or_default()];
    let parts = [&program.command].into_iter().chain(&program.arguments).map(String::as_bytes);
    fingerprint(place.into_iter().chain(parts))
}

/// The key of a URL.
pub fn address_key(url: &Url) -> String {
    fingerprint([&b"address"[..], url.as_str().as_bytes()])
}

/// Content of the file: the era of each server, by key.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    servers: BTreeMap<String, EraEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum EraEntry {
    /// Modern era; whether the server has sessions too is not known.
    Stateless,
    /// Modern era, and sessions for callers that answer server requests.
    Both {
        /// Tools that can ask only without a session.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        by_result: Vec<String>,
    },
    /// Modern era without sessions. Tried again after `until`, in seconds since 1970.
    StatelessOnly {
        until: u64,
    },
    /// Legacy era with sessions; over HTTP, streamable HTTP.
    Session,
    /// Legacy era over HTTP+SSE.
    EventStream,
    /// The same, concluded from silence: the server may only have been slow to start. Checked again after `until`, in
    /// seconds since 1970.
    SupposedSession {
        until: u64,
    },
    SupposedEventStream {
        until: u64,
    },
}

// === impl DiskEraMemory ===

impl DiskEraMemory {
    /// The cache at `path`; the file and its folder are created on first use.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { file: StateFile::at(path, FILE_BYTES), unwritten: Arc::default() }
    }

    /// The entry of a key, unless it has expired.
    fn entry(&self, key: &str) -> Option<EraEntry> {
        let unwritten = self.unwritten.lock().of(key);
        let known = unwritten.unwrap_or_else(|| self.read().servers.get(key).cloned());
        known.filter(|entry| entry.is_valid(now()))
    }

    fn read(&self) -> Known {
        let text = self.file.read().ok().flatten().unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Writes a change: by the thread that is writing already, or now, together with changes that arrive meanwhile.
    fn change(&self, key: &str, entry: Option<EraEntry>) {
        let mut unwritten = self.unwritten.lock();
        unwritten.changes.insert(key.to_owned(), entry);
        if unwritten.in_progress.is_some() {
            return;
        }
        while !unwritten.changes.is_empty() {
            let changes = std::mem::take(&mut unwritten.changes);
            unwritten.in_progress = Some(changes.clone());
            MutexGuard::unlocked(&mut unwritten, || self.write(changes));
        }
        unwritten.in_progress = None;
    }

    fn write(&self, changes: BTreeMap<String, Option<EraEntry>>) {
        if let Err(error) = self.try_write(changes) {
            tracing::debug!(%error, path = %self.file.path().display(), "cannot store the era of a server");
        }
    }

    /// Reads, changes and writes the file under its lock. Without an effective change, nothing is written.
    fn try_write(&self, changes: BTreeMap<String, Option<EraEntry>>) -> io::Result<()> {
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
    fn recall(&self, key: &str) -> Option<DetectedProtocol> {
        self.entry(key).map(|entry| entry.found())
    }

    fn session_support(&self, key: &str) -> SessionSupport {
        match self.entry(key) {
            Some(EraEntry::Both { .. }) => SessionSupport::Offered,
            Some(EraEntry::StatelessOnly { until }) if now() < until => SessionSupport::Absent,
            _ => SessionSupport::Unknown,
        }
    }

    fn remember_sessions(&self, key: &str, support: SessionSupport) {
        if self.session_support(key) != support {
            let entry = match support {
                SessionSupport::Unknown => EraEntry::Stateless,
                SessionSupport::Offered => EraEntry::Both { by_result: Vec::new() },
                SessionSupport::Absent => EraEntry::StatelessOnly { until: now() + ABSENT_FOR.as_secs() },
            };
            self.change(key, Some(entry));
        }
    }

    fn tools_asking_by_result(&self, key: &str) -> Vec<String> {
        match self.entry(key) {
            Some(EraEntry::Both { by_result }) => by_result,
            _ => Vec::new(),
        }
    }

    fn remember_asking_by_result(&self, key: &str, tool: &str) {
        let mut by_result = self.tools_asking_by_result(key);
        if by_result.len() < TOOLS && !by_result.iter().any(|known| known == tool) {
            by_result.push(tool.to_owned());
            self.change(key, Some(EraEntry::Both { by_result }));
        }
    }

    fn remember(&self, key: &str, found: DetectedProtocol) {
        // Usually the entry exists, and no lock is needed.
        if self.recall(key) != Some(found) {
            self.change(key, Some(EraEntry::of(found)));
        }
    }

    fn suppose(&self, key: &str, found: DetectedProtocol) {
        let until = now() + SUPPOSED_FOR.as_secs();
        match EraEntry::of(found) {
            EraEntry::Session => self.change(key, Some(EraEntry::SupposedSession { until })),
            EraEntry::EventStream => self.change(key, Some(EraEntry::SupposedEventStream { until })),
            // A stateless server is probed in any case.
            _ => {}
        }
    }

    fn forget(&self, key: &str) {
        self.change(key, None);
    }
}

// === impl Unwritten ===

impl Unwritten {
    /// The unwritten change of a key, if any.
    fn of(&self, key: &str) -> Option<Option<EraEntry>> {
        let in_progress = || self.in_progress.as_ref().and_then(|changes| changes.get(key));
        self.changes.get(key).or_else(in_progress).cloned()
    }
}

// === impl Known ===

impl Known {
    /// Inserts an entry; returns whether it changed.
    fn keep(&mut self, key: String, entry: EraEntry) -> bool {
        if ENTRIES <= self.servers.len() {
            self.servers.clear();
        }
        let changed = self.servers.get(&key) != Some(&entry);
        self.servers.insert(key, entry);
        changed
    }
}

// === impl EraEntry ===

impl EraEntry {
    /// Whether the entry has not expired.
    fn is_valid(&self, now: u64) -> bool {
        match self {
            Self::SupposedSession { until } | Self::SupposedEventStream { until } => now < *until,
            Self::Stateless | Self::Both { .. } | Self::StatelessOnly { .. } | Self::Session | Self::EventStream => {
                true
            }
        }
    }

    fn of(found: DetectedProtocol) -> Self {
        match (found.era, found.http_mode) {
            (Era::Modern, _) => Self::Stateless,
            (Era::Legacy, HttpMode::EventStream) => Self::EventStream,
            (Era::Legacy, HttpMode::Session | HttpMode::Stateless) => Self::Session,
        }
    }

    fn found(&self) -> DetectedProtocol {
        match self {
            Self::Stateless | Self::Both { .. } | Self::StatelessOnly { .. } => {
                DetectedProtocol { era: Era::Modern, http_mode: HttpMode::Stateless }
            }
            Self::Session | Self::SupposedSession { .. } => {
                DetectedProtocol { era: Era::Legacy, http_mode: HttpMode::Session }
            }
            Self::EventStream | Self::SupposedEventStream { .. } => {
                DetectedProtocol { era: Era::Legacy, http_mode: HttpMode::EventStream }
            }
        }
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use toolway_wire::{
        revision::Era,
        up::{DetectedProtocol, EraMemory, SessionSupport, transport::HttpMode},
    };

    use super::{DiskEraMemory, ENTRIES, EraEntry, address_key, process_key};
    use crate::connection::stdio::Program;

    const SESSION: DetectedProtocol = DetectedProtocol { era: Era::Legacy, http_mode: HttpMode::Session };
    const OLDEST: DetectedProtocol = DetectedProtocol { era: Era::Legacy, http_mode: HttpMode::EventStream };
    const STATELESS: DetectedProtocol = DetectedProtocol { era: Era::Modern, http_mode: HttpMode::Stateless };

    fn memory(folder: &tempfile::TempDir) -> DiskEraMemory {
        DiskEraMemory::at(folder.path().join("state/toolway/eras.json"))
    }

    #[test]
    fn eras_are_recalled_by_the_next_process() {
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
    fn era_concluded_from_silence_expires() {
        let folder = tempfile::tempdir().unwrap();
        let memory = memory(&folder);
        for (key, found) in [("a", SESSION), ("b", OLDEST)] {
            memory.suppose(key, found);
            assert_eq!(super::tests::memory(&folder).recall(key), Some(found));
        }
        let until = super::now();
        memory.change("a", Some(EraEntry::SupposedSession { until }));
        memory.change("b", Some(EraEntry::SupposedEventStream { until: until + 60 }));
        assert_eq!(["a", "b"].map(|key| super::tests::memory(&folder).recall(key)), [None, Some(OLDEST)]);
        memory.remember("a", SESSION);
        assert_eq!(super::tests::memory(&folder).recall("a"), Some(SESSION));
    }

    #[test]
    fn sessions_of_a_server_of_both_eras_are_kept_with_its_era() {
        let folder = tempfile::tempdir().unwrap();
        let support = || memory(&folder).session_support("a");
        memory(&folder).remember("a", STATELESS);
        assert_eq!(support(), SessionSupport::Unknown);
        memory(&folder).remember_sessions("a", SessionSupport::Offered);
        memory(&folder).remember_asking_by_result("a", "ask");
        memory(&folder).remember("a", STATELESS);
        memory(&folder).remember_sessions("a", SessionSupport::Offered);
        assert_eq!((support(), memory(&folder).recall("a")), (SessionSupport::Offered, Some(STATELESS)));
        assert_eq!(memory(&folder).tools_asking_by_result("a"), ["ask"]);
        memory(&folder).remember_sessions("a", SessionSupport::Absent);
        assert_eq!((support(), memory(&folder).recall("a")), (SessionSupport::Absent, Some(STATELESS)));
        memory(&folder).change("a", Some(EraEntry::StatelessOnly { until: super::now() }));
        assert_eq!(support(), SessionSupport::Unknown, "tried again");
        memory(&folder).remember_sessions("a", SessionSupport::Offered);
        memory(&folder).remember("a", SESSION);
        assert_eq!(support(), SessionSupport::Unknown, "the server was replaced");
    }

    #[test]
    fn invalid_file_counts_as_empty_and_is_replaced() {
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

    #[test]
    fn concurrent_changes_are_written_together_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let memory = memory(&folder);
        memory.remember("gone", SESSION);
        let lock = memory.file.lock().unwrap();
        thread::scope(|scope| {
            let first = scope.spawn(|| memory.remember("first", SESSION));
            while memory.unwritten.lock().in_progress.is_none() {
                thread::yield_now();
            }
            // The lock is held all the time, so none of these waits for it.
            (0..50).for_each(|number| memory.remember(&number.to_string(), STATELESS));
            memory.forget("gone");
            let recalled = ["first", "49", "gone"].map(|key| memory.recall(key));
            assert_eq!(recalled, [Some(SESSION), Some(STATELESS), None], "unwritten changes are visible");
            assert!(!first.is_finished());
            drop(lock);
        });
        let known = super::tests::memory(&folder).read().servers;
        assert_eq!((known.len(), known.contains_key("gone")), (51, false));
    }

    #[test]
    fn unwritable_or_locked_file_is_tolerated() {
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
    fn full_cache_is_cleared() {
        let folder = tempfile::tempdir().unwrap();
        memory(&folder).write((0..ENTRIES).map(|number| (number.to_string(), Some(EraEntry::Session))).collect());
        assert_eq!(memory(&folder).read().servers.len(), ENTRIES);
        memory(&folder).remember("one more", STATELESS);
        assert_eq!(memory(&folder).read().servers.len(), 1);
    }

    #[test]
    fn key_contains_every_part_of_a_program_except_its_variables() {
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
