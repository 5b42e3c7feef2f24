//! The status of a connection as plain data ([`ServerStatus`]). The supervisor owns the work of each state.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use toolway_config::{Secret, ServerName};
use toolway_wire::{
    error::WireError,
    json::Raw,
    message::{RpcError, ServerCapabilities},
    revision::{Era, Revision},
};
use uuid::Uuid;

use super::{ConnectionCounts, dial::DialError, pool::CallerConnectionStatus};
use crate::{
    audience::{ClientText, OperatorText},
    keeper::{CleanupGuarantee, ProcessExit},
    record::redact::Redactor,
    whose_move::WhoseMove,
};

/// Status of one server. A copy: it holds no connection and keeps nothing alive.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// Name of the server.
    pub server: ServerName,
    /// The name as written in the configuration.
    pub label: String,
    /// Description from the configuration.
    pub description: Option<String>,
    /// Where it is configured: file and line, or the program.
    pub source: String,
    /// Kind of transport.
    pub transport: TransportKind,
    /// The command or URL, without arguments, keys or query.
    pub target: String,
    /// Phase of the connection.
    pub phase: Phase,
    /// When the phase began.
    pub since: SystemTime,
    /// When the last connection was established; `None` before the first one.
    pub last_connected: Option<SystemTime>,
    /// What the server declared, in this connection or the last one.
    pub profile: Option<Profile>,
    /// Number of listed items; `None` before the first listing.
    pub counts: Option<Counts>,
    /// The last error, kept after recovery.
    pub last_error: Option<LastError>,
    /// Process id, while the process runs.
    pub process: Option<u32>,
    /// Whether child processes are certain to end with us; `None` if the server is not a process.
    pub cleanup: Option<CleanupGuarantee>,
    /// How often an established connection was lost.
    pub losses: u32,
    /// How its process ended, if it has. Filled in when a status is requested, not in events.
    pub ended: Option<ProcessExit>,
    /// Recent stderr output of its process. Filled in when a status is requested, not in events.
    pub stderr: Vec<String>,
    /// First line on its stdout that is not MCP, escaped. Filled in when a status is requested, not in events.
    pub stray_output: Option<String>,
    /// Connections of callers that cannot use the shared one. Filled in when a status is requested, not in events.
    pub caller_connections: Vec<CallerConnectionStatus>,
    /// Connection attempts, authorization failures and refreshes. Filled in when a status is requested, not in events.
    pub connections: ConnectionCounts,
}

/// Phase of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A dial is in progress.
    Connecting {
        /// Number of the attempt, from 1; reset by success.
        attempt: u32,
    },
    /// Connected and ready for calls.
    Ready,
    /// The server requires sign-in.
    SignInRequired {
        /// The `WWW-Authenticate` challenges of the server.
        challenges: Vec<String>,
        /// What to do, if known.
        how: Option<String>,
    },
    /// A retry is scheduled.
    Waiting {
        /// When it is dialled again.
        until: SystemTime,
        /// The last error.
        because: OperatorText,
        /// Number of failures in a row.
        failures: u32,
        /// Whether it failed so often in a row that calls fail at once.
        crash_loop: bool,
    },
    /// Not connected, and not retried automatically.
    Failed {
        /// The last error.
        because: OperatorText,
        /// Which party can resolve it.
        whose_move: WhoseMove,
    },
    /// Disabled by the operator.
    Disabled,
    /// Not connected on purpose.
    Stopped(StopReason),
}

/// Why a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// Not used yet.
    NotNeededYet,
    /// Idle for too long.
    Idle,
    /// Disconnected by a command.
    Disconnected,
    /// The host is shut down, or the server was removed.
    Closed,
}

/// Kind of transport to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportKind {
    /// A program, over its standard streams.
    Stdio,
    /// HTTP, at a URL.
    Http,
    /// A server in this process.
    InProcess,
    /// A transport of the embedding program.
    Custom,
}

/// What a server declared in the handshake.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Protocol era.
    pub era: Era,
    /// Negotiated protocol revision.
    pub revision: Revision,
    /// First characters of the session id: enough to tell two apart, not enough to use it.
    pub session: Option<String>,
    /// The whole session id, for the operator only.
    pub session_id: Option<Secret>,
    /// `{name, version, …}`
    pub info: Raw,
    /// Instructions for clients.
    pub instructions: Option<String>,
    /// Declared capabilities.
    pub capabilities: ServerCapabilities,
}

/// Number of listed items, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of tools.
    pub tools: usize,
    /// Number of resources.
    pub resources: usize,
    /// Number of resource templates.
    pub templates: usize,
    /// Number of prompts.
    pub prompts: usize,
    /// Items that could not be parsed.
    pub set_aside: usize,
}

/// The last error of a server.
#[derive(Clone, Debug)]
pub struct LastError {
    /// When it occurred.
    pub at: SystemTime,
    /// Id under which the operator log has the error.
    pub id: ErrorId,
    /// The message, with secrets redacted.
    pub message: OperatorText,
    /// Stable error code for programs.
    pub code: &'static str,
    /// Which party can resolve it.
    pub whose_move: WhoseMove,
    /// The JSON-RPC error with which the server refused the handshake.
    pub error: Option<RpcError>,
}

/// Id of an error of a server, in the operator log and in what clients are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorId(Uuid);

/// Why a server is not connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotConnected {
    /// The reason, as a message without a final full stop.
    pub because: OperatorText,
    /// The reason for clients.
    pub for_client: ClientText,
    /// Which party can resolve it.
    pub whose_move: WhoseMove,
    /// The JSON-RPC error with which the server refused the handshake.
    pub error: Option<RpcError>,
}

// === impl ServerStatus ===

impl ServerStatus {
    /// How long it has been ready; `None` if it is not.
    pub fn uptime(&self) -> Option<Duration> {
        (self.phase == Phase::Ready).then(|| self.since.elapsed().unwrap_or_default())
    }

    /// The error for a call that needs this server now.
    pub(crate) fn not_connected(&self) -> NotConnected {
        let (because, whose_move) = (self.phase.for_operator(), self.phase.whose_move());
        // Earlier errors do not explain why a disabled or stopped server is not connected.
        let failed = matches!(self.phase, Phase::Waiting { .. } | Phase::Failed { .. });
        let error = self.last_error.as_ref().filter(|_| failed).and_then(|last| last.error.clone());
        let for_client = self.for_client().unwrap_or_else(|| ClientText::complete(self.phase.word()));
        NotConnected { because, for_client, whose_move, error }
    }

    /// Why the server is not usable, for clients; `None` if it is usable.
    pub fn for_client(&self) -> Option<ClientText> {
        let class = self.last_error.as_ref().map_or("unavailable", |last| last.code);
        Some(match &self.phase {
            Phase::Ready if self.counts.is_some() => return None,
            Phase::Ready => ClientText::complete("it has not listed its items yet"),
            Phase::Waiting { failures, crash_loop, until, .. } => ClientText::of_code(class).map(|text| {
                let often = if *crash_loop { format!("failed {failures} times in a row: ") } else { String::new() };
                format!("{often}{text}; retrying in {:.0} s", seconds_until(*until))
            }),
            Phase::Failed { .. } => ClientText::of_code(class),
            // The hint has only names.
            Phase::SignInRequired { how: Some(how), .. } => ClientText::complete(format!("sign-in required: {how}")),
            Phase::SignInRequired { how: None, .. } => ClientText::complete("sign-in required"),
            // Fixed texts.
            Phase::Connecting { .. } | Phase::Disabled | Phase::Stopped(_) => {
                ClientText::complete(self.phase.for_operator().into_string())
            }
        })
    }
}

// === impl Phase ===

impl Phase {
    /// Stable name for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Connecting { .. } => "connecting",
            Self::Ready => "ready",
            Self::SignInRequired { .. } => "sign-in-required",
            Self::Waiting { .. } => "waiting",
            Self::Failed { .. } => "failed",
            Self::Disabled => "disabled",
            Self::Stopped(_) => "stopped",
        }
    }

    /// Whether no dial is in progress.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Self::Connecting { .. })
    }

    fn whose_move(&self) -> WhoseMove {
        match self {
            Self::Connecting { .. } | Self::Ready | Self::Waiting { .. } => WhoseMove::Supervisor,
            Self::SignInRequired { .. } => WhoseMove::User,
            Self::Failed { whose_move, .. } => *whose_move,
            Self::Disabled | Self::Stopped(_) => WhoseMove::Operator,
        }
    }

    /// One line for the operator. [`ServerStatus::for_client`] is the line for clients.
    pub fn for_operator(&self) -> OperatorText {
        OperatorText::new(match self {
            Self::Connecting { attempt: 0 | 1 } => "connecting".to_owned(),
            Self::Connecting { attempt } => format!("connecting, attempt {attempt}"),
            Self::Ready => "ready".to_owned(),
            Self::SignInRequired { how: Some(how), .. } => format!("sign-in required: {how}"),
            Self::SignInRequired { how: None, .. } => "sign-in required".to_owned(),
            Self::Waiting { because, failures, crash_loop, until } => {
                let often = if *crash_loop { format!("failed {failures} times in a row: ") } else { String::new() };
                format!("{often}{}; retrying in {:.0} s", because.as_str(), seconds_until(*until))
            }
            Self::Failed { because, .. } => return because.clone(),
            Self::Disabled => "disabled".to_owned(),
            Self::Stopped(StopReason::NotNeededYet) => "not started yet; starts on first use".to_owned(),
            Self::Stopped(StopReason::Idle) => "stopped after idle time; starts on next use".to_owned(),
            Self::Stopped(StopReason::Disconnected) => "disconnected".to_owned(),
            Self::Stopped(StopReason::Closed) => "closed".to_owned(),
        })
    }
}

/// Whole seconds from now.
fn seconds_until(time: SystemTime) -> f32 {
    time.duration_since(SystemTime::now()).unwrap_or_default().as_secs_f32().ceil()
}

impl TransportKind {
    /// Stable name for programs.
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
    /// A reason in words of ours, for operators and clients.
    pub(crate) fn known(because: impl Into<String>, whose_move: WhoseMove) -> Self {
        let for_client = ClientText::complete(because);
        Self { because: for_client.clone().into(), for_client, whose_move, error: None }
    }

    /// The error for a call after a failed dial.
    pub(crate) fn after(error: &DialError, redactor: &Redactor) -> Self {
        let refused = match error {
            DialError::Wire(WireError::Handshake(refused)) => Some(redactor.error(refused)),
            _ => None,
        };
        let because = OperatorText::new(redactor.text(&error.to_string()));
        Self { because, for_client: error.into(), whose_move: error.whose_move(), error: refused }
    }
}

// === impl ErrorId ===

impl ErrorId {
    /// A new id.
    pub(crate) fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for ErrorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
