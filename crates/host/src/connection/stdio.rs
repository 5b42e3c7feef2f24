//! A server that is a program: what it is given, and who starts it.
//!
//! It is started by the [keeper](crate::keeper) (`kept`), or by ourselves where there is none (`plain`); what it says
//! on its standard error is heard in `hearing`, and what it wrongly says on its standard output in `stray`. The messages over its standard input and output are
//! [`toolway_wire::up::stdio`]'s. No shell is involved anywhere.

mod hearing;
#[cfg(target_os = "linux")]
mod kept;
mod plain;
mod pulse;
mod stray;

use std::{fmt, io, path::PathBuf};

use futures_util::future::BoxFuture;
use toolway_wire::{
    error::WireError,
    up::stdio::{OpenStreams, Streams},
};

pub(super) use pulse::Life;
pub use pulse::Pulse;

use super::{
    environment::{self, Environment},
    last_words::LastWords,
};
use crate::keeper::{Custodian, Patience};

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
    pulse: Pulse,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has a keeper"))]
    custodian: Custodian,
    patience: Patience,
}

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
        let (custodian, patience) = (Custodian::default(), Patience::default());
        Self { program, environment, last_words, pulse: Pulse::default(), custodian, patience }
    }

    /// With somebody else to keep it than the keeper of this process, and other patience at its end.
    pub fn kept_by(self, custodian: Custodian, patience: Patience) -> Self {
        Self { custodian, patience, ..self }
    }

    /// With its signs of life felt by this.
    pub fn felt_by(self, pulse: Pulse) -> Self {
        Self { pulse, ..self }
    }

    async fn launch(&self) -> io::Result<Streams> {
        self.check_directory()?;
        #[cfg(target_os = "linux")]
        if let Some(streams) = kept::start(self).await {
            return streams;
        }
        plain::start(self)
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
            let unreachable =
                |error: io::Error| WireError::Unreachable { target: self.target(), reason: self.why_not(&error) };
            let streams = self.launch().await.map_err(unreachable)?;
            Ok(Streams { read: stray::listened(streams.read, self.last_words.clone()), ..streams })
        })
    }
}

impl Launcher {
    /// Why it could not be started. The commonest reason gets more than the system has to say.
    fn why_not(&self, error: &io::Error) -> String {
        let is_path = self.program.command.contains(['/', std::path::MAIN_SEPARATOR]);
        match (error.kind(), is_path) {
            (io::ErrorKind::NotFound, true) => {
                "there is no such program, or not the one its first line names".to_owned()
            }
            (io::ErrorKind::NotFound, false) => "there is no such program in its PATH".to_owned(),
            _ => error.to_string(),
        }
    }
}
