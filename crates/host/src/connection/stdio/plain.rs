//! A program started by ourselves: the custody there is without a keeper.
//!
//! On a Unix it gets a process group of its own, and the group is ended as one (`group`). Elsewhere there is only the
//! process (`alone`). What leaves the group is not found again, and when we are killed nobody ends anything; a server
//! that leaves when its input ends does so all the same.

#[cfg(not(unix))]
mod alone;
#[cfg(unix)]
mod group;
#[cfg(any(windows, test))]
mod lookup;

use std::{fmt, io, process::Stdio};

use futures_util::future::BoxFuture;
use tokio::{process::Command, time::timeout};
use toolway_wire::up::stdio::{Keeper, Streams};

#[cfg(not(unix))]
use self::alone::Alone as Started;
#[cfg(unix)]
use self::group::Group as Started;
use super::{Launcher, hearing::Hearing};
use crate::keeper::Patience;

/// A running process. Dropping it kills it and whatever can be told to belong to it.
struct PlainProcess {
    started: Started,
    patience: Patience,
    hearing: Hearing,
}

pub(super) fn start(launcher: &Launcher) -> io::Result<Streams> {
    let mut command = command(launcher);
    Started::set_apart(&mut command);
    let mut child = command.spawn()?;
    let lost = || io::Error::other("the process has no streams");
    let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).ok_or_else(lost)?;
    let stderr = child.stderr.take().ok_or_else(lost)?;
    let write = launcher.pulse.begin(child.id(), Box::new(stdin));
    let process = PlainProcess {
        started: Started::new(child)?,
        patience: launcher.patience,
        hearing: Hearing::new(launcher.last_words.clone(), stderr),
    };
    Ok(Streams { read: Box::new(stdout), write, keeper: Some(Box::new(process)) })
}

fn command(launcher: &Launcher) -> Command {
    let program = &launcher.program;
    #[expect(clippy::disallowed_methods, reason = "programs are started here and in the keeper, and nowhere else")]
    let mut command = Command::new(Started::file_of(&program.command, &launcher.environment));
    command.args(&program.arguments).env_clear().envs(&launcher.environment);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    command
}

// === impl PlainProcess ===

impl Keeper for PlainProcess {
    fn epitaph(&self) -> BoxFuture<'_, String> {
        Box::pin(self.hearing.epitaph(async { self.started.ended().await.ok_or("it was ended") }))
    }

    /// Its input is closed by now. Whoever does not leave by itself is asked to, and then made to.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if timeout(self.patience.to_leave, self.gone()).await.is_err() {
                self.started.ask();
                drop(timeout(self.patience.when_asked, self.gone()).await);
            }
            // Also where it has left: what it started and did not take along may still be there.
            self.started.kill();
            self.started.reap().await;
        })
    }
}

impl PlainProcess {
    /// The process has ended, and so has everything it started that holds its standard error.
    async fn gone(&self) {
        self.started.ended().await;
        self.hearing.silence().await;
    }
}

impl Drop for PlainProcess {
    /// Nobody closed it: no time is left for manners.
    fn drop(&mut self) {
        self.started.kill();
    }
}

impl fmt::Debug for PlainProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainProcess").field("started", &self.started).finish_non_exhaustive()
    }
}
