//! The entry of a server and the files that it names, as they are now: what a baseline keeps of them, and whether the files
//! are still the same when the next process of the server is started.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use ring::digest::{Context, SHA256};
use tokio::task::JoinError;
use toolway_config::{Environment, FileStamp};
use toolway_wire::{seal::fingerprint, time};

use crate::{
    connection::WantedServer,
    policy::baseline::{Baseline, EntryPart, SeenItem, entry_members},
};

/// Largest file of an entry whose content is compared. Of a larger one length and time are.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// An entry, and the files that it names.
pub(crate) struct EntryNow {
    pub(super) baseline: Baseline,
    /// `None` if it names none.
    pub(super) files: Option<NamedFiles>,
}

/// The files that an entry names, or would name if they existed.
#[derive(Clone, Debug)]
pub(super) struct NamedFiles {
    files: Arc<[NamedFile]>,
    /// Attempts to connect the server until they were compared.
    attempts: u64,
}

#[derive(Debug)]
struct NamedFile {
    path: PathBuf,
    /// `None` if it is not there.
    stamp: Option<FileStamp>,
}

// === impl EntryNow ===

impl EntryNow {
    /// Reads files. `attempts`: to connect the server, until now.
    pub(crate) fn read(wanted: &WantedServer, environment: &Environment, attempts: u64) -> Self {
        // Before their contents: what changes meanwhile is found later.
        let files: Arc<[NamedFile]> = wanted.named_paths(environment).into_iter().map(NamedFile::now).collect();
        let baseline = entry_baseline(wanted, environment);
        Self { baseline, files: Some(NamedFiles { files, attempts }).filter(|named| !named.files.is_empty()) }
    }

    pub(crate) fn baseline(&self) -> &Baseline {
        &self.baseline
    }

    /// Whether the files that it names are as they were. Reads no contents.
    pub(crate) fn is_current(&self) -> bool {
        self.files.as_ref().is_none_or(NamedFiles::are_unchanged)
    }
}

// === impl NamedFiles ===

impl NamedFiles {
    /// Whether no connection was attempted since.
    pub(super) fn were_compared_at(&self, attempts: u64) -> bool {
        self.attempts == attempts
    }

    /// The same files, which are unchanged.
    pub(super) fn compared_at(self, attempts: u64) -> Self {
        Self { attempts, ..self }
    }

    pub(super) fn is_older_than(&self, other: &Self) -> bool {
        self.attempts < other.attempts
    }

    /// Whether they are as they were. Reads no contents.
    pub(super) fn are_unchanged(&self) -> bool {
        self.files.iter().all(|file| file.stamp == stamp(&file.path))
    }
}

impl NamedFile {
    fn now(path: PathBuf) -> Self {
        Self { stamp: stamp(&path), path }
    }
}

fn stamp(path: &Path) -> Option<FileStamp> {
    FileStamp::of(path).ok().flatten()
}

/// Reads an entry and its files on a thread that may block; fails if reading panics or the process is shutting down.
pub(super) async fn read_with<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    tokio::task::spawn_blocking(read).await
}

/// The entry of a server and the files that it names. Reads files.
pub(crate) fn entry_baseline(wanted: &WantedServer, environment: &Environment) -> Baseline {
    let mut parts = wanted.shown_entry();
    let mut digests = vec![wanted.entry_digest(environment)];
    for path in wanted.named_paths(environment).into_iter().filter(|path| path.is_file()) {
        let digest = file_digest(&path);
        parts.push(EntryPart { key: format!("content of {}", path.display()), shown: digest.clone() });
        digests.push(digest);
    }
    let digest = fingerprint(digests.iter().map(String::as_bytes));
    Baseline::new(&wanted.name, SeenItem::Entry, digest, entry_members(parts))
}

fn file_digest(path: &Path) -> String {
    content_digest(path).unwrap_or_else(|_| "not readable".to_owned())
}

fn content_digest(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    if MAX_FILE < metadata.len() {
        let modified = metadata.modified().map(time::rfc3339_of).unwrap_or_default();
        return Ok(format!("{} bytes of {modified}", metadata.len()));
    }
    let mut content = Context::new(&SHA256);
    let mut piece = vec![0; 64 * 1024];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            length => content.update(&piece[..length]),
        }
    }
    Ok(fingerprint([content.finish().as_ref()]))
}

#[cfg(test)]
mod tests {
    use toolway_config::{Config, document::Document};

    use super::*;

    /// The baseline of a server with this entry.
    fn baseline(entry: &str) -> Baseline {
        let text = format!(r#"{{"mcpServers": {{"files": {entry}}}}}"#);
        let config = Config::of(&Document::of("/x/toolway.json".as_ref(), &text).unwrap(), None).unwrap();
        let wanted = WantedServer::configured(&config, config.find("files").unwrap());
        entry_baseline(&wanted, &Environment::default())
    }

    fn difference(before: &str, after: &str) -> Vec<String> {
        let before = baseline(before);
        let after = baseline(after);
        assert_ne!(before.digest, after.digest);
        before.difference(&after)
    }

    #[tokio::test]
    async fn an_entry_whose_reading_fails_is_not_taken_for_an_unchanged_one() {
        assert!(read_with(|| baseline(r#"{"command": "files"}"#)).await.is_ok());
        assert!(read_with(|| -> Baseline { panic!("a file system that fails") }).await.is_err());
    }

    #[test]
    fn another_command_argument_or_host_is_another_server() {
        let same = r#"{"command": "files", "args": ["--root", "/srv"]}"#;
        assert_eq!(baseline(same).digest, baseline(same).digest);
        assert_eq!(
            difference(same, r#"{"command": "evil", "args": ["--root", "/srv"]}"#),
            [r#"command: was "files", is now "evil""#]
        );
        assert_eq!(
            difference(same, r#"{"command": "files", "args": ["--root", "/"]}"#),
            [r#"args 2: was "/srv", is now "/""#]
        );
        assert_eq!(
            difference(r#"{"url": "https://a.example/mcp"}"#, r#"{"url": "https://a.example.evil.example/mcp"}"#),
            [r#"url: was "https://a.example/mcp", is now "https://a.example.evil.example/mcp""#]
        );
    }

    #[test]
    fn no_secret_is_part_of_a_baseline_or_of_a_difference() {
        let entry = |token: &str| {
            format!(r#"{{"command": "f", "args": ["--token", "{token}"], "env": {{"API_KEY": "{token}"}}}}"#)
        };
        let before = baseline(&entry("hunter2hunter2"));
        assert!(!before.text.contains("hunter2"), "{}", before.text);
        let lines = before.difference(&baseline(&entry("other")));
        assert_eq!(lines, ["a value that is not shown has changed"]);
    }

    #[test]
    fn the_content_of_a_file_that_the_entry_names_is_compared() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("server.py");
        let entry = format!(r#"{{"command": "python3", "args": ["{}"]}}"#, script.display());
        std::fs::write(&script, "print(1)").unwrap();
        let before = baseline(&entry);
        assert_eq!(before.digest, baseline(&entry).digest, "an unchanged restart");
        std::fs::write(&script, "print(2)").unwrap();
        let lines = before.difference(&baseline(&entry));
        assert!(lines.len() == 1 && lines[0].starts_with("content of "), "{lines:?}");
    }

    #[test]
    fn a_database_that_the_server_writes_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("notes.SQLite");
        let entry = format!(r#"{{"command": "notes", "args": ["--db", "{}"]}}"#, data.display());
        std::fs::write(&data, "1").unwrap();
        let before = baseline(&entry);
        std::fs::write(&data, "2").unwrap();
        assert_eq!(before.digest, baseline(&entry).digest);
    }

    #[test]
    fn two_servers_that_were_swapped_are_not_what_was_seen() {
        let of = |name: &str, command: &str| {
            let text = format!(r#"{{"mcpServers": {{"{name}": {{"command": "{command}"}}}}}}"#);
            let config = Config::of(&Document::of("/x/toolway.json".as_ref(), &text).unwrap(), None).unwrap();
            let wanted = WantedServer::configured(&config, config.find(name).unwrap());
            entry_baseline(&wanted, &Environment::default())
        };
        let swapped = [(of("notes", "a"), of("notes", "b")), (of("files", "b"), of("files", "a"))];
        for (before, after) in swapped {
            assert_ne!(before.digest, after.digest);
            assert!(before.difference(&after)[0].starts_with("command: was "));
        }
        // A server under another name is another one: nothing was seen of it.
        assert_ne!(of("notes", "a").server, of("memos", "a").server);
    }
}
