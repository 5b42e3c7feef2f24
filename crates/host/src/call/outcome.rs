//! The one way a call ended.

use std::{fmt, time::Duration};

use toolway_config::ServerName;
use toolway_wire::{
    error::{Clock, WireError},
    exchange::Outcome,
    json::Raw,
    message::RpcError,
    task::Task,
};

use crate::{connection::NotConnected, policy::Refusal, record::Ending, whose_move::WhoseMove};

/// The one way a call ended. Each is recorded once.
#[must_use]
#[derive(Clone, Debug)]
pub enum CallOutcome {
    /// A result, as it came; a tool may say in it that it failed.
    Answered(Raw),
    /// A task goes on in its place.
    HandedOff(Box<Task>),
    /// It was not sent, and why.
    Refused(Refusal),
    /// It went wrong on the way, or the server answered with an error.
    Failed(CallError),
    /// Its caller did not want it any more, or the server gave it up.
    Cancelled,
    /// A clock ran out; the server was told.
    TimedOut {
        /// Which clock.
        clock: Clock,
        /// What it was set to.
        limit: Duration,
    },
}

/// What went wrong.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The server cannot be reached at the moment; nothing was sent.
    #[error("`{server}` is not connected: {why}")]
    NotConnected {
        /// Which.
        server: ServerName,
        /// Its state, as a sentence.
        why: NotConnected,
    },
    /// The server wants to see who asks, and somebody has to sign in for that.
    #[error("`{server}` needs a sign-in: {how}")]
    SignInNeeded {
        /// Which.
        server: ServerName,
        /// Who has to do what.
        how: String,
    },
    /// It waited for an answer of its caller's side, and another call needed its connection to the server.
    #[error(
        "nobody had answered what `{server}` asked for {waited:?}, and another call needed its connection; call again"
    )]
    GaveWay {
        /// Which server.
        server: ServerName,
        /// For how long.
        waited: Duration,
    },
    /// The server answered with an error.
    #[error("{0}")]
    Server(RpcError),
    /// It did not get that far.
    #[error("{0}")]
    Wire(#[from] WireError),
}

impl CallOutcome {
    /// Its word, as records have it.
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

    /// The result, where there is one.
    pub fn result(&self) -> Option<&Raw> {
        match self {
            Self::Answered(result) => Some(result),
            _ => None,
        }
    }

    /// Whether a tool says in its result that it failed.
    pub fn is_tool_error(&self) -> bool {
        let flag = self.result().and_then(|result| result.get("isError"));
        flag.and_then(|flag| flag.as_bool()).unwrap_or_default()
    }

    /// What went wrong, for people; none where nothing did.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::Answered(_) | Self::HandedOff(_) => None,
            Self::Refused(refusal) => Some(refusal.to_string()),
            Self::Failed(error) => Some(error.to_string()),
            Self::Cancelled => Some("cancelled".to_owned()),
            Self::TimedOut { clock, limit } => Some(format!("no answer within {limit:?} ({clock})")),
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
            Outcome::TimedOut { clock, limit } => Self::TimedOut { clock, limit },
        }
    }
}

impl From<Refusal> for CallOutcome {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// One line, for stories and logs.
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
    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotConnected { .. } => "not_connected",
            Self::SignInNeeded { .. } => "unauthorized",
            Self::GaveWay { .. } => "gave_way",
            Self::Server(_) => "server_error",
            Self::Wire(error) => error.code(),
        }
    }

    /// Who can act on it.
    pub fn whose_move(&self) -> WhoseMove {
        match self {
            Self::NotConnected { why, .. } => why.whose_move,
            Self::SignInNeeded { .. } => WhoseMove::User,
            Self::Server(_) | Self::GaveWay { .. } => WhoseMove::Caller,
            Self::Wire(error) => WhoseMove::after(error),
        }
    }
}
