//! A process and its process group, on Unix.

use std::{io, time::Duration};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::{
    process::{Child, Command},
    signal::unix::SignalKind,
};

use crate::{connection::environment::Environment, keeper::ProcessExit};

/// A process that leads its own group. The runtime reaps a dropped child.
#[derive(Debug)]
pub(super) struct Group {
    /// Id of the process and of its group.
    leader: Pid,
    // Nothing awaits under this lock. While a child is here, it is not reaped, so its id cannot be reused: every check and
    // every signal happens under the lock.
    child: Mutex<Option<Child>>,
}

/// State of a process.
enum ProcessState {
    Running,
    Ended(ProcessExit),
    /// Already reaped.
    Reaped,
}

/// Polling interval if SIGCHLD is not available.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

impl Group {
    /// The system looks up the command in `PATH`.
    pub(super) fn executable<'a>(command: &'a str, _environment: &Environment) -> &'a str {
        command
    }

    pub(super) fn configure(command: &mut Command) {
        command.process_group(0);
    }

    pub(super) fn new(child: Child) -> io::Result<Self> {
        let leader = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let leader = leader.ok_or_else(|| io::Error::other("the process has no id"))?;
        Ok(Self { leader, child: Mutex::new(Some(child)) })
    }

    /// Waits until the process has ended, without reaping it; `None` if it was reaped before.
    pub(super) async fn wait_until_ended(&self) -> Option<ProcessExit> {
        // Registered before the first check, so that no end is missed.
        let mut exits = tokio::signal::unix::signal(SignalKind::child()).ok();
        loop {
            match self.check() {
                ProcessState::Ended(how) => return Some(how),
                ProcessState::Reaped => return None,
                ProcessState::Running => {}
            }
            match &mut exits {
                Some(exits) => drop(exits.recv().await),
                None => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Sends SIGTERM to the group.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL to the group.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Reaps the process. Afterwards no signal is sent.
    pub(super) async fn reap(&self) {
        let child = self.child.lock().take();
        if let Some(mut child) = child
            && let Err(error) = child.wait().await
        {
            tracing::debug!(%error, "cannot wait for the process");
        }
    }

    fn check(&self) -> ProcessState {
        let child = self.child.lock();
        if child.is_none() {
            return ProcessState::Reaped;
        }
        let without_reaping = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match rustix::process::waitid(WaitId::Pid(self.leader), without_reaping) {
            Ok(Some(status)) => {
                ProcessState::Ended(ProcessExit::new(status.exit_status(), status.terminating_signal()))
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => ProcessState::Running,
            Err(_) => ProcessState::Reaped,
        }
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.lock();
        if child.is_some()
            && let Err(error) = rustix::process::kill_process_group(self.leader, signal)
        {
            tracing::debug!(%error, "cannot signal the process group");
        }
    }
}
