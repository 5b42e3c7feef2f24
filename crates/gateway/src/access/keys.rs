//! The keys of named clients, in one file of the state directory.
//!
//! The file holds digests only, so reading it gives no access. A running gateway reads it again when it has changed, so
//! that a revoked key is refused within [`RELOAD_INTERVAL`].

use std::{
    collections::BTreeSet,
    fmt, io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use ring::{
    digest,
    rand::{SecureRandom, SystemRandom},
};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use toolway_config::{Secret, ServerName};
use toolway_host::{
    call::VisibleServers,
    state_file::{StateFile, UnreadableState},
};

use super::Client;

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
    key: Digest,
    /// Creation time, in seconds since the Unix epoch.
    pub made: u64,
    /// Expiry time, in seconds since the Unix epoch; `None`: it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Servers that the client may see; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<BTreeSet<String>>,
}

/// SHA-256 of a key. Compared in constant time.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Digest([u8; 32]);

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

/// The keys of the file as of the last check.
pub(super) struct KeyRing {
    file: KeyFile,
    // Nothing awaits under this lock.
    state: Mutex<KeySnapshot>,
}

#[derive(Default)]
struct KeySnapshot {
    clients: Vec<(Digest, Option<u64>, Arc<Client>)>,
    modified: Option<SystemTime>,
    checked: Option<Instant>,
    /// Clients whose keys were revoked and that [`KeyRing::take_revoked`] has not returned yet.
    revoked: Vec<Arc<Client>>,
}

/// Maximum size of the key file.
const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of clients of one gateway.
const MAX_CLIENTS: usize = 10_000;
/// Minimum time between two checks of the file: how long a revoked key may still be accepted.
const RELOAD_INTERVAL: Duration = Duration::from_millis(250);
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
        check_name(name)?;
        let key = new_key()?;
        let made = unix_seconds();
        let client = KnownClient {
            name: name.to_owned(),
            key: Digest::of(key.expose()),
            made,
            expires: lasts.map(|lasts| made.saturating_add(lasts.as_secs())),
            servers: servers.map(|servers| servers.iter().map(ToString::to_string).collect()),
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

    fn modified(&self) -> Option<SystemTime> {
        std::fs::symlink_metadata(self.file.path()).and_then(|found| found.modified()).ok()
    }
}

impl KnownClient {
    /// Whether the key has expired.
    pub fn is_expired(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= unix_seconds())
    }
}

// === impl KeyRing ===

impl KeyRing {
    pub(super) fn open(file: KeyFile) -> Result<Self, KeyError> {
        let ring = Self { file, state: Mutex::default() };
        let read = ring.read()?;
        *ring.state.lock() = read;
        Ok(ring)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().clients.is_empty()
    }

    /// The client with this key; `None` if it is unknown or expired.
    pub(super) fn find(&self, digest: &Digest) -> Option<Arc<Client>> {
        self.with_clients(|clients| {
            // Compares all keys, so that the time taken reveals nothing.
            clients.iter().fold(None, |found, (known, expires, client)| {
                let valid = *known == *digest && is_unexpired(*expires);
                if valid { Some(Arc::clone(client)) } else { found }
            })
        })
    }

    pub(super) fn named(&self, name: &str) -> Option<Arc<Client>> {
        self.with_clients(|clients| {
            let valid = clients.iter().filter(|(_, expires, _)| is_unexpired(*expires));
            valid.map(|(_, _, client)| client).find(|client| &*client.name == name).cloned()
        })
    }

    /// Whether no client is restricted to some servers.
    pub(super) fn all_clients_see_all_servers(&self) -> bool {
        self.with_clients(|clients| clients.iter().all(|(_, _, client)| client.servers == VisibleServers::All))
    }

    /// Takes the clients whose keys were revoked or expired since the last call, and cancels their tokens.
    pub(super) fn take_revoked(&self) -> Vec<Arc<Client>> {
        self.with_clients(|_| ());
        let mut state = self.state.lock();
        let expired = |(_, expires, client): &&(Digest, Option<u64>, Arc<Client>)| {
            !is_unexpired(*expires) && !client.revoked.is_cancelled()
        };
        let expired: Vec<_> = state.clients.iter().filter(expired).map(|(_, _, client)| Arc::clone(client)).collect();
        expired.iter().for_each(|client| client.revoked.cancel());
        state.revoked.drain(..).chain(expired).collect()
    }

    /// Takes the revoked clients that had the name of `client`.
    pub(super) fn take_revoked_namesakes(&self, client: &Client) -> Vec<Arc<Client>> {
        self.state.lock().revoked.extract_if(.., |revoked| revoked.name == client.name).collect()
    }

    fn with_clients<T>(&self, look: impl FnOnce(&[(Digest, Option<u64>, Arc<Client>)]) -> T) -> T {
        let mut state = self.state.lock();
        if state.checked.is_none_or(|checked| RELOAD_INTERVAL <= checked.elapsed()) {
            state.checked = Some(Instant::now());
            if state.modified != self.file.modified() {
                match self.read() {
                    Ok(read) => state.replace_with(read),
                    // The keys read before stay valid; new ones are not accepted.
                    Err(problem) => {
                        tracing::error!(%problem, "cannot reload the client keys; the previous keys stay valid")
                    }
                }
            }
        }
        look(&state.clients)
    }

    fn read(&self) -> Result<KeySnapshot, KeyError> {
        // Read first: a change during the read causes another read.
        let modified = self.file.modified();
        let client = |known: KnownClient| {
            // An invalid name matches no server.
            let visible = |servers: BTreeSet<String>| servers.iter().filter_map(|name| name.parse().ok()).collect();
            let servers = known.servers.map_or(VisibleServers::All, visible);
            let client = Client::with_key(&known.name, &known.key, servers);
            (known.key, known.expires, Arc::new(client))
        };
        let clients = self.file.list()?.into_iter().map(client).collect();
        Ok(KeySnapshot { clients, modified, checked: Some(Instant::now()), revoked: Vec::new() })
    }
}

impl KeySnapshot {
    /// Replaces the snapshot. Unchanged clients keep their `Arc`; all others are revoked.
    fn replace_with(&mut self, mut next: Self) {
        next.revoked.append(&mut self.revoked);
        for (digest, _, client) in self.clients.drain(..) {
            match next.clients.iter_mut().find(|(known, _, same)| *known == digest && *same == client) {
                Some((_, _, same)) => *same = client,
                None => {
                    client.revoked.cancel();
                    next.revoked.push(client);
                }
            }
        }
        *self = next;
    }
}

fn is_unexpired(expires: Option<u64>) -> bool {
    expires.is_none_or(|expires| unix_seconds() < expires)
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn check_name(name: &str) -> Result<(), KeyError> {
    let fits = !name.is_empty() && name.len() <= 64;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    if fits && name.chars().all(plain) { Ok(()) } else { Err(KeyError::BadName(name.to_owned())) }
}

// === impl Digest ===

impl Digest {
    /// Fingerprint for sealed handles: half of the digest, enough to distinguish keys.
    pub(super) fn mark(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.0[..16])
    }

    pub(super) fn of(key: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, key.as_bytes()).as_ref());
        Self(bytes)
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Digest {}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const NOT_A_DIGEST: &str = "not 64 hexadecimal digits";
        let byte = |index: usize| {
            let pair = text.get(2 * index..2 * index + 2).ok_or(NOT_A_DIGEST)?;
            u8::from_str_radix(pair, 16).map_err(|_| NOT_A_DIGEST)
        };
        if text.len() != 64 {
            return Err(NOT_A_DIGEST);
        }
        let mut bytes = [0; 32];
        for (index, place) in bytes.iter_mut().enumerate() {
            *place = byte(index)?;
        }
        Ok(Self(bytes))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use super::{Digest, KeyError, KeyFile, KeyRing, RELOAD_INTERVAL};

    fn folder() -> (tempfile::TempDir, KeyFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("clients.json"));
        (folder, file)
    }

    #[test]
    fn key_is_accepted_until_it_is_revoked() {
        let (_folder, file) = folder();
        let servers = BTreeSet::from(["files".parse().unwrap()]);
        let key = file.add("editor", None, Some(servers)).unwrap();
        let ring = KeyRing::open(file.clone()).unwrap();
        let client = ring.find(&Digest::of(key.expose())).unwrap();
        assert!(client.sees(&"files".parse().unwrap()) && !client.sees(&"mail".parse().unwrap()));
        assert!(ring.find(&Digest::of("tw_other")).is_none());
        file.revoke("editor").unwrap();
        std::thread::sleep(RELOAD_INTERVAL + Duration::from_millis(50));
        assert!(ring.find(&Digest::of(key.expose())).is_none() && ring.named("editor").is_none());
    }

    #[test]
    fn expired_key_is_refused() {
        let (_folder, file) = folder();
        let key = file.add("short", Some(Duration::ZERO), None).unwrap();
        let ring = KeyRing::open(file.clone()).unwrap();
        assert!(ring.find(&Digest::of(key.expose())).is_none());
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
    fn damaged_key_file_is_an_error() {
        let (folder, file) = folder();
        for text in ["nonsense", r#"[{"name":"a","key":"00","made":1}]"#] {
            std::fs::write(folder.path().join("clients.json"), text).unwrap();
            assert!(matches!(KeyRing::open(file.clone()), Err(KeyError::Damaged { .. })), "{text}");
        }
    }
}
