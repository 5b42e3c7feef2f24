//! Systems without keeper support: the host starts programs itself.

/// No keeper processes.
#[derive(Default)]
pub(super) struct Keepers;

/// Does nothing: no process runs as keeper.
pub(super) fn run_if_keeper() {}

/// Does nothing: other systems do not show the memory of a process to other processes of the user in files.
pub(super) fn hide_memory() -> std::io::Result<()> {
    Ok(())
}

impl Keepers {
    /// Why cleanup is best effort.
    pub(super) fn limitation(&self) -> Option<String> {
        Some("this operating system cannot track the child processes of a server".to_owned())
    }
}
