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

use crate::{
    audience::{ClientText, OperatorText},
    connection::NotConnected,
    policy::{LimitReached, Refusal},
    record::CallState,
    whose_move::WhoseMove,
};

/// Why a cancelled call has no answer; the state says that it was cancelled.
const CANCELLED: &str = "the call ended before its answer";

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
#[derive(Clone, Debug)]
pub enum CallError {
    /// The server is not connected; nothing was sent.
    NotConnected {
        /// Server name.
        server: ServerName,
        /// State of the server.
        why: NotConnected,
    },
    /// The server requires the caller to sign in.
    SignInRequired {
        /// Server name.
        server: ServerName,
        /// Instructions for the sign-in.
        how: String,
    },
    /// The call waited for the answer to a server request, and was cancelled because another call needed its
    /// connection.
    Preempted {
        /// Server name.
        server: ServerName,
        /// Time spent waiting for the answer.
        waited: Duration,
    },
    /// The server no longer runs or knows the task that continued the call.
    TaskLost {
        /// Server name.
        server: ServerName,
        /// Why, in the words of the server where it gave any.
        why: ClientText,
    },
    /// The server answered, and a limit withholds its result.
    Limit(Box<LimitReached>),
    /// The server answered, and that cannot be recorded.
    Unrecorded,
    /// The server answered with an error.
    Server(RpcError),
    /// The transport or the protocol failed.
    Wire(WireError),
}

impl CallOutcome {
    /// The state of the call in its record. A call that continues as a task is running until the task ends.
    pub fn state(&self) -> CallState {
        match self {
            Self::Answered(_) if self.is_tool_error() => CallState::ToolError,
            Self::Answered(_) => CallState::Succeeded,
            Self::HandedOff(_) => CallState::Running,
            Self::Refused(_) => CallState::Refused,
            Self::Failed(_) => CallState::Failed,
            Self::Cancelled => CallState::Cancelled,
            Self::TimedOut { .. } => CallState::TimedOut,
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
        let flag = self.result().filter(|result| result.may_contain_true()).and_then(|result| result.get("isError"));
        flag.and_then(|flag| flag.as_bool()).unwrap_or_default()
    }

    /// Whether the server refused the credential, and so did not look at the call.
    pub(crate) fn is_refused_credential(&self) -> bool {
        let Self::Failed(error) = self else { return false };
        matches!(error, CallError::SignInRequired { .. } | CallError::Wire(WireError::Unauthorized { .. }))
    }

    /// Returns the error message for the operator; `None` if the call succeeded.
    pub fn message(&self) -> Option<OperatorText> {
        match self {
            Self::Refused(refusal) => Some(OperatorText::new(refusal.to_string())),
            Self::Failed(error) => Some(error.for_operator()),
            _ => self.for_client().map(OperatorText::from),
        }
    }

    /// Returns the error message for a client or a model; `None` if the call succeeded.
    pub fn for_client(&self) -> Option<ClientText> {
        match self {
            Self::Answered(_) | Self::HandedOff(_) => None,
            Self::Refused(refusal) => Some(refusal.into()),
            Self::Failed(error) => Some(error.for_client()),
            Self::Cancelled => Some(ClientText::complete(CANCELLED)),
            Self::TimedOut { kind, limit } => Some(ClientText::complete(kind.describe(*limit))),
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

/// One line without details that are withheld from clients.
impl fmt::Display for CallOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.for_client() {
            Some(message) => write!(f, "{}: {message}", self.state()),
            None => write!(f, "{}", self.state()),
        }
    }
}

// === impl CallError ===

impl From<WireError> for CallError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl CallError {
    /// The message for the operator.
    pub fn for_operator(&self) -> OperatorText {
        match self {
            Self::NotConnected { server, why } => {
                OperatorText::new(format!("`{server}` is not connected: {}", why.because.as_str()))
            }
            Self::Server(error) => OperatorText::new(error.to_string()),
            Self::Wire(error) => OperatorText::new(error.to_string()),
            Self::SignInRequired { .. }
            | Self::Preempted { .. }
            | Self::TaskLost { .. }
            | Self::Limit(_)
            | Self::Unrecorded => self.for_client().into(),
        }
    }

    /// The message for a client or a model.
    pub fn for_client(&self) -> ClientText {
        match self {
            Self::NotConnected { server, why } => {
                why.for_client.clone().map(|why| format!("`{server}` is not connected: {why}"))
            }
            // The hint has only names.
            Self::SignInRequired { server, how } => {
                ClientText::complete(format!("`{server}` requires a sign-in: {how}"))
            }
            Self::Preempted { server, waited } => ClientText::complete(format!(
                "a request of `{server}` was not answered for {waited:?}, and another call needed its connection; call \
                 again"
            )),
            Self::TaskLost { server, why } => why.clone().map(|why| format!("the task at `{server}` is lost: {why}")),
            Self::Limit(reached) => ClientText::complete(reached.to_string()),
            Self::Unrecorded => ClientText::complete("the server answered, and the answer cannot be recorded"),
            // The server addressed it to the client.
            Self::Server(error) => ClientText::complete(error.to_string()),
            Self::Wire(error) => error.into(),
        }
    }

    /// Stable error code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotConnected { .. } => "not_connected",
            Self::SignInRequired { .. } => "unauthorized",
            Self::Preempted { .. } => "preempted",
            Self::TaskLost { .. } => "task_lost",
            Self::Limit(_) => LimitReached::CODE,
            Self::Unrecorded => "answer_not_recorded",
            Self::Server(_) => "server_error",
            Self::Wire(error) => error.code(),
        }
    }

    /// The party that can act on the error.
    pub fn whose_move(&self) -> WhoseMove {
        match self {
            Self::NotConnected { why, .. } => why.whose_move,
            Self::SignInRequired { .. } => WhoseMove::User,
            Self::Server(_) | Self::Limit(_) | Self::Preempted { .. } | Self::TaskLost { .. } => WhoseMove::Caller,
            Self::Unrecorded => WhoseMove::Operator,
            Self::Wire(error) => WhoseMove::after(error),
        }
    }
}
