//! A program started by ourselves, in a process group of its own: the custody there is without a keeper.
//!
//! What leaves the group is not found again, and when we are killed nobody ends anything; a server that leaves when
//! its input ends does so all the same.

use std::{fmt, io, process::Stdio, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::{
    process::{Child, Command},
    signal::unix::SignalKind,
    time::timeout,
};
use toolway_wire::up::stdio::{Keeper, Streams};

use super::{Launcher, hearing::Hearing};
use crate::keeper::{HowEnded, Patience};

/// A running process. Dropping it kills its group.
struct PlainProcess {
    /// The number of the process, and of its group.
    leader: Pid,
    // Nothing awaits under this lock. As long as a child is here it is not reaped, so that its number cannot mean
    // somebody else: every look and every signal happens under the lock.
    child: Mutex<Option<Child>>,
    patience: Patience,
    hearing: Hearing,
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

pub(super) fn start(launcher: &Launcher) -> io::Result<Streams> {
    let mut child = command(launcher).spawn()?;
    let lost = || io::Error::other("the process has no streams");
    let leader = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)).ok_or_else(lost)?;
    let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).ok_or_else(lost)?;
    let stderr = child.stderr.take().ok_or_else(lost)?;
    let process = PlainProcess {
        leader,
        child: Mutex::new(Some(child)),
        patience: launcher.patience,
        hearing: Hearing::new(launcher.last_words.clone(), stderr),
    };
    Ok(Streams { read: Box::new(stdout), write: Box::new(stdin), keeper: Some(Box::new(process)) })
}

fn command(launcher: &Launcher) -> Command {
    let program = &launcher.program;
    #[expect(clippy::disallowed_methods, reason = "programs are started here and in the keeper, and nowhere else")]
    let mut command = Command::new(&program.command);
    command.args(&program.arguments).env_clear().envs(&launcher.environment);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    command
}

// === impl PlainProcess ===

impl Keeper for PlainProcess {
    fn epitaph(&self) -> BoxFuture<'_, String> {
        Box::pin(self.hearing.epitaph(async { self.ended().await.ok_or("it was ended") }))
    }

    /// Its input is closed by now. Whoever does not leave by itself is asked to, and then made to.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if timeout(self.patience.to_leave, self.gone()).await.is_err() {
                self.signal(Signal::TERM);
                drop(timeout(self.patience.when_asked, self.gone()).await);
            }
            // Also where it has left: what it started and did not take along is still in its group.
            self.signal(Signal::KILL);
            let child = self.child.lock().take();
            if let Some(mut child) = child
                && let Err(error) = child.wait().await
            {
                tracing::debug!(%error, "the process could not be waited for");
            }
        })
    }
}

impl PlainProcess {
    /// The process has ended, and so has everything it started that holds its standard error.
    async fn gone(&self) {
        self.ended().await;
        self.hearing.silence().await;
    }

    /// The process has ended; how, unless it was reaped before. It is not reaped here.
    async fn ended(&self) -> Option<HowEnded> {
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

    /// Sends a signal to the process and everything in its group.
    fn signal(&self, signal: Signal) {
        let child = self.child.lock();
        if child.is_some()
            && let Err(error) = rustix::process::kill_process_group(self.leader, signal)
        {
            tracing::debug!(%error, "the group could not be signalled");
        }
    }
}

impl Drop for PlainProcess {
    /// Nobody closed it: no time is left for manners. The runtime reaps what it kills with the child.
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl fmt::Debug for PlainProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainProcess").field("leader", &self.leader).finish_non_exhaustive()
    }
}
