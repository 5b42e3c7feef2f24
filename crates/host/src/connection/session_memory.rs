//! Sessions kept on disk when a host shuts down, and resumed at the next start.
//!
//! A session id is a credential, so the file is private to its owner. A session is handed out once: two processes never
//! resume the same one. If the server has forgotten it, a normal handshake follows.

use std::{collections::BTreeMap, io, path::PathBuf};

use serde::{Deserialize, Serialize};
use toolway_wire::{json::Raw, up::KeptSession};

use crate::state_file::StateFile;

/// Sessions in one file. Its methods block on file access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionMemory {
    file: StateFile,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct SessionFile {
    sessions: BTreeMap<String, SessionEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SessionEntry {
    id: String,
    revision: String,
    hello: String,
}

/// Size limit of the file.
const BYTES: usize = 8 * 1024 * 1024;
/// Number of sessions kept; a server whose session is not kept gets a normal handshake.
const SESSIONS: usize = 1_000;
/// Size limit of a kept handshake result.
const HELLO: usize = 256 * 1024;

impl SessionMemory {
    /// Sessions at `path`; the file and its folder are created on first use.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { file: StateFile::at(path, BYTES) }
    }

    /// Keeps a session for the next start.
    pub(crate) fn keep(&self, key: &str, session: &KeptSession) -> io::Result<()> {
        if HELLO < session.hello.as_bytes().len() {
            return Ok(());
        }
        let entry = SessionEntry {
            id: session.id.clone(),
            revision: session.revision.as_str().to_owned(),
            hello: session.hello.to_string(),
        };
        self.change(|sessions| {
            if sessions.len() < SESSIONS || sessions.contains_key(key) {
                sessions.insert(key.to_owned(), entry);
            }
        })
    }

    /// Removes and returns the session of this key.
    pub(crate) fn take(&self, key: &str) -> Option<KeptSession> {
        if !self.read().sessions.contains_key(key) {
            return None;
        }
        let mut taken = None;
        if let Err(error) = self.change(|sessions| taken = sessions.remove(key)) {
            tracing::debug!(%error, "cannot take a kept session");
            return None;
        }
        let SessionEntry { id, revision, hello } = taken?;
        Some(KeptSession { id, revision: revision.parse().ok()?, hello: Raw::parse(hello).ok()? })
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, SessionEntry>)) -> io::Result<()> {
        let lock = self.file.lock()?;
        let mut kept = self.read();
        change(&mut kept.sessions);
        self.file.replace(&lock, &serde_json::to_vec(&kept)?)
    }

    /// Reads the file; one that is missing, invalid or not trusted counts as empty.
    fn read(&self) -> SessionFile {
        let text = self.file.read().ok().flatten().unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use toolway_wire::{json::Raw, revision::Revision, up::KeptSession};

    use super::SessionMemory;

    #[test]
    fn session_is_handed_out_once_from_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/sessions.json");
        let memory = SessionMemory::at(&path);
        let session = KeptSession {
            id: "s3cret".to_owned(),
            revision: Revision::NEWEST_LEGACY,
            hello: Raw::parse(r#"{"protocolVersion":"x"}"#.to_owned()).unwrap(),
        };
        assert_eq!(memory.take("files"), None);
        memory.keep("files", &session).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(memory.take("others"), None);
        assert_eq!(memory.take("files"), Some(session));
        assert_eq!(memory.take("files"), None);

        std::fs::write(&path, "not ours").unwrap();
        assert_eq!(memory.take("files"), None);
    }
}
