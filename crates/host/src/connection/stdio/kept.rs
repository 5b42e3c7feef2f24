//! A program started by the keeper process: this process holds its streams, the keeper its process.

use std::{env, io, path, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{
    net::unix::pipe::{Receiver, Sender},
    time::timeout,
};
use toolway_wire::up::stdio::{ProcessHandle, ServerStreams};

use super::{Launcher, stderr_reader::StderrReader};
use crate::keeper::{KeeperChild, KeeperConnection, NotStarted, ProgramSpec, ShutdownTimeouts};

/// A running process. Dropping it makes the keeper end it.
#[derive(Debug)]
struct KeptProcess {
    child: KeeperChild,
    shutdown: ShutdownTimeouts,
    stderr: StderrReader,
}

/// Keeper processes tried for one start: a keeper can be killed between its start and a command.
const KEEPER_ATTEMPTS: usize = 2;
/// Size of the stdout pipe: four times the default, and small enough for hundreds of programs within the limit per user.
const STDOUT_PIPE: usize = 256 * 1024;
/// How much longer than the shutdown timeouts the report of the keeper may take.
const REPORT_DELAY: Duration = Duration::from_secs(2);

/// Starts the program; `None` if there is no keeper.
pub(super) async fn start(launcher: &Launcher) -> Option<io::Result<ServerStreams>> {
    for _ in 0..KEEPER_ATTEMPTS {
        let handle = launcher.keeper.clone();
        let keeper = match handle.running() {
            Some(keeper) => keeper,
            None => tokio::task::spawn_blocking(move || handle.connect()).await.ok()??,
        };
        match start_with(launcher, &keeper).await {
            Err(NotStarted::KeeperLost) => {}
            Err(NotStarted::Refused(error)) => return Some(Err(error)),
            Ok(streams) => return Some(Ok(streams)),
        }
    }
    Some(Err(io::Error::other("the keeper process was killed while the program was starting")))
}

async fn start_with(launcher: &Launcher, keeper: &Arc<KeeperConnection>) -> Result<ServerStreams, NotStarted> {
    let (input, write) = io::pipe()?;
    let (read, output) = io::pipe()?;
    // Large results then need fewer reads. On failure the pipe keeps the default size.
    let _default = rustix::pipe::fcntl_setpipe_size(&read, STDOUT_PIPE);
    let (stderr_read, errors) = io::pipe()?;
    let theirs = [input.into(), output.into(), errors.into()];
    let mut child = keeper.start_program(program_spec(launcher)?, &theirs, launcher.shutdown)?;
    // The end of a stream is seen only after our copy is closed.
    drop(theirs);
    let process_id = child.wait_until_started().await?;
    let (read, stderr_read) = (Receiver::from_owned_fd(read.into())?, Receiver::from_owned_fd(stderr_read.into())?);
    let write = launcher.monitor.start(process_id, Box::new(Sender::from_owned_fd(write.into())?));
    let stderr = StderrReader::new(launcher.stderr_tail.clone(), stderr_read);
    let process = KeptProcess { child, shutdown: launcher.shutdown, stderr };
    Ok(ServerStreams { read: Box::new(read), write, process: Some(Box::new(process)) })
}

/// What to start. The keeper has another working directory, so ours is passed if none is configured.
fn program_spec(launcher: &Launcher) -> io::Result<ProgramSpec> {
    let program = &launcher.program;
    let directory = match &program.directory {
        Some(directory) => path::absolute(directory)?,
        None => env::current_dir()?,
    };
    Ok(ProgramSpec {
        command: program.command.clone(),
        arguments: program.arguments.clone(),
        directory: directory.into_os_string(),
        environment: launcher.environment.clone().into_iter().collect(),
    })
}

// === impl KeptProcess ===

impl ProcessHandle for KeptProcess {
    fn exit_reason(&self) -> BoxFuture<'_, String> {
        Box::pin(async move {
            let exit_reason =
                self.stderr.exit_reason(async { self.child.wait_until_ended().await.ok_or(self.unknown_exit()) }).await;
            // Nothing reads its output any more: end its remaining child processes too.
            if self.child.has_ended() {
                self.child.end();
            }
            exit_reason
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.child.end();
            let ShutdownTimeouts { after_close, after_sigterm } = self.shutdown;
            if timeout(after_close + after_sigterm + REPORT_DELAY, self.child.wait_until_gone()).await.is_err() {
                tracing::warn!("a process of the server did not end");
            }
        })
    }
}

impl KeptProcess {
    fn unknown_exit(&self) -> &'static str {
        if self.child.is_lost() {
            "the keeper process was killed, so the server was ended"
        } else {
            "the server was ended"
        }
    }
}
