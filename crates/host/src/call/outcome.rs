//! The outcome of a call.

use std::{fmt, time::Duration};

use toolway_config::ServerName;
use toolway_wire::{
    error::{TimeoutKind, WireError},
    exchange::Outcome,
    json::Raw,
    message::RpcError,
    task::Task,
};

use crate::{connection::NotConnected, policy::Refusal, record::Ending, whose_move::WhoseMove};

/// The outcome of a call. Each call has exactly one.
#[must_use]
#[derive(Clone, Debug)]
pub enum CallOutcome {
    /// The result, unchanged. A tool result can report an error (`isError`).
    Answered(Raw),
    /// The server continues the call as a task.
    HandedOff(Box<Task>),
    /// The call was refused and not sent.
    Refused(Refusal),
    /// The call failed in transport, or the server answered with an error.
    Failed(CallError),
    /// The caller or the server cancelled the call.
    Cancelled,
    /// A timeout expired. The server was sent a cancellation.
    TimedOut {
        /// The timeout that expired.
        kind: TimeoutKind,
        /// Duration of the timeout.
        limit: Duration,
    },
}

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The server is not connected; nothing was sent.
    #[error("`{server}` is not connected: {why}")]
    NotConnected {
        /// Server name.
        server: ServerName,
        /// State of the server.
        why: NotConnected,
    },
    /// The server requires the caller to sign in.
    #[error("`{server}` requires a sign-in: {how}")]
    SignInRequired {
        /// Server name.
        server: ServerName,
        /// Instructions for the sign-in.
        how: String,
    },
    /// The call waited for the answer to a server request, and was cancelled because another call needed its
    /// connection.
    #[error(
        "a request of `{server}` was not answered for {waited:?}, and another call needed its connection; call again"
    )]
    Preempted {
        /// Server name.
        server: ServerName,
        /// Time spent waiting for the answer.
        waited: Duration,
    },
    /// The server answered with an error.
    #[error("{0}")]
    Server(RpcError),
    /// The transport or the protocol failed.
    #[error("{0}")]
    Wire(#[from] WireError),
}

impl CallOutcome {
    /// The ending as stored in records.
    pub fn ending(&self) -> Ending {
        match self {
            Self::Answered(_) => Ending::Answered,
            Self::HandedOff(_) => Ending::HandedOff,
            Self::Refused(_) => Ending::Refused,
            Self::Failed(_) => Ending::Failed,
            Self::Cancelled => Ending::Cancelled,
            Self::TimedOut { .. } => Ending::TimedOut,
        }
    }

    /// Returns the result of an answered call.
    pub fn result(&self) -> Option<&Raw> {
        match self {
            Self::Answered(result) => Some(result),
            _ => None,
        }
    }

    /// Whether the result of a tool reports an error (`isError`).
    pub fn is_tool_error(&self) -> bool {
        let flag = self.result().and_then(|result| result.get("isError"));
        flag.and_then(|flag| flag.as_bool()).unwrap_or_default()
    }

    /// Returns the error message; `None` if the call succeeded.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::Answered(_) | Self::HandedOff(_) => None,
            Self::Refused(refusal) => Some(refusal.to_string()),
            Self::Failed(error) => Some(error.to_string()),
            Self::Cancelled => Some("cancelled".to_owned()),
            Self::TimedOut { kind, limit } => Some(format!("no answer within {limit:?} ({kind})")),
        }
    }
}

impl From<Outcome> for CallOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Answered(result) => Self::Answered(result),
            Outcome::HandedOff(task) => Self::HandedOff(task),
            Outcome::Refused(error) => Self::Failed(CallError::Server(error)),
            Outcome::Failed(error) => Self::Failed(CallError::Wire(error)),
            Outcome::Cancelled => Self::Cancelled,
            Outcome::TimedOut { kind, limit } => Self::TimedOut { kind, limit },
        }
    }
}

impl From<Refusal> for CallOutcome {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// One line for logs and tests.
impl fmt::Display for CallOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message() {
            Some(message) => write!(f, "{}: {message}", self.ending()),
            None => write!(f, "{}", self.ending()),
        }
    }
}

// === impl CallError ===

impl CallError {
    /// Stable error code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotConnected { .. } => "not_connected",
            Self::SignInRequired { .. } => "unauthorized",
            Self::Preempted { .. } => "gave_way",
            Self::Server(_) => "server_error",
            Self::Wire(error) => error.code(),
        }
    }

    /// The party that can act on the error.
    pub fn whose_move(&self) -> WhoseMove {
        match self {
            Self::NotConnected { why, .. } => why.whose_move,
            Self::SignInRequired { .. } => WhoseMove::User,
            Self::Server(_) | Self::Preempted { .. } => WhoseMove::Caller,
            Self::Wire(error) => WhoseMove::after(error),
        }
    }
}
