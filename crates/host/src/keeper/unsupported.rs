//! Systems without keeper support: the host starts programs itself.

use super::Descent;

/// No keeper processes.
#[derive(Default)]
pub(super) struct Keepers;

/// Does nothing: no process runs as keeper.
pub(super) fn run_if_keeper() {}

/// Does nothing: other systems do not show the memory of a process to other processes of the user in files.
pub(super) fn hide_memory() -> std::io::Result<()> {
    Ok(())
}

/// Processes are not examined here; `docs/security.md` says what that means.
pub(super) fn descent(_process: u32) -> Descent {
    Descent::Independent
}

/// Like [`descent`].
pub(super) fn own_descent() -> Descent {
    Descent::Independent
}

impl Keepers {
    /// Why cleanup is best effort.
    pub(super) fn limitation(&self) -> Option<String> {
        Some("this operating system cannot track the child processes of a server".to_owned())
    }
}
