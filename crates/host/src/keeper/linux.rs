//! The keeper on Linux, with child subreapers, pidfds and `/proc`.
//!
//! `process` is the keeper process and `servers` its state; `connection` is the host's side of the socket to it;
//! `process_snapshot` reads which process descends from which, and `descent` whether one descends from a keeper.

mod channel;
mod connection;
mod descent;
mod mark;
mod orphans;
mod process;
mod process_snapshot;
mod protocol;
mod servers;
mod termination;

use std::{path::Path, sync::Arc};

use parking_lot::Mutex;

use super::{
    Descent, ProcessExit, ShutdownTimeouts,
    handle::{KeeperExecutable, KeeperHandle},
};

pub(super) use descent::{descent, own_descent};
pub(super) use process::{hide_memory, run_if_keeper};
pub(crate) use {
    connection::{KeeperChild, KeeperConnection, NotStarted},
    protocol::ProgramSpec,
};

/// The keeper processes of one handle: at most one at a time.
#[derive(Default)]
pub(super) struct Keepers {
    // Held while a keeper starts, so that there is only ever one; nothing awaits under it.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<KeeperConnection>>,
    /// Why the last attempt to start a keeper failed.
    failure: Option<String>,
}

/// The executable of this process, also if its file was replaced or removed.
const OWN_EXECUTABLE: &str = "/proc/self/exe";

// === impl KeeperHandle ===

impl KeeperHandle {
    /// Connects to the keeper, starting one if needed; `None` if programs are started without keeper. Blocks while it starts.
    pub(crate) fn connect(&self) -> Option<Arc<KeeperConnection>> {
        match self.executable() {
            KeeperExecutable::Disabled | KeeperExecutable::OwnNotEnabled => None,
            KeeperExecutable::Own => self.keepers().connect(Path::new(OWN_EXECUTABLE)),
            KeeperExecutable::Other(executable) => self.keepers().connect(executable),
        }
    }

    /// The keeper, if one runs. Does not block.
    pub(crate) fn running(&self) -> Option<Arc<KeeperConnection>> {
        self.keepers().state.try_lock()?.running()
    }
}

// === impl Keepers ===

impl Keepers {
    /// Why the last keeper process could not be started.
    pub(super) fn limitation(&self) -> Option<String> {
        self.state.lock().failure.clone()
    }

    fn connect(&self, executable: &Path) -> Option<Arc<KeeperConnection>> {
        let mut state = self.state.lock();
        if let Some(connection) = state.running() {
            return Some(connection);
        }
        state.connection = None;
        match KeeperConnection::start(executable) {
            Ok(connection) => {
                (state.connection, state.failure) = (Some(Arc::new(connection)), None);
                state.connection.clone()
            }
            Err(error) => {
                tracing::warn!(%error, "the keeper process cannot be started; child processes may outlive this program");
                state.failure = Some(format!("the keeper process cannot be started: {error}"));
                None
            }
        }
    }
}

// === impl State ===

impl State {
    fn running(&self) -> Option<Arc<KeeperConnection>> {
        self.connection.as_ref().filter(|connection| !connection.is_lost()).map(Arc::clone)
    }
}
