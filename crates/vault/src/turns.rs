//! Whose turn it is to change a credential: one holder at a time, among tasks and among processes.
//!
//! Tasks of this process queue in front of a semaphore; the first of them waits for the lock of a file that is named by
//! a digest of the key. The lock dies with its holder. The holder removes the file before it lets go, and whoever gets
//! a lock looks whether the file is still the one at that name: so files of turns that are over do not pile up.

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
    vault::{Turn, VaultError},
};
use toolway_config::ownership;

use crate::folder::PrivateFolder;

/// Gives turns. Cloning is cheap; every clone gives the same ones.
#[derive(Clone)]
pub struct Turns {
    reach: Reach,
    // Nothing awaits under this lock. What no task waits for or holds is removed by the next one that comes.
    queues: Arc<Mutex<BTreeMap<String, Weak<Semaphore>>>>,
}

#[derive(Clone, Debug)]
enum Reach {
    Processes(PrivateFolder),
    Process,
}

/// A turn that is held. The file goes before the place in the queue.
struct Held {
    _file: Option<LockedFile>,
    _permit: OwnedSemaphorePermit,
}

struct LockedFile {
    path: PathBuf,
    file: File,
}

/// What became of an attempt to lock a file.
enum Attempt {
    Got(LockedFile),
    Taken,
}

/// The first wait between attempts; it doubles up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(2);
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// A turn is as long as one renewal, whose requests have a shorter bound; who holds it longer is stuck.
const PATIENCE: Duration = Duration::from_secs(120);

// === impl Turns ===

impl Turns {
    /// Turns among all processes that use this folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { reach: Reach::Processes(PrivateFolder::at(folder)), queues: Arc::default() }
    }

    /// Turns among the tasks of this process.
    pub fn within_process() -> Self {
        Self { reach: Reach::Process, queues: Arc::default() }
    }

    /// Waits for the turn of this key.
    pub async fn take(&self, key: &CredentialKey) -> Result<Turn, VaultError> {
        let name = digest_of(key);
        let queue = self.queue(&name);
        // Never closed, so never refused.
        let permit = queue.acquire_owned().await.map_err(|_| self.failed("is closed"))?;
        let file = match &self.reach {
            Reach::Processes(folder) => Some(self.lock(folder, &name).await?),
            Reach::Process => None,
        };
        Ok(Turn::new(Held { _file: file, _permit: permit }))
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

    /// Tries again and again instead of waiting in a thread: a wait that is given up leaves nothing behind.
    async fn lock(&self, folder: &PrivateFolder, name: &str) -> Result<LockedFile, VaultError> {
        folder.make().map_err(|error| self.failed(format!("cannot be used: {error}")))?;
        let (began, mut wait) = (Instant::now(), FIRST_WAIT);
        while began.elapsed() < PATIENCE {
            match attempt(&folder.file(name)) {
                Ok(Attempt::Got(locked)) => return Ok(locked),
                Ok(Attempt::Taken) => time::sleep(wait).await,
                Err(error) => return Err(self.failed(format!("cannot be locked: {error}"))),
            }
            wait = LONGEST_WAIT.min(wait * 2);
        }
        Err(self.failed(format!("is busy: another process is renewing this credential for more than {PATIENCE:?}")))
    }

    fn failed(&self, problem: impl Into<String>) -> VaultError {
        let place = match &self.reach {
            Reach::Processes(folder) => folder.path().display().to_string(),
            Reach::Process => "memory".to_owned(),
        };
        VaultError { place, problem: problem.into() }
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").field("reach", &self.reach).finish_non_exhaustive()
    }
}

/// A name that says nothing about the key.
pub(crate) fn digest_of(key: &CredentialKey) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for field in [&key.principal, &key.issuer, &key.client, &key.resource] {
        context.update(&(field.len() as u64).to_be_bytes());
        context.update(field.as_bytes());
    }
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attempt(path: &Path) -> io::Result<Attempt> {
    let file = ownership::to_write_privately().create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Ok(()) if is_at(&file, path)? => Ok(Attempt::Got(LockedFile { path: path.to_owned(), file })),
        // Its holder removed it while we opened it.
        Ok(()) | Err(TryLockError::WouldBlock) => Ok(Attempt::Taken),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether the file is the one at this path.
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

/// Files of turns are not removed here, so it is; there is one for each credential that was ever renewed.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Removes the name of a file whose lock is held. Elsewhere it stays, see [`is_at`].
fn remove(path: &Path) {
    if cfg!(unix) {
        drop(std::fs::remove_file(path));
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // First the name, then the lock: whoever gets the lock sees that the name is gone.
        remove(&self.path);
        drop(self.file.unlock());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time;
    use toolway_auth::credential::CredentialKey;

    use super::{Turns, digest_of};

    fn key(principal: &str, issuer: &str) -> CredentialKey {
        let (client, resource) = ("toolway".to_owned(), "https://example.org/mcp".to_owned());
        CredentialKey { principal: principal.to_owned(), issuer: issuer.to_owned(), client, resource }
    }

    #[test]
    fn each_key_has_a_name_of_its_own_that_does_not_say_it() {
        let name = digest_of(&key("ada", "https://login.example"));
        assert_eq!(name, digest_of(&key("ada", "https://login.example")));
        assert_ne!(name, digest_of(&key("adah", "ttps://login.example")));
        assert!(name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_never_gives_the_turn_back_is_not_waited_for_forever() {
        let home = tempfile::tempdir().unwrap();
        let (stuck, other) = (Turns::in_folder(home.path().join("turns")), Turns::in_folder(home.path().join("turns")));
        let _held = stuck.take(&key("ada", "i")).await.unwrap();
        let refusal = other.take(&key("ada", "i")).await.unwrap_err().to_string();
        assert!(refusal.ends_with("another process is renewing this credential for more than 120s"), "{refusal}");
        other.take(&key("bob", "i")).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn within_a_process_the_turn_is_among_its_tasks_and_queues_do_not_pile_up() {
        let turns = Turns::within_process();
        for number in 0..100 {
            drop(turns.take(&key(&number.to_string(), "i")).await.unwrap());
        }
        let held = turns.take(&key("ada", "i")).await.unwrap();
        assert_eq!(turns.queues.lock().len(), 1);
        assert!(time::timeout(Duration::from_secs(1), turns.clone().take(&key("ada", "i"))).await.is_err());
        drop(held);
        turns.take(&key("ada", "i")).await.unwrap();
    }
}
