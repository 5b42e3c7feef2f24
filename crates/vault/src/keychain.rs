//! The keychain of the operating system: a vault for credentials, and the user's own entries for references.
//!
//! | type | responsibility |
//! |---|---|
//! | [`SystemKeychain`] | access to the keychain; implements config's `Keychain` port |
//! | [`KeychainVault`] | credentials in the keychain, found by a digest of their key |
//!
//! A keychain may hang or want to prompt the user. Every access has a timeout, none blocks a runtime thread, and none
//! opens a prompt: a locked keychain is reported as locked, and the user unlocks it.

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

use self::secret_service::{Bus, KeychainSession};
pub use self::vault::KeychainVault;

/// Keychain of the desktop session. Cloning is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemKeychain {
    bus: Bus,
}

/// Why the keychain cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    not(all(unix, not(target_os = "macos"))),
    expect(dead_code, reason = "without a keychain only `Absent` occurs")
)]
pub(crate) enum KeychainProblem {
    #[error("no keychain is available: {0}")]
    Absent(String),
    #[error("it is locked; unlock it and try again")]
    Locked,
    #[error("it has no default collection; create one with the password manager of your desktop")]
    NoCollection,
    #[error("it did not respond within {0:?}")]
    TimedOut(Duration),
    #[error("it failed: {0}")]
    Broken(String),
    #[error("an entry of Toolway was modified; remove it with the password manager of your desktop")]
    Changed,
    #[error("it has more than {0} entries of Toolway")]
    TooMany(usize),
}

/// Timeout for detecting the keychain; a slower one is not used.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for any other access.
const ACCESS_TIMEOUT: Duration = Duration::from_secs(10);

// === impl SystemKeychain ===

impl SystemKeychain {
    /// The keychain of this environment, if there is a session bus. Does not connect yet.
    pub fn of(environment: &Environment) -> Option<Self> {
        Bus::of(environment).map(|bus| Self { bus })
    }

    /// Checks that the keychain responds and can store credentials.
    pub(crate) async fn ready(&self) -> Result<(), KeychainProblem> {
        within(PROBE_TIMEOUT, async { self.bus.open_session().await?.ready().await }).await
    }

    /// Runs `act` in a new session, with a timeout.
    async fn with_session<T>(
        &self,
        act: impl AsyncFnOnce(&KeychainSession) -> Result<T, KeychainProblem>,
    ) -> Result<T, KeychainProblem> {
        within(ACCESS_TIMEOUT, async { act(&self.bus.open_session().await?).await }).await
    }

    /// Reads the entry that other programs store under this service and user name.
    async fn entry(&self, service: &str, entry: &str) -> Result<Secret, KeychainError> {
        let attributes = [("service", service), ("username", entry)].into();
        let read = self.with_session(async |session| session.read(&session.find(&attributes).await?).await).await;
        let mut found = read.map_err(|problem| closed(format!("the keychain cannot be read: {problem}")))?;
        let Some(secret) = found.pop() else {
            return Err(KeychainError::Missing);
        };
        if !found.is_empty() {
            return Err(closed("several entries match; remove all but one"));
        }
        String::from_utf8(secret).map(Secret::new).map_err(|_| closed("the entry is not valid UTF-8"))
    }
}

impl Keychain for SystemKeychain {
    /// Blocks the calling thread for up to [`ACCESS_TIMEOUT`]; a multi-threaded runtime is told with `block_in_place`.
    fn get(&self, service: &str, entry: &str) -> Result<Secret, KeychainError> {
        let (keychain, service, entry) = (self.clone(), service.to_owned(), entry.to_owned());
        let read = move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(keychain.entry(&service, &entry)))
        };
        let result = match Handle::try_current().map(|handle| handle.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => task::block_in_place(|| in_thread(read)),
            _ => in_thread(read),
        };
        result.unwrap_or_else(|error| Err(closed(format!("the keychain cannot be used: {error}"))))
    }
}

/// A runtime within a runtime needs a thread of its own.
fn in_thread<T: Send + 'static>(act: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let thread = thread::Builder::new().name("keychain".to_owned()).spawn(act)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the keychain thread failed")))
}

async fn within<T>(
    timeout: Duration,
    access: impl Future<Output = Result<T, KeychainProblem>>,
) -> Result<T, KeychainProblem> {
    time::timeout(timeout, access).await.unwrap_or(Err(KeychainProblem::TimedOut(timeout)))
}

fn closed(problem: impl Into<String>) -> KeychainError {
    KeychainError::Closed(problem.into())
}
