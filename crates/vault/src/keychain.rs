//! The operating system's keychain: a vault for credentials, and the user's own entries that a configuration names.
//!
//! | read | for |
//! |---|---|
//! | [`SystemKeychain`] | whether there is one; config's `Keychain` port |
//! | [`KeychainVault`] | credentials in it, found by a digest of their key |
//!
//! A keychain may hang or want to ask a person. Every visit has a bound, none waits in a thread of the runtime, and none
//! opens a prompt: a keychain that is locked says so, and whoever wants it unlocks it.

#[cfg(not(all(unix, not(target_os = "macos"))))]
#[path = "keychain/none.rs"]
mod secret_service;
#[cfg(all(unix, not(target_os = "macos")))]
mod secret_service;
mod vault;

use std::{future::Future, io, thread, time::Duration};

use tokio::{
    runtime::{self, Handle, RuntimeFlavor},
    task, time,
};
use toolway_config::{Environment, Keychain, Secret, keychain::KeychainError};

use self::secret_service::{Bus, Visit};
pub use self::vault::KeychainVault;

/// The keychain of a person's session. Cloning is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemKeychain {
    bus: Bus,
}

/// Why the keychain does not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    not(all(unix, not(target_os = "macos"))),
    expect(dead_code, reason = "a keychain that is not there is neither locked nor broken")
)]
pub(crate) enum KeychainProblem {
    #[error("there is no keychain: {0}")]
    Absent(String),
    #[error("it is locked; unlock it and try again")]
    Locked,
    #[error("it has no default collection; make one with the desktop's program for passwords")]
    NoCollection,
    #[error("it does not answer within {0:?}")]
    Silent(Duration),
    #[error("it fails: {0}")]
    Broken(String),
    #[error("an entry of ours is not as we left it; remove it with the desktop's program for passwords")]
    Changed,
    #[error("it holds more than {0} entries of ours")]
    TooMany(usize),
}

/// A keychain that takes longer to say that it is there is not used.
pub(crate) const PROBE: Duration = Duration::from_secs(2);
/// What any other visit may take.
const PATIENCE: Duration = Duration::from_secs(10);

// === impl SystemKeychain ===

impl SystemKeychain {
    /// The keychain that this environment leads to, if it leads to one. Nobody is asked yet.
    pub fn of(environment: &Environment) -> Option<Self> {
        Bus::of(environment).map(|bus| Self { bus })
    }

    /// Whether it answers and credentials can be kept in it.
    pub(crate) async fn ready(&self) -> Result<(), KeychainProblem> {
        within(PROBE, async { self.bus.visit().await?.ready().await }).await
    }

    /// One visit, within its bound.
    async fn visit<T>(
        &self,
        act: impl AsyncFnOnce(&Visit) -> Result<T, KeychainProblem>,
    ) -> Result<T, KeychainProblem> {
        within(PATIENCE, async { act(&self.bus.visit().await?).await }).await
    }

    /// The entry that other programs keep under this service and user name.
    async fn entry(&self, service: &str, entry: &str) -> Result<Secret, KeychainError> {
        let attributes = [("service", service), ("username", entry)].into();
        let read = self.visit(async |visit| visit.read(&visit.find(&attributes).await?).await).await;
        let mut found = read.map_err(|problem| closed(format!("the keychain cannot be read: {problem}")))?;
        let Some(secret) = found.pop() else {
            return Err(KeychainError::Missing);
        };
        if !found.is_empty() {
            return Err(closed("there are several such entries; remove all but one"));
        }
        String::from_utf8(secret).map(Secret::new).map_err(|_| closed("the entry is not text"))
    }
}

impl Keychain for SystemKeychain {
    /// Waits in the calling thread, up to the bound of a visit; the runtime is told, where it is one that can be.
    fn get(&self, service: &str, entry: &str) -> Result<Secret, KeychainError> {
        let (keychain, service, entry) = (self.clone(), service.to_owned(), entry.to_owned());
        let visit = move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(keychain.entry(&service, &entry)))
        };
        let visited = match Handle::try_current().map(|handle| handle.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => task::block_in_place(|| in_thread(visit)),
            _ => in_thread(visit),
        };
        visited.unwrap_or_else(|error| Err(closed(format!("the keychain cannot be asked: {error}"))))
    }
}

/// A runtime within a runtime needs a thread of its own.
fn in_thread<T: Send + 'static>(act: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let thread = thread::Builder::new().name("keychain".to_owned()).spawn(act)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that asks has failed")))
}

async fn within<T>(
    bound: Duration,
    visit: impl Future<Output = Result<T, KeychainProblem>>,
) -> Result<T, KeychainProblem> {
    time::timeout(bound, visit).await.unwrap_or(Err(KeychainProblem::Silent(bound)))
}

fn closed(problem: impl Into<String>) -> KeychainError {
    KeychainError::Closed(problem.into())
}
