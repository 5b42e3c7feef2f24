//! The keys of named clients, in one file of the state directory.
//!
//! The file holds digests only, so reading it gives no access. [`super::key_ring`] follows it in a running gateway.

use std::{
    collections::BTreeSet,
    io,
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use toolway_config::{FileStamp, Secret, ServerName, ToolPattern};
use toolway_host::{
    call::{Selection, VisibleServers},
    state_file::{StateFile, UnreadableState},
};

use super::{
    key_digest::Digest,
    key_use::{KeyUseFile, LastUses},
};

/// The key file.
#[derive(Clone, Debug)]
pub struct KeyFile {
    file: StateFile,
}

/// A client as stored in the key file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownClient {
    /// Name given by the operator.
    pub name: String,
    /// SHA-256 of its key, in hex.
    pub(super) key: Digest,
    /// Creation time of the key, in seconds since the Unix epoch.
    pub created: u64,
    /// Expiry time, in seconds since the Unix epoch; `None`: it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Servers that the client may see; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<BTreeSet<String>>,
    /// Tools that the client may see, as `SERVER.TOOL` with `*`; `None`: all of these servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// What the key opens.
    #[serde(default, skip_serializing_if = "KeyScope::is_all")]
    pub scope: KeyScope,
    /// Fingerprint of the first key of the client, if the key was rotated: the client stays the same caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) first_key: Option<String>,
    /// The key before the last rotation; valid until it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousKey>,
}

/// A key that was replaced by another one of the same client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousKey {
    pub(super) key: Digest,
    /// Creation time, in seconds since the Unix epoch.
    pub created: u64,
    /// Expiry time, in seconds since the Unix epoch.
    pub expires: u64,
}

/// What a key opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyScope {
    /// Everything that clients use.
    #[default]
    All,
    /// `/metrics`, `/ready` and `/health` only.
    Metrics,
}

/// What a new key opens.
#[derive(Clone, Debug, Default)]
pub struct KeyRights {
    /// Servers and tools that the client may see.
    pub selection: Selection,
    /// What the key opens.
    pub scope: KeyScope,
}

/// What changes for a client. The default changes nothing.
#[derive(Clone, Debug, Default)]
pub struct KeyUpdate {
    /// Servers that the client may see.
    pub servers: Change<BTreeSet<ServerName>>,
    /// Tools that the client may see.
    pub tools: Change<Vec<ToolPattern>>,
    /// Lifetime of its key from now on; `None`: as it is.
    pub lasts: Option<Duration>,
}

/// A change of what a client may see.
#[derive(Clone, Debug, Default)]
pub enum Change<T> {
    /// As it is.
    #[default]
    Keep,
    /// No restriction.
    All,
    /// Only this.
    Only(T),
}

/// Why a key operation failed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The operating system returned no random bytes.
    #[error("cannot generate a key: the operating system returned no random bytes")]
    NoRandomness,
    /// The file cannot be read.
    #[error("cannot read the client keys in `{file}`: {problem}")]
    Unreadable {
        /// The key file.
        file: PathBuf,
        /// Reason from the state file.
        problem: UnreadableState,
    },
    /// The content is invalid.
    #[error(
        "invalid client keys in `{file}`: {problem}; move the file away and create new keys with `toolway clients add`"
    )]
    Damaged {
        /// The key file.
        file: PathBuf,
        /// Position and reason.
        problem: serde_json::Error,
    },
    /// The file cannot be written.
    #[error("cannot write the client keys to `{file}`: {problem}")]
    Unwritable {
        /// The key file.
        file: PathBuf,
        /// Error of the operating system.
        problem: io::Error,
    },
    /// A client of this name exists.
    #[error("client `{0}` already exists; revoke its key first with `toolway clients revoke {0}`")]
    Taken(String),
    /// No client has this name.
    #[error("unknown client `{0}`")]
    Unknown(String),
    /// The name is invalid.
    #[error("invalid client name `{0}`: use 1 to 64 letters, digits, `.`, `_` or `-`")]
    BadName(String),
    /// The maximum number of clients is reached.
    #[error("there are {MAX_CLIENTS} clients already, which is the maximum; revoke one first")]
    TooMany,
}

/// Maximum size of the key file.
const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of clients of one gateway.
const MAX_CLIENTS: usize = 10_000;
/// Prefix of every key, so that secret scanners recognise one.
const PREFIX: &str = "tw_";

/// Generates a random key.
pub(super) fn new_key() -> Result<Secret, KeyError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::NoRandomness)?;
    Ok(Secret::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))))
}

// === impl KeyFile ===

impl KeyFile {
    /// The file at `path`; it is created with the first key.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { file: StateFile::at(path, MAX_FILE_BYTES) }
    }

    /// Path of the file.
    pub fn path(&self) -> &std::path::Path {
        self.file.path()
    }

    /// All clients, sorted by name.
    pub fn list(&self) -> Result<Vec<KnownClient>, KeyError> {
        let path = || self.file.path().to_owned();
        let text = self.file.read().map_err(|problem| KeyError::Unreadable { file: path(), problem })?;
        let Some(text) = text else { return Ok(Vec::new()) };
        serde_json::from_slice(&text).map_err(|problem| KeyError::Damaged { file: path(), problem })
    }

    /// Creates a key for a new client. Only its digest is stored, so it cannot be shown again.
    pub fn add(
        &self,
        name: &str,
        lasts: Option<Duration>,
        servers: Option<BTreeSet<ServerName>>,
    ) -> Result<Secret, KeyError> {
        self.add_with(name, lasts, &KeyRights { selection: Selection { servers, tools: None }, scope: KeyScope::All })
    }

    /// Like [`Self::add`], with the rights of the key.
    pub fn add_with(&self, name: &str, lasts: Option<Duration>, rights: &KeyRights) -> Result<Secret, KeyError> {
        check_name(name)?;
        let key = new_key()?;
        let created = unix_seconds();
        let client = KnownClient {
            name: name.to_owned(),
            key: Digest::of(key.expose()),
            created,
            expires: lasts.map(|lasts| created.saturating_add(lasts.as_secs())),
            servers: rights.selection.servers.as_ref().map(names),
            tools: rights.selection.tools.as_deref().map(patterns),
            scope: rights.scope,
            first_key: None,
            previous: None,
        };
        self.change(|clients| {
            if clients.iter().any(|known| known.name == name) {
                return Err(KeyError::Taken(name.to_owned()));
            }
            if MAX_CLIENTS <= clients.len() {
                return Err(KeyError::TooMany);
            }
            clients.push(client);
            clients.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(())
        })?;
        Ok(key)
    }

    /// Replaces the key of a client. The one before is accepted for `overlap` more, one that was replaced earlier no longer.
    /// The new key lasts as long as the one before did from its creation.
    pub fn rotate(&self, name: &str, overlap: Duration) -> Result<Secret, KeyError> {
        let key = new_key()?;
        let now = unix_seconds();
        self.change(|clients| {
            let client = known(clients, name)?;
            let lasts = client.expires.map(|expires| expires.saturating_sub(client.created));
            let ends = now.saturating_add(overlap.as_secs());
            let before = PreviousKey {
                key: client.key.clone(),
                created: client.created,
                expires: client.expires.map_or(ends, |expires| expires.min(ends)),
            };
            client.first_key.get_or_insert_with(|| before.key.mark());
            client.previous = (!overlap.is_zero()).then_some(before);
            client.key = Digest::of(key.expose());
            client.created = now;
            client.expires = lasts.map(|lasts| now.saturating_add(lasts));
            Ok(())
        })?;
        Ok(key)
    }

    /// Changes what a client may see and how long its key lasts. Returns the client as it is now.
    pub fn update(&self, name: &str, update: &KeyUpdate) -> Result<KnownClient, KeyError> {
        let mut updated = None;
        self.change(|clients| {
            let client = known(clients, name)?;
            match &update.servers {
                Change::Keep => {}
                Change::All => client.servers = None,
                Change::Only(servers) => client.servers = Some(names(servers)),
            }
            match &update.tools {
                Change::Keep => {}
                Change::All => client.tools = None,
                Change::Only(tools) => client.tools = Some(patterns(tools)),
            }
            if let Some(lasts) = update.lasts {
                client.expires = Some(unix_seconds().saturating_add(lasts.as_secs()));
            }
            updated = Some(client.clone());
            Ok(())
        })?;
        updated.ok_or_else(|| KeyError::Unknown(name.to_owned()))
    }

    /// When the keys were last used, as far as a gateway has reported it.
    pub fn last_uses(&self) -> LastUses {
        KeyUseFile::beside(self.path()).read()
    }

    /// Forgets the times of use of keys that no longer exist.
    pub fn forget_old_uses(&self) -> io::Result<()> {
        let clients = self.list().map_err(io::Error::other)?;
        let previous = |client: &KnownClient| client.previous.as_ref().map(|previous| previous.key.mark());
        let marks = clients.iter().flat_map(|client| [Some(client.key.mark()), previous(client)]);
        KeyUseFile::beside(self.path()).retain(&marks.flatten().collect::<Vec<_>>())
    }

    /// Revokes the key of a client.
    pub fn revoke(&self, name: &str) -> Result<(), KeyError> {
        self.change(|clients| {
            let before = clients.len();
            clients.retain(|known| known.name != name);
            if clients.len() < before { Ok(()) } else { Err(KeyError::Unknown(name.to_owned())) }
        })
    }

    fn change(&self, change: impl FnOnce(&mut Vec<KnownClient>) -> Result<(), KeyError>) -> Result<(), KeyError> {
        let unwritable = |problem| KeyError::Unwritable { file: self.file.path().to_owned(), problem };
        let lock = self.file.lock().map_err(unwritable)?;
        let mut clients = self.list()?;
        change(&mut clients)?;
        let text = serde_json::to_vec_pretty(&clients).map_err(|error| unwritable(error.into()))?;
        self.file.replace(&lock, &text).map_err(unwritable)
    }

    /// Identity of the current content, without opening the file; `None` if there is no file.
    pub(super) fn stamp(&self) -> io::Result<Option<FileStamp>> {
        FileStamp::of(self.file.path())
    }
}

impl KnownClient {
    /// When the key was last used, in seconds since the Unix epoch.
    pub fn last_used(&self, uses: &LastUses) -> Option<u64> {
        uses.get(&self.key.mark()).copied()
    }

    /// Fingerprint that stays the same when the key is rotated.
    pub(super) fn identity(&self) -> String {
        self.first_key.clone().unwrap_or_else(|| self.key.mark())
    }

    /// Servers and tools that the client may see. What is invalid in the file matches nothing.
    pub(super) fn visible(&self) -> VisibleServers {
        let servers = |names: &BTreeSet<String>| names.iter().filter_map(|name| name.parse().ok()).collect();
        let tools = |patterns: &Vec<String>| patterns.iter().filter_map(|pattern| pattern.parse().ok()).collect();
        Selection { servers: self.servers.as_ref().map(servers), tools: self.tools.as_ref().map(tools) }.into()
    }

    /// Whether the key has expired.
    pub fn is_expired(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= unix_seconds())
    }
}

impl PreviousKey {
    /// When the key was last used, in seconds since the Unix epoch.
    pub fn last_used(&self, uses: &LastUses) -> Option<u64> {
        uses.get(&self.key.mark()).copied()
    }

    /// Whether the key is still accepted.
    pub fn is_valid(&self) -> bool {
        is_unexpired(Some(self.expires))
    }
}

impl KeyScope {
    fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// The word in the key file and of `--scope`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Metrics => "metrics",
        }
    }
}

fn known<'a>(clients: &'a mut [KnownClient], name: &str) -> Result<&'a mut KnownClient, KeyError> {
    let found = clients.iter_mut().find(|known| known.name == name);
    found.ok_or_else(|| KeyError::Unknown(name.to_owned()))
}

fn names(servers: &BTreeSet<ServerName>) -> BTreeSet<String> {
    servers.iter().map(ToString::to_string).collect()
}

fn patterns(tools: &[ToolPattern]) -> Vec<String> {
    tools.iter().map(ToString::to_string).collect()
}

pub(super) fn is_unexpired(expires: Option<u64>) -> bool {
    expires.is_none_or(|expires| unix_seconds() < expires)
}

pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn check_name(name: &str) -> Result<(), KeyError> {
    let fits = !name.is_empty() && name.len() <= 64;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    if fits && name.chars().all(plain) { Ok(()) } else { Err(KeyError::BadName(name.to_owned())) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{KeyError, KeyFile};

    fn folder() -> (tempfile::TempDir, KeyFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("clients.json"));
        (folder, file)
    }

    #[test]
    fn expired_key_is_listed_as_expired() {
        let (_folder, file) = folder();
        file.add("short", Some(Duration::ZERO), None).unwrap();
        assert!(file.list().unwrap()[0].is_expired());
    }

    #[test]
    fn key_file_holds_digests_only_and_names_are_unique() {
        let (folder, file) = folder();
        let key = file.add("editor", None, None).unwrap();
        let text = std::fs::read_to_string(folder.path().join("clients.json")).unwrap();
        assert!(!text.contains(key.expose()) && text.contains("editor"));
        assert!(matches!(file.add("editor", None, None), Err(KeyError::Taken(_))));
        assert!(matches!(file.add("two words", None, None), Err(KeyError::BadName(_))));
        assert!(matches!(file.revoke("missing"), Err(KeyError::Unknown(_))));
        assert_eq!(key.expose().len(), 3 + 43);
    }

    #[test]
    fn rotated_key_keeps_the_client_and_the_key_before_for_the_overlap() {
        let (_folder, file) = folder();
        file.add("editor", None, None).unwrap();
        let before = file.list().unwrap().remove(0);
        file.rotate("editor", Duration::from_secs(60)).unwrap();
        let after = file.list().unwrap().remove(0);
        assert_eq!(after.identity(), before.identity());
        let previous = after.previous.unwrap();
        assert!(previous.key == before.key && previous.key != after.key && previous.is_valid());
        file.rotate("editor", Duration::ZERO).unwrap();
        let last = file.list().unwrap().remove(0);
        assert!(last.previous.is_none() && last.identity() == before.identity());
        assert!(matches!(file.rotate("missing", Duration::ZERO), Err(KeyError::Unknown(_))));
    }

    #[test]
    fn damaged_key_file_is_an_error() {
        let (folder, file) = folder();
        for text in ["nonsense", r#"[{"name":"a","key":"00","created":1}]"#] {
            std::fs::write(folder.path().join("clients.json"), text).unwrap();
            assert!(matches!(file.list(), Err(KeyError::Damaged { .. })), "{text}");
        }
    }
}
