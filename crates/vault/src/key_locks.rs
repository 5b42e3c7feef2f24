//! One lock per credential: one holder at a time, across tasks and processes.
//!
//! Tasks of this process queue at a semaphore; the first of them waits for the lock of a file that is named by a digest
//! of the key. The system releases the lock when its holder dies. The holder removes the file before it releases the
//! lock, and a process that gets a lock checks that the file is still the one at that path, so lock files do not pile up.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use ring::digest;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{self, Instant},
};
use toolway_auth::{
    credential::CredentialKey,
    vault::{VaultError, VaultLock},
};
use toolway_config::ownership;

use crate::folder::PrivateFolder;

/// Locks by credential key. Cloning is cheap; all clones share the same locks.
#[derive(Clone)]
pub struct KeyLocks {
    scope: LockScope,
    // Nothing awaits under this lock. Unused queues are removed when a new one is added.
    queues: Arc<Mutex<BTreeMap<String, Weak<Semaphore>>>>,
}

#[derive(Clone, Debug)]
enum LockScope {
    Processes(PrivateFolder),
    Process,
}

/// A held lock. The file lock is released before the permit, in field order.
struct HeldLock {
    _file: Option<LockedFile>,
    _permit: OwnedSemaphorePermit,
}

struct LockedFile {
    path: PathBuf,
    file: File,
}

/// Result of an attempt to lock a file.
enum Attempt {
    Got(LockedFile),
    Taken,
}

/// Interval between attempts; doubles from the first value up to the maximum.
const FIRST_INTERVAL: Duration = Duration::from_millis(2);
const MAX_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum wait for a lock. One refresh takes less, so a longer holder hangs.
const LOCK_TIMEOUT: Duration = Duration::from_secs(120);

// === impl KeyLocks ===

impl KeyLocks {
    /// Locks across all processes that use this folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { scope: LockScope::Processes(PrivateFolder::at(folder)), queues: Arc::default() }
    }

    /// Locks across the tasks of this process.
    pub fn within_process() -> Self {
        Self { scope: LockScope::Process, queues: Arc::default() }
    }

    /// Waits for the lock of this key.
    pub async fn take(&self, key: &CredentialKey) -> Result<VaultLock, VaultError> {
        let name = digest_of(key);
        let queue = self.queue(&name);
        // The semaphore is never closed.
        let permit = queue.acquire_owned().await.map_err(|_| self.failed("is closed"))?;
        let file = match &self.scope {
            LockScope::Processes(folder) => Some(self.lock(folder, &name).await?),
            LockScope::Process => None,
        };
        Ok(VaultLock::new(HeldLock { _file: file, _permit: permit }))
    }

    fn queue(&self, name: &str) -> Arc<Semaphore> {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get(name).and_then(Weak::upgrade) {
            return queue;
        }
        queues.retain(|_, queue| queue.strong_count() != 0);
        let queue = Arc::new(Semaphore::new(1));
        queues.insert(name.to_owned(), Arc::downgrade(&queue));
        queue
    }

    /// Polls instead of blocking a thread, so that a cancelled wait leaves nothing behind.
    async fn lock(&self, folder: &PrivateFolder, name: &str) -> Result<LockedFile, VaultError> {
        folder.create().map_err(|error| self.failed(format!("cannot be used: {error}")))?;
        let (began, mut wait) = (Instant::now(), FIRST_INTERVAL);
        while began.elapsed() < LOCK_TIMEOUT {
            match attempt(&folder.file(name)) {
                Ok(Attempt::Got(locked)) => return Ok(locked),
                Ok(Attempt::Taken) => time::sleep(wait).await,
                Err(error) => return Err(self.failed(format!("cannot be locked: {error}"))),
            }
            wait = MAX_INTERVAL.min(wait * 2);
        }
        let problem = format!("is busy: another process has held the lock of this credential for {LOCK_TIMEOUT:?}");
        Err(self.failed(problem))
    }

    fn failed(&self, problem: impl Into<String>) -> VaultError {
        let place = match &self.scope {
            LockScope::Processes(folder) => folder.path().display().to_string(),
            LockScope::Process => "memory".to_owned(),
        };
        VaultError { place, problem: problem.into() }
    }
}

impl fmt::Debug for KeyLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLocks").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// Hex digest of a key, which does not reveal the key.
pub(crate) fn digest_of(key: &CredentialKey) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for field in [&key.principal, &key.issuer, &key.client, &key.resource] {
        context.update(&(field.len() as u64).to_be_bytes());
        context.update(field.as_bytes());
    }
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attempt(path: &Path) -> io::Result<Attempt> {
    let file = ownership::private_write_options().create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Ok(()) if is_at(&file, path)? => Ok(Attempt::Got(LockedFile { path: path.to_owned(), file })),
        // The holder removed the file while we opened it.
        Ok(()) | Err(TryLockError::WouldBlock) => Ok(Attempt::Taken),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether the open file is still the one at this path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let opened = file.metadata()?;
    match path.symlink_metadata() {
        Ok(found) => Ok((found.dev(), found.ino()) == (opened.dev(), opened.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Lock files are not removed on this system, so this is always true; there is one file per credential.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Removes a lock file while its lock is held. On other systems it stays, see [`is_at`].
fn remove(path: &Path) {
    if cfg!(unix) {
        drop(std::fs::remove_file(path));
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // The file is removed before the lock is released, so that the next holder sees that it is gone.
        remove(&self.path);
        drop(self.file.unlock());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time;
    use toolway_auth::credential::CredentialKey;

    use super::{KeyLocks, digest_of};

    fn key(principal: &str, issuer: &str) -> CredentialKey {
        let (client, resource) = ("toolway".to_owned(), "https://example.org/mcp".to_owned());
        CredentialKey { principal: principal.to_owned(), issuer: issuer.to_owned(), client, resource }
    }

    #[test]
    fn each_key_has_its_own_digest() {
        let name = digest_of(&key("ada", "https://login.example"));
        assert_eq!(name, digest_of(&key("ada", "https://login.example")));
        assert_ne!(name, digest_of(&key("adah", "ttps://login.example")));
        assert!(name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    }

    #[tokio::test(start_paused = true)]
    async fn wait_for_a_lock_that_is_never_released_times_out() {
        let home = tempfile::tempdir().unwrap();
        let (stuck, other) =
            (KeyLocks::in_folder(home.path().join("locks")), KeyLocks::in_folder(home.path().join("locks")));
        let _held = stuck.take(&key("ada", "i")).await.unwrap();
        let refusal = other.take(&key("ada", "i")).await.unwrap_err().to_string();
        assert!(refusal.ends_with("another process has held the lock of this credential for 120s"), "{refusal}");
        other.take(&key("bob", "i")).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn lock_within_a_process_excludes_tasks_and_queues_do_not_pile_up() {
        let locks = KeyLocks::within_process();
        for number in 0..100 {
            drop(locks.take(&key(&number.to_string(), "i")).await.unwrap());
        }
        let held = locks.take(&key("ada", "i")).await.unwrap();
        assert_eq!(locks.queues.lock().len(), 1);
        assert!(time::timeout(Duration::from_secs(1), locks.clone().take(&key("ada", "i"))).await.is_err());
        drop(held);
        locks.take(&key("ada", "i")).await.unwrap();
    }
}
