//! What goes wrong on the way, in situations a caller can act on.
//!
//! Every error has a stable word ([`WireError::code`]) that surfaces and embedding programs match on; the message
//! is for people and may change.

use std::{fmt, time::Duration};

use http::StatusCode;

use crate::message::{BadMessage, RpcError};

/// Why a server could not be reached, understood or waited for.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WireError {
    /// No connection: name, address, TLS or process.
    #[error("cannot reach {target}: {reason}")]
    Unreachable {
        /// Address or command.
        target: String,
        /// What the system said.
        reason: String,
    },
    /// A named clock ran out.
    #[error("no answer within {limit:?} ({kind})")]
    TimedOut {
        /// Which clock.
        kind: TimeoutKind,
        /// What it was set to.
        limit: Duration,
    },
    /// A peer sent more than it may.
    #[error("{what} is larger than the limit of {limit}")]
    TooLarge {
        /// Message, event, header, listing …
        what: &'static str,
        /// The bound, in bytes or items.
        limit: usize,
    },
    /// A peer said something the protocol does not allow.
    #[error("protocol violation: {0}")]
    Protocol(String),
    /// We will not do what was asked.
    #[error("refused: {0}")]
    Refused(String),
    /// The stream or process is gone.
    #[error("the connection ended: {0}")]
    Ended(String),
    /// The server wants credentials, or better ones.
    #[error("authorization needed (HTTP {status})")]
    Unauthorized {
        /// 401 or 403.
        status: StatusCode,
        /// Each `WWW-Authenticate` header.
        challenges: Vec<String>,
    },
    /// There is no token to show, though there will be one: whoever gives them does not answer.
    #[error("no token for now: {0}")]
    NoToken(String),
    /// What should be shown is kept where it cannot be read or written.
    #[error("{0}")]
    Vault(String),
    /// An HTTP status that carries no JSON-RPC answer.
    #[error("HTTP {status}{}", excerpt(body))]
    Status {
        /// The status.
        status: StatusCode,
        /// The beginning of the body.
        body: String,
    },
    /// A redirect that is not followed.
    #[error("redirect to {location} not followed: {reason}")]
    Redirect {
        /// Where to.
        location: String,
        /// Why not.
        reason: &'static str,
    },
    /// Too many requests are waiting for this server.
    #[error("more than {limit} requests wait for this server")]
    Overloaded {
        /// The bound.
        limit: usize,
    },
    /// No revision both sides speak.
    #[error("no common protocol revision: the server speaks {theirs}, we speak {ours}")]
    NoCommonRevision {
        /// Their list.
        theirs: String,
        /// Our list.
        ours: String,
    },
    /// The server answered the handshake with an error.
    #[error("the server refused the handshake: {0}")]
    Handshake(RpcError),
    /// This server, in its revision, has no such thing.
    #[error("{0}")]
    Unsupported(String),
}

/// The clocks that can run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    /// Opening a connection.
    Connect,
    /// The handshake.
    Handshake,
    /// No sign of life from a call; progress winds it up again.
    Idle,
    /// A call as a whole.
    Total,
    /// A subscription's acknowledgement.
    Acknowledgement,
}

// === impl WireError ===

impl WireError {
    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::TimedOut { .. } => "timed_out",
            Self::TooLarge { .. } => "too_large",
            Self::Protocol(_) => "protocol",
            Self::Refused(_) => "refused",
            Self::Ended(_) => "ended",
            Self::Unauthorized { .. } => "unauthorized",
            Self::NoToken(_) => "no_token",
            Self::Vault(_) => "vault",
            Self::Status { .. } => "http_status",
            Self::Redirect { .. } => "redirect",
            Self::Overloaded { .. } => "overloaded",
            Self::NoCommonRevision { .. } => "no_common_revision",
            Self::Handshake(_) => "handshake",
            Self::Unsupported(_) => "unsupported",
        }
    }

    pub(crate) fn protocol(problem: impl fmt::Display) -> Self {
        Self::Protocol(problem.to_string())
    }
}

impl From<BadMessage> for WireError {
    fn from(bad: BadMessage) -> Self {
        match bad.problem {
            crate::message::Problem::TooLarge { limit } => Self::TooLarge { what: "message", limit },
            crate::message::Problem::Crowded { limit } => Self::TooLarge { what: "batch", limit },
            other => Self::protocol(other),
        }
    }
}

impl fmt::Display for TimeoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect timeout",
            Self::Handshake => "handshake timeout",
            Self::Idle => "idle timeout",
            Self::Total => "total timeout",
            Self::Acknowledgement => "acknowledgement timeout",
        })
    }
}

fn excerpt(body: &str) -> String {
    const SHOWN: usize = 200;
    let line: String = body.chars().filter(|letter| !letter.is_control()).take(SHOWN).collect();
    if line.trim().is_empty() { String::new() } else { format!(": {line}") }
}
