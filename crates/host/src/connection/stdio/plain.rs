//! A program started by this process, without a keeper.
//!
//! On Unix it gets its own process group, which is ended as a whole (`group`); elsewhere only the process is ended
//! (`alone`). Child processes that leave the group are not found. If this process is killed, only servers that exit when
//! stdin closes end.

#[cfg(not(unix))]
mod alone;
#[cfg(unix)]
mod group;
#[cfg(any(windows, test))]
mod lookup;

use std::{fmt, io, process::Stdio};

use futures_util::future::BoxFuture;
use tokio::{process::Command, time::timeout};
use toolway_wire::up::stdio::{ProcessHandle, ServerStreams};

#[cfg(not(unix))]
use self::alone::Alone as Started;
#[cfg(unix)]
use self::group::Group as Started;
use super::{Launcher, stderr_reader::StderrReader};
use crate::keeper::ShutdownTimeouts;

/// A running process. Dropping it kills the process and its group.
struct PlainProcess {
    started: Started,
    shutdown: ShutdownTimeouts,
    stderr: StderrReader,
}

pub(super) fn start(launcher: &Launcher) -> io::Result<ServerStreams> {
    let mut command = command(launcher);
    Started::configure(&mut command);
    let mut child = command.spawn()?;
    let lost = || io::Error::other("the process has no stdin, stdout or stderr");
    let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).ok_or_else(lost)?;
    let stderr = child.stderr.take().ok_or_else(lost)?;
    let write = launcher.monitor.start(child.id(), Box::new(stdin));
    let process = PlainProcess {
        started: Started::new(child)?,
        shutdown: launcher.shutdown,
        stderr: StderrReader::new(launcher.stderr_tail.clone(), stderr),
    };
    Ok(ServerStreams { read: Box::new(stdout), write, process: Some(Box::new(process)) })
}

fn command(launcher: &Launcher) -> Command {
    let program = &launcher.program;
    #[expect(clippy::disallowed_methods, reason = "programs are started here and in the keeper, and nowhere else")]
    let mut command = Command::new(Started::executable(&program.command, &launcher.environment));
    command.args(&program.arguments).env_clear().envs(&launcher.environment);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    command
}

// === impl PlainProcess ===

impl ProcessHandle for PlainProcess {
    fn exit_reason(&self) -> BoxFuture<'_, String> {
        Box::pin(self.stderr.exit_reason(async { self.started.wait_until_ended().await.ok_or("the server was ended") }))
    }

    /// Stdin is closed by now. A process that does not exit in time gets SIGTERM, then SIGKILL.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if timeout(self.shutdown.after_close, self.wait_until_gone()).await.is_err() {
                self.started.terminate();
                drop(timeout(self.shutdown.after_sigterm, self.wait_until_gone()).await);
            }
            // Also after its exit: its child processes may still run.
            self.started.kill();
            self.started.reap().await;
        })
    }
}

impl PlainProcess {
    /// Waits until the process and all its children that hold its stderr have ended.
    async fn wait_until_gone(&self) {
        self.started.wait_until_ended().await;
        self.stderr.end().await;
    }
}

impl Drop for PlainProcess {
    /// Not closed properly: kills at once.
    fn drop(&mut self) {
        self.started.kill();
    }
}

impl fmt::Debug for PlainProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainProcess").field("started", &self.started).finish_non_exhaustive()
    }
}
