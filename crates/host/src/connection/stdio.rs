//! Servers that are programs: their environment and how they are started.
//!
//! The [keeper process](crate::keeper) starts a program (`kept`), or this process if there is no keeper (`plain`).
//! `stderr_reader` reads stderr, `stray_output` finds non-MCP text on stdout, and [`toolway_wire::up::stdio`] carries the
//! messages over stdin and stdout. No shell is involved.

#[cfg(target_os = "linux")]
mod kept;
mod plain;
mod process_monitor;
mod stderr_reader;
mod stray_output;

use std::{fmt, io, path::PathBuf};

use futures_util::future::BoxFuture;
use toolway_wire::{
    error::WireError,
    up::stdio::{ServerStreams, StreamOpener},
};

pub(crate) use process_monitor::ProcessInstance;
pub use process_monitor::ProcessMonitor;

use super::{
    environment::{self, Environment},
    stderr_tail::StderrTail,
};
use crate::keeper::{KeeperHandle, ShutdownTimeouts};

/// A program to start, as an entry of the configuration names it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Looked up in the `PATH` the process will have, unless it contains a `/`.
    pub command: String,
    /// Arguments, passed unchanged.
    pub arguments: Vec<String>,
    /// Working directory; that of this process if `None`.
    pub directory: Option<PathBuf>,
    /// Environment variables in addition to those of every server.
    pub variables: Environment,
}

/// Starts a program, once for each connection.
#[derive(Debug)]
pub struct Launcher {
    program: Program,
    environment: Environment,
    stderr_tail: StderrTail,
    monitor: ProcessMonitor,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has a keeper"))]
    keeper: KeeperHandle,
    shutdown: ShutdownTimeouts,
}

// === impl Program ===

impl Program {
    /// A program without arguments.
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), ..Self::default() }
    }
}

/// Prints no secrets: variables and arguments may contain keys.
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
    /// Starts `program` with the allowed part of the environment `ours`; its stderr output goes to `stderr_tail`.
    pub fn new(program: Program, ours: &Environment, stderr_tail: StderrTail) -> Self {
        let environment = environment::of_server(ours, &program.variables);
        let (keeper, shutdown) = (KeeperHandle::default(), ShutdownTimeouts::default());
        Self { program, environment, stderr_tail, monitor: ProcessMonitor::default(), keeper, shutdown }
    }

    /// Sets the keeper and the shutdown timeouts.
    pub fn with_keeper(self, keeper: KeeperHandle, shutdown: ShutdownTimeouts) -> Self {
        Self { keeper, shutdown, ..self }
    }

    /// Sets the monitor of the process.
    pub fn monitored_by(self, monitor: ProcessMonitor) -> Self {
        Self { monitor, ..self }
    }

    async fn launch(&self) -> io::Result<ServerStreams> {
        self.check_directory()?;
        #[cfg(target_os = "linux")]
        if let Some(streams) = kept::start(self).await {
            return streams;
        }
        plain::start(self)
    }

    /// The system reports a missing program and a missing directory with the same error; this check tells them apart.
    fn check_directory(&self) -> io::Result<()> {
        match &self.program.directory {
            Some(directory) if !directory.is_dir() => Err(io::Error::other(format!(
                "working directory `{}` does not exist or is not a directory",
                directory.display()
            ))),
            _ => Ok(()),
        }
    }
}

impl StreamOpener for Launcher {
    /// Only the command: arguments may contain keys.
    fn target(&self) -> String {
        self.program.command.clone()
    }

    fn open(&self) -> BoxFuture<'_, Result<ServerStreams, WireError>> {
        Box::pin(async move {
            let unreachable =
                |error: io::Error| WireError::Unreachable { target: self.target(), reason: self.start_error(&error) };
            let streams = self.launch().await.map_err(unreachable)?;
            Ok(ServerStreams { read: stray_output::scan(streams.read, self.stderr_tail.clone()), ..streams })
        })
    }
}

impl Launcher {
    /// Why it could not be started, with a clearer message for the most common error.
    fn start_error(&self, error: &io::Error) -> String {
        let is_path = self.program.command.contains(['/', std::path::MAIN_SEPARATOR]);
        match (error.kind(), is_path) {
            (io::ErrorKind::NotFound, _) if self.program.command.contains(char::is_whitespace) => {
                "program not found; `command` is the program alone, its arguments belong in `args`".to_owned()
            }
            (io::ErrorKind::NotFound, true) => {
                "program not found, or the interpreter in its `#!` line not found".to_owned()
            }
            (io::ErrorKind::NotFound, false) => "program not found in `PATH`".to_owned(),
            _ => error.to_string(),
        }
    }
}
