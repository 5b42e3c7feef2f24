//! Where a connection is: plain data for everybody ([`ServerStatus`]); what owns the work of each state is the
//! supervisor's.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use toolway_config::ServerName;
use toolway_wire::{
    error::WireError,
    json::Raw,
    message::{RpcError, ServerCapabilities},
    revision::{Era, Revision},
};

use super::{dial::DialError, lines::LineStatus};
use crate::{
    keeper::{Custody, HowEnded},
    record::redact::Redactor,
    whose_move::WhoseMove,
};

/// What is known of one server. A copy: it holds no connection and keeps nothing alive.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// Its id.
    pub server: ServerName,
    /// As people wrote it.
    pub label: String,
    /// What it is for, in the operator's words.
    pub description: Option<String>,
    /// Where it is written: file and line, or the program.
    pub source: String,
    /// How it is reached.
    pub transport: TransportKind,
    /// The command or address, without arguments, keys or query.
    pub target: String,
    /// Where the connection is.
    pub phase: Phase,
    /// Since when.
    pub since: SystemTime,
    /// What the server said of itself, in this connection or the last one.
    pub profile: Option<Profile>,
    /// What it lists; none before the first listing.
    pub counts: Option<Counts>,
    /// What went wrong last, also when all is well again.
    pub last_error: Option<LastError>,
    /// The number of its process, while it runs.
    pub process: Option<u32>,
    /// How well its process is kept; none where there is none.
    pub custody: Option<Custody>,
    /// How often a connection that stood was lost.
    pub losses: u32,
    /// How its process ended, where it has. Filled in when a status is asked for, not in events.
    pub ended: Option<HowEnded>,
    /// The end of what its process said on standard error. Filled in when a status is asked for, not in events.
    pub stderr: Vec<String>,
    /// Further connections to it, for callers who must not share the first. Filled in likewise.
    pub lines: Vec<LineStatus>,
}

/// Where a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is being dialled.
    Connecting {
        /// The how many-th attempt in a row.
        attempt: u32,
    },
    /// It can be called.
    Ready,
    /// Somebody has to sign in.
    SignInNeeded {
        /// What the server demands, as it said it.
        challenges: Vec<String>,
        /// Who has to do what, where that is known.
        how: Option<String>,
    },
    /// It is dialled again by and by.
    Waiting {
        /// When.
        until: SystemTime,
        /// Because of what.
        because: String,
        /// Failures in a row.
        failures: u32,
        /// Whether it goes round in circles: it starts and ends, again and again.
        crash_loop: bool,
    },
    /// It is not dialled again by itself.
    Failed {
        /// Because of what.
        because: String,
        /// Who can do something about it.
        whose_move: WhoseMove,
    },
    /// The operator has switched it off.
    Disabled,
    /// It is not connected, and that is as it should be.
    Stopped(Stopped),
}

/// Why a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stopped {
    /// It was not needed yet.
    NotNeededYet,
    /// It was not needed for a while.
    Idle,
    /// Somebody disconnected it.
    Disconnected,
    /// The host is shut down, or the server no longer wanted.
    Closed,
}

/// The ways to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportKind {
    /// A program, over its standard streams.
    Stdio,
    /// An address.
    Http,
    /// A server in this process.
    InProcess,
    /// A transport of the embedding program's.
    Custom,
}

/// What a server said of itself.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The era it speaks.
    pub era: Era,
    /// The revision agreed on.
    pub revision: Revision,
    /// The beginning of the session's id, where it has one; enough to tell two apart, not enough to use it.
    pub session: Option<String>,
    /// `{name, version, …}`
    pub info: Raw,
    /// How it wants to be used.
    pub instructions: Option<String>,
    /// What it declared.
    pub capabilities: ServerCapabilities,
}

/// How much a server lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tools.
    pub tools: usize,
    /// Resources.
    pub resources: usize,
    /// Resource templates.
    pub templates: usize,
    /// Prompts.
    pub prompts: usize,
    /// What could not be read.
    pub set_aside: usize,
}

/// What went wrong, and when.
#[derive(Clone, Debug)]
pub struct LastError {
    /// When.
    pub at: SystemTime,
    /// What, redacted.
    pub message: String,
    /// A stable word for programs.
    pub code: &'static str,
    /// Who can do something about it.
    pub whose_move: WhoseMove,
    /// What the server refused the handshake with, as it came.
    pub error: Option<RpcError>,
}

/// Why a call finds no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotConnected {
    /// As a sentence without a full stop.
    pub because: String,
    /// Who can do something about it.
    pub whose_move: WhoseMove,
    /// What the server refused the handshake with, as it came.
    pub error: Option<RpcError>,
}

// === impl ServerStatus ===

impl ServerStatus {
    /// How long it has been ready; none where it is not.
    pub fn uptime(&self) -> Option<Duration> {
        (self.phase == Phase::Ready).then(|| self.since.elapsed().unwrap_or_default())
    }

    /// What a call is told that finds it so.
    pub(crate) fn why_not(&self) -> NotConnected {
        let (because, whose_move) = self.phase.why_not();
        // What went wrong before has nothing to do with a server that is switched off or asleep.
        let failed = matches!(self.phase, Phase::Waiting { .. } | Phase::Failed { .. });
        let error = self.last_error.as_ref().filter(|_| failed).and_then(|last| last.error.clone());
        NotConnected { because, whose_move, error }
    }
}

// === impl Phase ===

impl Phase {
    /// Its stable word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Connecting { .. } => "connecting",
            Self::Ready => "ready",
            Self::SignInNeeded { .. } => "sign-in needed",
            Self::Waiting { .. } => "waiting",
            Self::Failed { .. } => "failed",
            Self::Disabled => "disabled",
            Self::Stopped(_) => "stopped",
        }
    }

    /// Whether something will come of it without anybody doing anything.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Self::Connecting { .. })
    }

    fn why_not(&self) -> (String, WhoseMove) {
        let whose_move = match self {
            Self::Connecting { .. } | Self::Ready | Self::Waiting { .. } => WhoseMove::Supervisor,
            Self::SignInNeeded { .. } => WhoseMove::User,
            Self::Failed { whose_move, .. } => *whose_move,
            Self::Disabled | Self::Stopped(_) => WhoseMove::Operator,
        };
        (self.to_string(), whose_move)
    }
}

/// One line for people.
impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting { attempt: 0 | 1 } => f.write_str("connecting"),
            Self::Connecting { attempt } => write!(f, "connecting, attempt {attempt}"),
            Self::Ready => f.write_str("ready"),
            Self::SignInNeeded { how: Some(how), .. } => write!(f, "somebody has to sign in: {how}"),
            Self::SignInNeeded { how: None, .. } => f.write_str("somebody has to sign in"),
            Self::Waiting { because, failures, crash_loop, until } => {
                let seconds = until.duration_since(SystemTime::now()).unwrap_or_default().as_secs_f32().ceil();
                if *crash_loop {
                    write!(f, "it fails again and again ({failures} times in a row): ")?;
                }
                write!(f, "{because}; tried again in {seconds:.0} s")
            }
            Self::Failed { because, .. } => f.write_str(because),
            Self::Disabled => f.write_str("disabled"),
            Self::Stopped(Stopped::NotNeededYet) => f.write_str("started when first needed"),
            Self::Stopped(Stopped::Idle) => f.write_str("stopped because nobody used it; started when next needed"),
            Self::Stopped(Stopped::Disconnected) => f.write_str("disconnected"),
            Self::Stopped(Stopped::Closed) => f.write_str("closed"),
        }
    }
}

impl TransportKind {
    /// Its stable word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::InProcess => "in process",
            Self::Custom => "custom",
        }
    }
}

impl NotConnected {
    /// What a call is told for which a connection could not be had.
    pub(crate) fn after(error: &DialError, redactor: &Redactor) -> Self {
        let refused = match error {
            DialError::Wire(WireError::Handshake(refused)) => Some(redactor.error(refused)),
            _ => None,
        };
        Self { because: redactor.text(&error.to_string()), whose_move: error.whose_move(), error: refused }
    }
}

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.because)
    }
}
