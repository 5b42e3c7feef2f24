//! Errors of this crate, by the situation a caller can act on.
//!
//! Every error has a stable code ([`WireError::code`]) for programs to match on; the message is for users and may change.

use std::{fmt, time::Duration};

use http::StatusCode;

use crate::message::{BadMessage, RpcError};

/// Bytes of the text of an error that is kept after its message.
const LONGEST_TEXT: usize = 1_024;

/// Why a request to a server failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WireError {
    /// No connection: name resolution, TCP, TLS or process start failed.
    #[error("cannot reach `{target}`: {reason}")]
    Unreachable {
        /// URL or command.
        target: String,
        /// Message of the operating system or library.
        reason: String,
    },
    /// A timeout expired.
    #[error("{}", kind.describe(*limit))]
    TimedOut {
        /// The timeout that expired.
        kind: TimeoutKind,
        /// Its configured duration.
        limit: Duration,
    },
    /// A peer exceeded a bound.
    #[error("{what} is larger than the limit of {limit}")]
    TooLarge {
        /// Message, event, header, listing …
        what: &'static str,
        /// The bound, in bytes or items.
        limit: usize,
    },
    /// A peer violated the protocol.
    #[error("protocol violation: {0}")]
    Protocol(String),
    /// The operation was refused, by the server or by this crate.
    #[error("refused: {0}")]
    Refused(String),
    /// The stream or process has ended.
    #[error("the connection ended: {0}")]
    Ended(String),
    /// The server requires credentials, or rejected those sent.
    #[error("authorization required (HTTP {status})")]
    Unauthorized {
        /// 401 or 403.
        status: StatusCode,
        /// Each `WWW-Authenticate` header.
        challenges: Vec<String>,
        /// Start of the body, for the operator only; not part of the message.
        body: String,
    },
    /// The authorization server does not respond, so there is no access token yet; retrying later may succeed.
    #[error("no access token available: {0}")]
    NoToken(String),
    /// The credential store cannot be read or written.
    #[error("{0}")]
    Vault(String),
    /// An HTTP status without a JSON-RPC response.
    #[error("HTTP {status}{}", excerpt(body))]
    Status {
        /// HTTP status code.
        status: StatusCode,
        /// Start of the body.
        body: String,
    },
    /// A redirect that is not followed.
    #[error("redirect to {location} not followed: {reason}")]
    Redirect {
        /// Target URL, without query and user info.
        location: String,
        /// Why it is not followed.
        reason: &'static str,
    },
    /// Too many requests are waiting for this server.
    #[error("too many requests: {limit} are already waiting for this server")]
    Overloaded {
        /// Largest number of waiting requests.
        limit: usize,
    },
    /// The byte budget is exhausted, so the response cannot be kept.
    #[error(transparent)]
    OverBudget(#[from] crate::budget::OverBudget),
    /// Client and server share no protocol revision.
    #[error("no common protocol revision: the server supports {theirs}, this client supports {ours}")]
    NoCommonRevision {
        /// Revisions of the server.
        theirs: String,
        /// Revisions of this client.
        ours: String,
    },
    /// The server answered the handshake with an error.
    #[error("the server refused the handshake: {0}")]
    Handshake(RpcError),
    /// The server's revision does not support this.
    #[error("{0}")]
    Unsupported(String),
}

/// Which timeout expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    /// Timeout for opening a connection.
    Connect,
    /// Timeout for one step of the handshake.
    Handshake,
    /// Longest time without any event of a call; progress restarts it.
    Idle,
    /// Timeout for a call as a whole.
    Total,
    /// Timeout for the acknowledgement of a subscription.
    Acknowledgement,
    /// Deadline of a call, which nothing extends.
    Deadline,
}

// === impl WireError ===

impl WireError {
    /// Stable code for programs to match on.
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
            Self::OverBudget(_) => "over_budget",
            Self::NoCommonRevision { .. } => "no_common_revision",
            Self::Handshake(_) => "handshake",
            Self::Unsupported(_) => "unsupported",
        }
    }

    /// A request whose caller had left before anything was written.
    pub(crate) fn not_sent() -> Self {
        Self::Ended("the call had ended before it was sent".to_owned())
    }

    pub(crate) fn protocol(problem: impl fmt::Display) -> Self {
        Self::Protocol(problem.to_string())
    }

    /// The same without the end of a long text: what a peer wrote may be as long as a message.
    #[must_use]
    pub(crate) fn cut(self) -> Self {
        let short = |text: String| match text.floor_char_boundary(LONGEST_TEXT) {
            end if end < text.len() => format!("{}…", &text[..end]),
            _ => text,
        };
        match self {
            Self::Protocol(text) => Self::Protocol(short(text)),
            Self::Refused(text) => Self::Refused(short(text)),
            Self::Ended(text) => Self::Ended(short(text)),
            Self::Status { status, body } => Self::Status { status, body: short(body) },
            // The error is a part of its message, which it keeps.
            Self::Handshake(error) => Self::Refused(short(format!("the server refused the handshake: {error}"))),
            other => other,
        }
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

impl TimeoutKind {
    /// The message for users when this timeout of `limit` expired.
    pub fn describe(self, limit: Duration) -> String {
        format!("no answer within {limit:?} ({self})")
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
            Self::Deadline => "`limits.deadline`",
        })
    }
}

fn excerpt(body: &str) -> String {
    const SHOWN: usize = 200;
    let line: String = body.chars().filter(|letter| !letter.is_control()).take(SHOWN).collect();
    if line.trim().is_empty() { String::new() } else { format!(": {line}") }
}
