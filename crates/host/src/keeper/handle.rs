//! The handle to the keeper process that starts the programs of a host, if there is one.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, LazyLock, OnceLock},
};

use super::system::Keepers;

/// Handle to a keeper process, which is started with the first program. Clones share the process.
#[derive(Clone)]
pub struct KeeperHandle {
    inner: Arc<Inner>,
}

/// Whether child processes of servers are certain to be ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CleanupGuarantee {
    /// A keeper process ends all of them within two seconds, however this process ends.
    Full,
    /// This process ends them: processes that leave their group, and all if this process is killed, may remain.
    BestEffort {
        /// The reason, as a message without a final full stop.
        reason: String,
    },
}

struct Inner {
    executable: KeeperExecutable,
    keepers: Keepers,
}

/// The executable of the keeper process.
pub(super) enum KeeperExecutable {
    /// No keeper process.
    Disabled,
    /// That of this process.
    Own,
    /// That of this process, but [`run_if_keeper`](super::run_if_keeper) was not called.
    OwnNotEnabled,
    /// Another executable.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has a keeper"))]
    Other(PathBuf),
}

/// Set by [`run_if_keeper`](super::run_if_keeper).
static OWN_ENABLED: OnceLock<()> = OnceLock::new();
/// The handle of this process: the subreaper attribute applies to the whole process.
static OF_THIS_PROCESS: LazyLock<KeeperHandle> = LazyLock::new(|| KeeperHandle::new(KeeperExecutable::OwnNotEnabled));

pub(super) fn enable_own_executable() {
    OWN_ENABLED.get_or_init(|| ());
}

// === impl KeeperHandle ===

impl KeeperHandle {
    /// No keeper process: this process starts programs itself.
    pub fn disabled() -> Self {
        Self::new(KeeperExecutable::Disabled)
    }

    /// Uses another executable, for a program without its own `main`. It must call
    /// [`run_if_keeper`](super::run_if_keeper) first.
    pub fn with_executable(executable: impl Into<PathBuf>) -> Self {
        Self::new(KeeperExecutable::Other(executable.into()))
    }

    /// Whether child processes are certain to be ended, as far as known before the next start.
    pub fn cleanup(&self) -> CleanupGuarantee {
        match self.limitation() {
            Some(reason) => CleanupGuarantee::BestEffort { reason },
            None => CleanupGuarantee::Full,
        }
    }

    fn new(executable: KeeperExecutable) -> Self {
        Self { inner: Arc::new(Inner { executable, keepers: Keepers::default() }) }
    }

    pub(super) fn executable(&self) -> &KeeperExecutable {
        match &self.inner.executable {
            KeeperExecutable::OwnNotEnabled if OWN_ENABLED.get().is_some() => &KeeperExecutable::Own,
            executable => executable,
        }
    }

    pub(super) fn keepers(&self) -> &Keepers {
        &self.inner.keepers
    }

    /// Why cleanup is best effort. Limitations of the system come first, because a program cannot change them.
    fn limitation(&self) -> Option<String> {
        self.keepers().limitation().or_else(|| match self.executable() {
            KeeperExecutable::Disabled => Some("the keeper process is disabled".to_owned()),
            KeeperExecutable::OwnNotEnabled => {
                Some("this program does not call `toolway_host::keeper::run_if_keeper()` first in `main`".to_owned())
            }
            KeeperExecutable::Own | KeeperExecutable::Other(_) => None,
        })
    }
}

/// The handle of this process, with its own executable.
impl Default for KeeperHandle {
    fn default() -> Self {
        OF_THIS_PROCESS.clone()
    }
}

impl fmt::Debug for KeeperHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeeperHandle").field("cleanup", &self.cleanup()).finish_non_exhaustive()
    }
}
