//! A server that is a program: started here, kept while it is needed, ended with everything it started.
//!
//! Owns the process from spawn to reaping: its environment, its process group, its standard error, how it ended. The
//! messages over its standard input and output are [`toolway_wire::up::stdio`]'s. No shell is involved anywhere.

use std::{fmt, io, path::PathBuf, process::Stdio, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};
use tokio::{
    process::{Child, Command},
    signal::unix::SignalKind,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolway_wire::{
    error::WireError,
    up::stdio::{Keeper, OpenStreams, Streams},
};

use super::{
    environment::{self, Environment},
    last_words::LastWords,
};

/// A program to start, as an entry of the configuration names it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Looked up in the `PATH` the process will have, unless it contains a `/`.
    pub command: String,
    /// Its arguments, each as it is.
    pub arguments: Vec<String>,
    /// Where it runs; ours where nothing is said.
    pub directory: Option<PathBuf>,
    /// Variables it is given besides what every server sees.
    pub variables: Environment,
}

/// Starts a program, as often as the wire wants it.
#[derive(Debug)]
pub struct Launcher {
    program: Program,
    environment: Environment,
    last_words: LastWords,
}

/// A running process. Dropping it kills its group.
struct Custody {
    /// The number of the process, and of its group.
    leader: Pid,
    // Nothing awaits under this lock. As long as a child is here it is not reaped, so that its number cannot mean
    // somebody else: every look and every signal happens under the lock.
    child: Mutex<Option<Child>>,
    last_words: LastWords,
    /// Nobody holds its standard error any more: neither the process nor what it started.
    silent: CancellationToken,
    _hearing: AbortOnDropHandle<()>,
}

/// What a look at a process shows.
enum Look {
    Runs,
    Ended(WaitIdStatus),
    /// It was seen to its end before.
    Reaped,
}

/// How long a process is given after its input was closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_millis(500);
/// How long a process that closed its output may take to end before it is said to go on.
const ENDING: Duration = Duration::from_secs(1);
/// How long the last lines of a process that ended may take to come in.
const LAST_LINES: Duration = Duration::from_millis(200);

// === impl Program ===

impl Program {
    /// A program without arguments.
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), ..Self::default() }
    }
}

/// People put keys into variables and into arguments.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("command", &self.command)
            .field("arguments", &self.arguments.len())
            .field("directory", &self.directory)
            .field("variables", &self.variables.keys())
            .finish()
    }
}

// === impl Launcher ===

impl Launcher {
    /// Starts `program` in what a server sees of `ours`; what it says on its standard error goes to `last_words`.
    pub fn new(program: Program, ours: &Environment, last_words: LastWords) -> Self {
        let environment = environment::of_server(ours, &program.variables);
        Self { program, environment, last_words }
    }

    fn launch(&self) -> io::Result<Streams> {
        self.check_directory()?;
        let mut child = self.command().spawn()?;
        let lost = || io::Error::other("the process has no streams");
        let leader = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)).ok_or_else(lost)?;
        let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).ok_or_else(lost)?;
        let stderr = child.stderr.take().ok_or_else(lost)?;

        self.last_words.forget();
        let (hearing, silent) = (self.last_words.clone().hear(stderr), CancellationToken::new());
        let at_end = silent.clone().drop_guard();
        let hearing = tokio::runtime::Handle::current().spawn(async move {
            hearing.await;
            drop(at_end);
        });
        let custody = Custody {
            leader,
            child: Mutex::new(Some(child)),
            last_words: self.last_words.clone(),
            silent,
            _hearing: AbortOnDropHandle::new(hearing),
        };
        Ok(Streams { read: Box::new(stdout), write: Box::new(stdin), keeper: Some(Box::new(custody)) })
    }

    fn command(&self) -> Command {
        #[expect(clippy::disallowed_methods, reason = "this is the one place where programs are started")]
        let mut command = Command::new(&self.program.command);
        command.args(&self.program.arguments).env_clear().envs(&self.environment);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        if let Some(directory) = &self.program.directory {
            command.current_dir(directory);
        }
        command
    }

    /// The system has one error for a missing program and a missing directory; people need to know which.
    fn check_directory(&self) -> io::Result<()> {
        match &self.program.directory {
            Some(directory) if !directory.is_dir() => {
                Err(io::Error::other(format!("{} is not a directory", directory.display())))
            }
            _ => Ok(()),
        }
    }
}

impl OpenStreams for Launcher {
    /// Only the command: arguments can hold keys.
    fn target(&self) -> String {
        format!("`{}`", self.program.command)
    }

    fn open(&self) -> BoxFuture<'_, Result<Streams, WireError>> {
        Box::pin(async move {
            self.launch().map_err(|error| WireError::Unreachable { target: self.target(), reason: error.to_string() })
        })
    }
}

// === impl Custody ===

impl Keeper for Custody {
    fn epitaph(&self) -> BoxFuture<'_, String> {
        Box::pin(async move {
            let how = match timeout(ENDING, self.ended()).await {
                Ok(status) => {
                    // Something it started may hold its standard error for longer; its own lines are in by then.
                    drop(timeout(LAST_LINES, self.silent.cancelled()).await);
                    status.as_ref().map_or_else(|| "it was ended".to_owned(), described)
                }
                Err(_) => "it closed its output but goes on running".to_owned(),
            };
            match self.last_words.quote() {
                Some(words) => format!("{how}; its last words: {words}"),
                None => how,
            }
        })
    }

    /// Its input is closed by now. Whoever does not leave by itself is asked to, and then made to.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if timeout(GRACE, self.gone()).await.is_err() {
                self.signal(Signal::TERM);
                drop(timeout(GRACE, self.gone()).await);
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

impl Custody {
    /// The process has ended, and so has everything it started that holds its standard error.
    async fn gone(&self) {
        self.ended().await;
        self.silent.cancelled().await;
    }

    /// The process has ended; how, unless it was reaped before. It is not reaped here.
    async fn ended(&self) -> Option<WaitIdStatus> {
        // Before the first look, so that no end is missed between a look and the wait.
        let mut endings = tokio::signal::unix::signal(SignalKind::child()).ok();
        loop {
            match self.look() {
                Look::Ended(status) => return Some(status),
                Look::Reaped => return None,
                Look::Runs => {}
            }
            match &mut endings {
                Some(endings) => drop(endings.recv().await),
                None => tokio::time::sleep(LAST_LINES).await,
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
            Ok(Some(status)) => Look::Ended(status),
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

impl Drop for Custody {
    /// Nobody closed it: no time is left for manners. The runtime reaps what it kills with the child.
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl fmt::Debug for Custody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custody").field("leader", &self.leader).finish_non_exhaustive()
    }
}

/// How a process ended, as a sentence.
fn described(status: &WaitIdStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => format!("it exited with status {status}"),
        (None, Some(signal)) => match signal_name(signal) {
            Some(name) => format!("it was ended by signal {signal} ({name})"),
            None => format!("it was ended by signal {signal}"),
        },
        (None, None) => "it ended".to_owned(),
    }
}

/// The signals people know by name; their numbers are the same on every Unix.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return None,
    })
}
