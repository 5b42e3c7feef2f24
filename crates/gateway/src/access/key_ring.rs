//! The accepted keys of a running gateway: the key file as of its last check.
//!
//! The file is read again when it has changed: every [`RELOAD_INTERVAL`], for a key that is not known, and when a command
//! asks for it. While a changed file cannot be read, a key that it revokes would still be accepted; after
//! [`UNREADABLE_GRACE`] all keys are refused until it can be read again.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use toolway_config::FileStamp;
use toolway_host::call::VisibleServers;

use super::{
    Client, ClientBounds, KeyEnd,
    key_digest::Digest,
    key_use::{KeyUseFile, LastUses},
    keys::{KeyError, KeyFile, KnownClient, is_unexpired, unix_seconds},
};

/// The keys of one file.
pub(super) struct KeyRing {
    file: KeyFile,
    // Nothing awaits under this lock.
    state: Mutex<KeySnapshot>,
    /// What the configuration lets clients see.
    bounds: Mutex<ClientBounds>,
    /// Times of last use as they were last written.
    written: Mutex<LastUses>,
}

#[derive(Default)]
struct KeySnapshot {
    clients: Vec<KeyEntry>,
    /// Version of the file that `clients` is from; `None`: there was no file.
    stamp: Option<FileStamp>,
    /// Time of the last check.
    checked: Option<Instant>,
    unreadable: Option<Unreadable>,
    /// Clients whose keys were revoked and that [`KeyRing::take_revoked`] has not returned yet.
    revoked: Vec<Arc<Client>>,
}

type KeyEntry = (Digest, Option<u64>, Arc<Client>);

/// The file has changed and cannot be read.
#[derive(Clone, Copy)]
struct Unreadable {
    since: Instant,
    /// All keys are refused.
    refusing: bool,
}

/// Minimum time between two checks of the file: how long a revoked key may still be accepted.
const RELOAD_INTERVAL: Duration = Duration::from_millis(250);
/// How long the keys of the last readable version stay valid while a changed file cannot be read.
const UNREADABLE_GRACE: Duration = Duration::from_secs(10);

// === impl KeyRing ===

impl KeyRing {
    pub(super) fn open(file: KeyFile) -> Result<Self, KeyError> {
        let ring = Self { file, state: Mutex::default(), bounds: Mutex::default(), written: Mutex::default() };
        let read = ring.read()?;
        *ring.state.lock() = read;
        Ok(ring)
    }

    pub(super) fn path(&self) -> &std::path::Path {
        self.file.path()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().clients.is_empty()
    }

    /// The client with this key; `None` if it is unknown or expired.
    pub(super) fn find(&self, digest: &Digest) -> Option<Arc<Client>> {
        let find = |clients: &[KeyEntry]| {
            // Compares all keys, so that the time taken reveals nothing.
            clients.iter().fold(None, |found, (known, expires, client)| {
                let valid = *known == *digest && is_unexpired(*expires);
                if valid { Some(Arc::clone(client)) } else { found }
            })
        };
        let found = self.with_clients(find).or_else(|| {
            // The key may be newer than the last check.
            let mut state = self.state.lock();
            self.check(&mut state);
            find(&state.clients)
        });
        if let Some(client) = &found {
            client.used.store(unix_seconds(), Ordering::Relaxed);
        }
        found
    }

    /// Writes the times of last use that are not in the file yet.
    pub(super) fn write_uses(&self) {
        let uses: LastUses = {
            let state = self.state.lock();
            let used = state.clients.iter().map(|(digest, _, client)| (digest, client.used.load(Ordering::Relaxed)));
            let used = used.filter(|(_, used)| 0 < *used).map(|(digest, used)| (digest.mark(), used));
            used.collect()
        };
        let mut written = self.written.lock();
        if uses.is_empty() || *written == uses {
            return;
        }
        match KeyUseFile::beside(self.file.path()).add(&uses) {
            Ok(()) => *written = uses,
            Err(error) => tracing::debug!(%error, "cannot write when the client keys were used"),
        }
    }

    pub(super) fn named(&self, name: &str) -> Option<Arc<Client>> {
        self.find_client(|client| &*client.name == name)
    }

    /// The first client with a valid key that is the one.
    pub(super) fn find_client(&self, is_it: impl Fn(&Client) -> bool) -> Option<Arc<Client>> {
        self.with_clients(|clients| {
            let valid = clients.iter().filter(|(_, expires, _)| is_unexpired(*expires));
            valid.map(|(_, _, client)| client).find(|client| is_it(client)).cloned()
        })
    }

    /// Whether no client is restricted to some servers.
    pub(super) fn all_clients_see_all_servers(&self) -> bool {
        self.with_clients(|clients| clients.iter().all(|(_, _, client)| client.servers == VisibleServers::All))
    }

    /// Takes the clients whose keys were revoked or expired since the last call, and cancels their tokens.
    pub(super) fn take_revoked(&self) -> Vec<(Arc<Client>, KeyEnd)> {
        self.with_clients(|_| ());
        let mut state = self.state.lock();
        let expired = |(_, expires, client): &&KeyEntry| !is_unexpired(*expires) && !client.revoked.is_cancelled();
        let expired: Vec<_> = state.clients.iter().filter(expired).map(|(_, _, client)| Arc::clone(client)).collect();
        expired.iter().for_each(|client| client.revoked.cancel());
        let revoked = state.revoked.drain(..).map(|client| (client, KeyEnd::Revoked));
        revoked.chain(expired.into_iter().map(|client| (client, KeyEnd::Expired))).collect()
    }

    /// Takes the revoked clients that had the name of `client`.
    pub(super) fn take_revoked_namesakes(&self, client: &Client) -> Vec<Arc<Client>> {
        self.state.lock().revoked.extract_if(.., |revoked| revoked.name == client.name).collect()
    }

    /// Sets what the configuration lets clients see, and applies it.
    pub(super) fn set_bounds(&self, bounds: &ClientBounds) {
        let before = std::mem::replace(&mut *self.bounds.lock(), bounds.clone());
        if before != *bounds {
            // The problem is logged.
            let _logged = self.reload();
        }
    }

    /// Reads the file now. On failure the grace period of the previous keys begins or continues.
    pub(super) fn reload(&self) -> Result<(), KeyError> {
        let mut state = self.state.lock();
        let read = self.read();
        self.apply(&mut state, read)
    }

    fn with_clients<T>(&self, look: impl FnOnce(&[KeyEntry]) -> T) -> T {
        let mut state = self.state.lock();
        if state.checked.is_none_or(|checked| RELOAD_INTERVAL <= checked.elapsed()) {
            self.check(&mut state);
        }
        look(&state.clients)
    }

    /// Reads the file if it is not the version read last.
    fn check(&self, state: &mut KeySnapshot) {
        state.checked = Some(Instant::now());
        let unchanged = self.file.stamp().is_ok_and(|stamp| stamp == state.stamp);
        if unchanged && state.unreadable.is_none() {
            return;
        }
        // The problem is logged.
        let _logged = self.apply(state, self.read());
    }

    fn apply(&self, state: &mut KeySnapshot, read: Result<KeySnapshot, KeyError>) -> Result<(), KeyError> {
        let problem = match read {
            Ok(read) => {
                if state.unreadable.is_some() {
                    tracing::warn!(file = %self.file.path().display(), "the client keys can be read again");
                }
                state.replace_with(read);
                return Ok(());
            }
            Err(problem) => problem,
        };
        match state.unreadable {
            None => {
                tracing::error!(%problem, "cannot reload the client keys; all keys will be refused in 10 s");
                state.unreadable = Some(Unreadable { since: Instant::now(), refusing: false });
            }
            Some(Unreadable { since, refusing: false }) if UNREADABLE_GRACE <= since.elapsed() => {
                tracing::error!(%problem, "cannot reload the client keys; all keys are refused until they can be read");
                state.revoke_all();
                state.unreadable = Some(Unreadable { since, refusing: true });
            }
            Some(_) => {}
        }
        Err(problem)
    }

    fn read(&self) -> Result<KeySnapshot, KeyError> {
        // Taken first: a change during the read causes another read. If it fails, so does the read.
        let stamp = self.file.stamp().ok().flatten();
        let bounds = self.bounds.lock().clone();
        let keys = |known: KnownClient| {
            let identity = known.identity();
            let servers = match bounds.get(&known.name) {
                Some(bound) => known.visible().within(bound.clone()),
                None => known.visible(),
            };
            // One for each key: what was opened with one ends with it.
            let client =
                |key: &Digest| Arc::new(Client::with_key(&known.name, &identity, key, servers.clone(), known.scope));
            let current = client(&known.key);
            let previous = known.previous.as_ref().map(|previous| client(&previous.key));
            let previous =
                known.previous.zip(previous).map(|(before, client)| (before.key, Some(before.expires), client));
            [Some((known.key, known.expires, current)), previous].into_iter().flatten()
        };
        let clients = self.file.list()?.into_iter().flat_map(keys).collect();
        Ok(KeySnapshot { clients, stamp, checked: Some(Instant::now()), unreadable: None, revoked: Vec::new() })
    }
}

// === impl KeySnapshot ===

impl KeySnapshot {
    /// Replaces the snapshot. Unchanged clients keep their `Arc`; all others are revoked.
    fn replace_with(&mut self, mut next: Self) {
        next.revoked.append(&mut self.revoked);
        for (digest, _, client) in self.clients.drain(..) {
            match next.clients.iter_mut().find(|(known, _, same)| *known == digest && *same == client) {
                Some((_, _, same)) => *same = client,
                // It ended when it expired.
                None if client.revoked.is_cancelled() => {}
                None => {
                    client.revoked.cancel();
                    next.revoked.push(client);
                }
            }
        }
        *self = next;
    }

    fn revoke_all(&mut self) {
        for (_, _, client) in self.clients.drain(..) {
            client.revoked.cancel();
            self.revoked.push(client);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use tokio::time::advance;

    use super::{Digest, KeyFile, KeyRing, RELOAD_INTERVAL, UNREADABLE_GRACE};

    fn folder() -> (tempfile::TempDir, KeyFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("clients.json"));
        (folder, file)
    }

    #[tokio::test(start_paused = true)]
    async fn key_is_accepted_until_it_is_revoked() {
        let (_folder, file) = folder();
        let servers = BTreeSet::from(["files".parse().unwrap()]);
        let key = file.add("editor", None, Some(servers)).unwrap();
        let ring = KeyRing::open(file.clone()).unwrap();
        let client = ring.find(&Digest::of(key.expose())).unwrap();
        assert!(client.sees(&"files".parse().unwrap()) && !client.sees(&"mail".parse().unwrap()));
        assert!(ring.find(&Digest::of("tw_other")).is_none());
        file.revoke("editor").unwrap();
        advance(RELOAD_INTERVAL).await;
        assert!(ring.find(&Digest::of(key.expose())).is_none() && ring.named("editor").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn expired_key_is_refused() {
        let (_folder, file) = folder();
        let key = file.add("short", Some(Duration::ZERO), None).unwrap();
        let ring = KeyRing::open(file).unwrap();
        assert!(ring.find(&Digest::of(key.expose())).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn new_key_is_valid_at_once() {
        let (_folder, file) = folder();
        let ring = KeyRing::open(file.clone()).unwrap();
        let key = file.add("editor", None, None).unwrap();
        assert!(ring.find(&Digest::of(key.expose())).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn all_keys_are_refused_while_the_changed_file_cannot_be_read() {
        let (folder, file) = folder();
        let key = Digest::of(file.add("editor", None, None).unwrap().expose());
        let ring = KeyRing::open(file.clone()).unwrap();
        let client = ring.find(&key).unwrap();
        let (path, away) = (folder.path().join("clients.json"), folder.path().join("away"));
        std::fs::rename(&path, &away).unwrap();
        std::fs::write(&path, "[").unwrap();
        advance(RELOAD_INTERVAL).await;
        assert!(ring.find(&key).is_some(), "a short failure refuses no client");
        advance(UNREADABLE_GRACE - RELOAD_INTERVAL).await;
        assert!(ring.find(&key).is_some());
        advance(RELOAD_INTERVAL).await;
        assert!(ring.find(&key).is_none() && ring.named("editor").is_none() && client.revoked.is_cancelled());
        assert_eq!(ring.take_revoked().len(), 1, "its sessions end");
        std::fs::rename(&away, &path).unwrap();
        advance(RELOAD_INTERVAL).await;
        assert!(ring.find(&key).is_some(), "accepted again once the file can be read");
    }

    #[tokio::test(start_paused = true)]
    async fn both_keys_are_accepted_during_the_overlap_of_a_rotation() {
        let (_folder, file) = folder();
        let before = Digest::of(file.add("editor", None, None).unwrap().expose());
        let ring = KeyRing::open(file.clone()).unwrap();
        let client = ring.find(&before).unwrap();
        let after = Digest::of(file.rotate("editor", Duration::from_secs(60)).unwrap().expose());
        ring.reload().unwrap();
        assert!(ring.find(&before).is_some() && !client.revoked.is_cancelled());
        assert_eq!(ring.find(&after).unwrap().identity, client.identity, "the same caller");
        file.rotate("editor", Duration::ZERO).unwrap();
        ring.reload().unwrap();
        assert!(ring.find(&before).is_none() && ring.find(&after).is_none() && client.revoked.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn last_use_of_a_key_is_written() {
        let (_folder, file) = folder();
        let key = Digest::of(file.add("editor", None, None).unwrap().expose());
        let ring = KeyRing::open(file.clone()).unwrap();
        ring.write_uses();
        assert_eq!(file.list().unwrap()[0].last_used(&file.last_uses()), None);
        ring.find(&key).unwrap();
        ring.write_uses();
        assert!(file.list().unwrap()[0].last_used(&file.last_uses()).is_some());
        file.revoke("editor").unwrap();
        file.forget_old_uses().unwrap();
        assert!(file.last_uses().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn reload_refuses_a_revoked_key_at_once() {
        let (_folder, file) = folder();
        let key = Digest::of(file.add("editor", None, None).unwrap().expose());
        let ring = KeyRing::open(file.clone()).unwrap();
        file.revoke("editor").unwrap();
        ring.reload().unwrap();
        assert!(ring.find(&key).is_none());
    }
}
