//! The keeper process: it ends all server processes and their children when the host ends, however the host ends.
//!
//! The keeper is our own executable in another role: a small process that starts the servers, adopts their orphaned
//! children, and ends all of them when a server is closed or the host is gone.
//!
//! Only Linux supports it (`linux`). On other systems (`unsupported`), [`KeeperHandle::cleanup`] gives the reason.

mod descent;
mod handle;
#[cfg(target_os = "linux")]
mod linux;
mod process_exit;
mod shutdown_timeouts;
#[cfg(not(target_os = "linux"))]
mod unsupported;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use unsupported as system;

pub use descent::Descent;
pub use handle::{CleanupGuarantee, KeeperHandle};
pub use shutdown_timeouts::ShutdownTimeouts;

#[cfg(target_os = "linux")]
pub(crate) use linux::{KeeperChild, KeeperConnection, NotStarted, ProgramSpec};
pub use process_exit::ProcessExit;

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

/// Keeps other processes of the same user, servers among them, from reading the environment, memory and descriptors of
/// this process in `/proc`. There is no core dump and no debugger without privileges either.
///
/// The keeper process always does this. A host whose environment contains secrets calls it after [`run_if_keeper`]. Only
/// Linux supports it; elsewhere it does nothing.
pub fn hide_memory() -> std::io::Result<()> {
    system::hide_memory()
}
