//! The keys of named clients, in one file of the state directory.
//!
//! The file holds digests, so that whoever reads it cannot come in. A running gateway looks at it again when it has
//! changed, so that a key that is taken back is refused at once.

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
    call::Visible,
    state_file::{StateFile, UnreadableState},
};

use super::Client;

/// Where the keys are kept.
#[derive(Clone, Debug)]
pub struct KeyFile {
    file: StateFile,
}

/// A client as the file has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownClient {
    /// As the operator named it.
    pub name: String,
    /// The digest of its key, in hex.
    key: Digest,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// Until when it is good; none: until it is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// The servers it sees; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<BTreeSet<String>>,
}

/// SHA-256 of a key. Compared in constant time.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Digest([u8; 32]);

/// What can be wrong with keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyProblem {
    /// The system gave no random numbers.
    #[error("the system gave no random numbers")]
    NoRandomness,
    /// The file cannot be read.
    #[error("{file}: {problem}")]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        problem: UnreadableState,
    },
    /// It does not hold what we write.
    #[error("{file}: {problem}; move it away and make new keys with `toolway clients add`")]
    Damaged {
        /// Which.
        file: PathBuf,
        /// Where and what.
        problem: serde_json::Error,
    },
    /// It cannot be written.
    #[error("{file}: {problem}")]
    Unwritable {
        /// Which.
        file: PathBuf,
        /// Why.
        problem: io::Error,
    },
    /// There is one of this name.
    #[error("there is a client `{0}` already; take its key back first (`toolway clients revoke {0}`)")]
    Taken(String),
    /// There is none of this name.
    #[error("there is no client `{0}`")]
    Unknown(String),
    /// It is no name.
    #[error("`{0}` is no name for a client: letters, digits, `.`, `_` and `-`, at most 64")]
    BadName(String),
    /// Too many.
    #[error("there are {MOST_CLIENTS} clients already")]
    TooMany,
}

/// The keys of the file as they were when it was last looked at.
pub(super) struct KeyRing {
    file: KeyFile,
    // Nothing awaits under this lock.
    state: Mutex<Read>,
}

#[derive(Default)]
struct Read {
    clients: Vec<(Digest, Option<u64>, Arc<Client>)>,
    changed: Option<SystemTime>,
    looked: Option<Instant>,
    /// Clients whose keys are no longer good, and of whom nobody has been told yet.
    gone: Vec<Arc<Client>>,
}

/// Bytes of the file.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Clients of one gateway.
const MOST_CLIENTS: usize = 10_000;
/// How long a key that was taken back may still be good.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// What every key begins with, so that scanners of repositories know one when they see it.
const MARK: &str = "tw_";

/// A key nobody has seen.
pub(super) fn new_key() -> Result<Secret, KeyProblem> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyProblem::NoRandomness)?;
    Ok(Secret::new(format!("{MARK}{}", URL_SAFE_NO_PAD.encode(bytes))))
}

// === impl KeyFile ===

impl KeyFile {
    /// The file at `path`; it is made with the first key.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { file: StateFile::at(path, MOST_BYTES) }
    }

    /// All clients, by name.
    pub fn list(&self) -> Result<Vec<KnownClient>, KeyProblem> {
        let path = || self.file.path().to_owned();
        let text = self.file.read().map_err(|problem| KeyProblem::Unreadable { file: path(), problem })?;
        let Some(text) = text else { return Ok(Vec::new()) };
        serde_json::from_slice(&text).map_err(|problem| KeyProblem::Damaged { file: path(), problem })
    }

    /// Makes a key for a new client. It is given once and cannot be read again.
    pub fn add(
        &self,
        name: &str,
        lasts: Option<Duration>,
        servers: Option<BTreeSet<ServerName>>,
    ) -> Result<Secret, KeyProblem> {
        check_name(name)?;
        let key = new_key()?;
        let made = since_1970();
        let client = KnownClient {
            name: name.to_owned(),
            key: Digest::of(key.expose()),
            made,
            expires: lasts.map(|lasts| made.saturating_add(lasts.as_secs())),
            servers: servers.map(|servers| servers.iter().map(ToString::to_string).collect()),
        };
        self.change(|clients| {
            if clients.iter().any(|known| known.name == name) {
                return Err(KeyProblem::Taken(name.to_owned()));
            }
            if MOST_CLIENTS <= clients.len() {
                return Err(KeyProblem::TooMany);
            }
            clients.push(client);
            clients.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(())
        })?;
        Ok(key)
    }

    /// Takes a client's key back.
    pub fn revoke(&self, name: &str) -> Result<(), KeyProblem> {
        self.change(|clients| {
            let before = clients.len();
            clients.retain(|known| known.name != name);
            if clients.len() < before { Ok(()) } else { Err(KeyProblem::Unknown(name.to_owned())) }
        })
    }

    fn change(&self, change: impl FnOnce(&mut Vec<KnownClient>) -> Result<(), KeyProblem>) -> Result<(), KeyProblem> {
        let unwritable = |problem| KeyProblem::Unwritable { file: self.file.path().to_owned(), problem };
        let lock = self.file.lock().map_err(unwritable)?;
        let mut clients = self.list()?;
        change(&mut clients)?;
        let text = serde_json::to_vec_pretty(&clients).map_err(|error| unwritable(error.into()))?;
        self.file.replace(&lock, &text).map_err(unwritable)
    }

    fn changed(&self) -> Option<SystemTime> {
        std::fs::symlink_metadata(self.file.path()).and_then(|found| found.modified()).ok()
    }
}

impl KnownClient {
    /// Whether its time is over.
    pub fn is_over(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= since_1970())
    }
}

// === impl KeyRing ===

impl KeyRing {
    pub(super) fn open(file: KeyFile) -> Result<Self, KeyProblem> {
        let ring = Self { file, state: Mutex::default() };
        let read = ring.read()?;
        *ring.state.lock() = read;
        Ok(ring)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().clients.is_empty()
    }

    /// Whose key this is; its time is not over.
    pub(super) fn find(&self, digest: &Digest) -> Option<Arc<Client>> {
        self.with_current(|clients| {
            // All are compared, so that how long it takes says nothing.
            clients.iter().fold(None, |found, (known, expires, client)| {
                let good = *known == *digest && is_good(*expires);
                if good { Some(Arc::clone(client)) } else { found }
            })
        })
    }

    pub(super) fn named(&self, name: &str) -> Option<Arc<Client>> {
        self.with_current(|clients| {
            let good = clients.iter().filter(|(_, expires, _)| is_good(*expires));
            good.map(|(_, _, client)| client).find(|client| &*client.name == name).cloned()
        })
    }

    /// Whether none of them sees only some servers.
    pub(super) fn shows_all_to_all(&self) -> bool {
        self.with_current(|clients| clients.iter().all(|(_, _, client)| client.servers == Visible::All))
    }

    /// Those whose keys were taken back or whose time is over since this was last asked. What they have open is told.
    pub(super) fn gone(&self) -> Vec<Arc<Client>> {
        self.with_current(|_| ());
        let mut state = self.state.lock();
        let over = |(_, expires, client): &&(Digest, Option<u64>, Arc<Client>)| {
            !is_good(*expires) && !client.gone.is_cancelled()
        };
        let over: Vec<_> = state.clients.iter().filter(over).map(|(_, _, client)| Arc::clone(client)).collect();
        over.iter().for_each(|client| client.gone.cancel());
        state.gone.drain(..).chain(over).collect()
    }

    /// Of those, the ones who had this client's name before.
    pub(super) fn gone_before(&self, client: &Client) -> Vec<Arc<Client>> {
        self.state.lock().gone.extract_if(.., |gone| gone.name == client.name).collect()
    }

    fn with_current<T>(&self, look: impl FnOnce(&[(Digest, Option<u64>, Arc<Client>)]) -> T) -> T {
        let mut state = self.state.lock();
        if state.looked.is_none_or(|looked| LOOK_AGAIN <= looked.elapsed()) {
            state.looked = Some(Instant::now());
            if state.changed != self.file.changed() {
                match self.read() {
                    Ok(read) => state.follow(read),
                    // Whoever was let in before still is; nobody else.
                    Err(problem) => tracing::error!(%problem, "the keys of clients cannot be read again"),
                }
            }
        }
        look(&state.clients)
    }

    fn read(&self) -> Result<Read, KeyProblem> {
        // Taken first: what changes while it is read is read again.
        let changed = self.file.changed();
        let client = |known: KnownClient| {
            // A name that is none is a server that is never there.
            let visible = |servers: BTreeSet<String>| servers.iter().filter_map(|name| name.parse().ok()).collect();
            let servers = known.servers.map_or(Visible::All, visible);
            let client = Client::with_key(&known.name, &known.key, servers);
            (known.key, known.expires, Arc::new(client))
        };
        let clients = self.file.list()?.into_iter().map(client).collect();
        Ok(Read { clients, changed, looked: Some(Instant::now()), gone: Vec::new() })
    }
}

impl Read {
    /// Becomes what was read now. Who is still there as before is the same client; who is not is gone.
    fn follow(&mut self, mut next: Self) {
        next.gone.append(&mut self.gone);
        for (digest, _, client) in self.clients.drain(..) {
            match next.clients.iter_mut().find(|(known, _, same)| *known == digest && *same == client) {
                Some((_, _, same)) => *same = client,
                None => {
                    client.gone.cancel();
                    next.gone.push(client);
                }
            }
        }
        *self = next;
    }
}

fn is_good(expires: Option<u64>) -> bool {
    expires.is_none_or(|expires| since_1970() < expires)
}

fn since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn check_name(name: &str) -> Result<(), KeyProblem> {
    let fits = !name.is_empty() && name.len() <= 64;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    if fits && name.chars().all(plain) { Ok(()) } else { Err(KeyProblem::BadName(name.to_owned())) }
}

// === impl Digest ===

impl Digest {
    /// What tells one key from another in what is sealed: enough for that, and not the whole digest.
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

    use super::{Digest, KeyFile, KeyProblem, KeyRing, LOOK_AGAIN};

    fn folder() -> (tempfile::TempDir, KeyFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("clients.json"));
        (folder, file)
    }

    #[test]
    fn a_key_lets_its_client_in_until_it_is_taken_back() {
        let (_folder, file) = folder();
        let servers = BTreeSet::from(["files".parse().unwrap()]);
        let key = file.add("editor", None, Some(servers)).unwrap();
        let ring = KeyRing::open(file.clone()).unwrap();
        let client = ring.find(&Digest::of(key.expose())).unwrap();
        assert!(client.sees(&"files".parse().unwrap()) && !client.sees(&"mail".parse().unwrap()));
        assert!(ring.find(&Digest::of("tw_other")).is_none());
        file.revoke("editor").unwrap();
        std::thread::sleep(LOOK_AGAIN + Duration::from_millis(50));
        assert!(ring.find(&Digest::of(key.expose())).is_none() && ring.named("editor").is_none());
    }

    #[test]
    fn a_key_whose_time_is_over_is_refused() {
        let (_folder, file) = folder();
        let key = file.add("short", Some(Duration::ZERO), None).unwrap();
        let ring = KeyRing::open(file.clone()).unwrap();
        assert!(ring.find(&Digest::of(key.expose())).is_none());
        assert!(file.list().unwrap()[0].is_over());
    }

    #[test]
    fn the_file_holds_no_key_and_names_are_unique() {
        let (folder, file) = folder();
        let key = file.add("editor", None, None).unwrap();
        let text = std::fs::read_to_string(folder.path().join("clients.json")).unwrap();
        assert!(!text.contains(key.expose()) && text.contains("editor"));
        assert!(matches!(file.add("editor", None, None), Err(KeyProblem::Taken(_))));
        assert!(matches!(file.add("two words", None, None), Err(KeyProblem::BadName(_))));
        assert!(matches!(file.revoke("nobody"), Err(KeyProblem::Unknown(_))));
        assert_eq!(key.expose().len(), 3 + 43);
    }

    #[test]
    fn a_damaged_file_lets_nobody_in() {
        let (folder, file) = folder();
        for text in ["nonsense", r#"[{"name":"a","key":"00","made":1}]"#] {
            std::fs::write(folder.path().join("clients.json"), text).unwrap();
            assert!(matches!(KeyRing::open(file.clone()), Err(KeyProblem::Damaged { .. })), "{text}");
        }
    }
}
