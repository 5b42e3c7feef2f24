//! A process and its group, on a Unix.

use std::{io, time::Duration};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::{
    process::{Child, Command},
    signal::unix::SignalKind,
};

use crate::{connection::environment::Environment, keeper::HowEnded};

/// A process that leads a group of its own. The runtime reaps what is dropped.
#[derive(Debug)]
pub(super) struct Group {
    /// The number of the process, and of its group.
    leader: Pid,
    // Nothing awaits under this lock. As long as a child is here it is not reaped, so that its number cannot mean
    // somebody else: every look and every signal happens under the lock.
    child: Mutex<Option<Child>>,
}

/// What a look at a process shows.
enum Look {
    Runs,
    Ended(HowEnded),
    /// It was seen to its end before.
    Reaped,
}

/// How soon to look again where the system does not tell us of children that end.
const AGAIN: Duration = Duration::from_millis(200);

impl Group {
    /// The system looks for it.
    pub(super) fn file_of<'a>(command: &'a str, _environment: &Environment) -> &'a str {
        command
    }

    pub(super) fn set_apart(command: &mut Command) {
        command.process_group(0);
    }

    pub(super) fn new(child: Child) -> io::Result<Self> {
        let leader = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let leader = leader.ok_or_else(|| io::Error::other("the process has no number"))?;
        Ok(Self { leader, child: Mutex::new(Some(child)) })
    }

    /// The process has ended; how, unless it was reaped before. It is not reaped here.
    pub(super) async fn ended(&self) -> Option<HowEnded> {
        // Before the first look, so that no end is missed between a look and the wait.
        let mut endings = tokio::signal::unix::signal(SignalKind::child()).ok();
        loop {
            match self.look() {
                Look::Ended(how) => return Some(how),
                Look::Reaped => return None,
                Look::Runs => {}
            }
            match &mut endings {
                Some(endings) => drop(endings.recv().await),
                None => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Asks everything in the group to leave.
    pub(super) fn ask(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends everything in the group.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Sees the process to its end. From then on nothing is signalled any more.
    pub(super) async fn reap(&self) {
        let child = self.child.lock().take();
        if let Some(mut child) = child
            && let Err(error) = child.wait().await
        {
            tracing::debug!(%error, "the process could not be waited for");
        }
    }

    fn look(&self) -> Look {
        let child = self.child.lock();
        if child.is_none() {
            return Look::Reaped;
        }
        let without_reaping = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match rustix::process::waitid(WaitId::Pid(self.leader), without_reaping) {
            Ok(Some(status)) => Look::Ended(HowEnded::new(status.exit_status(), status.terminating_signal())),
            Ok(None) | Err(rustix::io::Errno::INTR) => Look::Runs,
            Err(_) => Look::Reaped,
        }
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.lock();
        if child.is_some()
            && let Err(error) = rustix::process::kill_process_group(self.leader, signal)
        {
            tracing::debug!(%error, "the group could not be signalled");
        }
    }
}
