//! The keeper process: it ends all server processes and their children when the host ends, however the host ends.
//!
//! The keeper is our own executable in another role: a small process that starts the servers, adopts their orphaned
//! children, and ends all of them when a server is closed or the host is gone.
//!
//! Only Linux supports it (`linux`). On other systems (`unsupported`), [`KeeperHandle::cleanup`] gives the reason.

mod handle;
#[cfg(not(target_os = "linux"))]
mod unsupported;
mod process_exit;
#[cfg(target_os = "linux")]
mod linux;
mod shutdown_timeouts;

#[cfg(not(target_os = "linux"))]
use unsupported as system;
#[cfg(target_os = "linux")]
use linux as system;

pub use handle::{KeeperHandle, CleanupGuarantee};
pub use shutdown_timeouts::ShutdownTimeouts;

pub use process_exit::ProcessExit;
#[cfg(target_os = "linux")]
pub(crate) use linux::{KeeperConnection, NotStarted, ProgramSpec, KeeperChild};

/// Lets this executable also run as the keeper process. Must be the first statement of `main`.
///
/// In the host it returns at once, and [`KeeperHandle::default`] then starts programs through a keeper process. In the
/// keeper process it runs the keeper and exits. Statements before it are executed in the keeper too. On systems without
/// keeper it does nothing.
///
/// The program becomes a child subreaper when its first server is started: orphans of its other children become its own
/// children, instead of those of process 1.
pub fn run_if_keeper() {
    system::run_if_keeper();
    handle::enable_own_executable();
}
