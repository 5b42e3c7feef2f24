//! A single process, on systems without process groups: its children are not ended.

use std::{ffi::OsString, io};

use tokio::{
    process::{Child, Command},
    runtime, select,
    sync::watch,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{connection::environment::Environment, keeper::ProcessExit};

/// `CREATE_NO_WINDOW`
#[cfg(windows)]
const NO_WINDOW: u32 = 0x0800_0000;

/// A process, owned by a task that waits for its end.
#[derive(Debug)]
pub(super) struct Alone {
    ended: watch::Receiver<Option<ProcessExit>>,
    kill: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

impl Alone {
    /// The executable of a command; the command itself if it is not found.
    pub(super) fn executable(command: &str, environment: &Environment) -> OsString {
        #[cfg(windows)]
        return super::lookup::find(command, environment);
        #[cfg(not(windows))]
        return command.into();
    }

    /// Without a console window.
    pub(super) fn configure(command: &mut Command) {
        #[cfg(windows)]
        command.creation_flags(NO_WINDOW);
    }

    #[expect(clippy::unnecessary_wraps, reason = "a group can fail to be made")]
    pub(super) fn new(child: Child) -> io::Result<Self> {
        let ((exit, ended), kill) = (watch::channel(None), CancellationToken::new());
        let task = runtime::Handle::current().spawn(wait_or_kill(child, kill.clone(), exit));
        Ok(Self { ended, kill, _task: AbortOnDropHandle::new(task) })
    }

    /// Waits until the process has ended; how, if the system reports it.
    pub(super) async fn wait_until_ended(&self) -> Option<ProcessExit> {
        self.ended.clone().wait_for(Option::is_some).await.ok().and_then(|how| *how)
    }

    /// Does nothing: there is no SIGTERM on this system.
    pub(super) fn terminate(&self) {}

    /// Kills the process.
    pub(super) fn kill(&self) {
        self.kill.cancel();
    }

    /// Waits until the process has ended.
    pub(super) async fn reap(&self) {
        self.wait_until_ended().await;
    }
}

/// Waits for the end of the child; kills it when cancelled or dropped.
async fn wait_or_kill(mut child: Child, kill: CancellationToken, exit: watch::Sender<Option<ProcessExit>>) {
    let status = select! {
        status = child.wait() => status,
        () = kill.cancelled() => {
            if let Err(error) = child.start_kill() {
                tracing::debug!(%error, "cannot kill the process");
            }
            child.wait().await
        }
    };
    let status = status.ok().and_then(|status| status.code());
    exit.send_replace(Some(ProcessExit::new(status, None)));
}
