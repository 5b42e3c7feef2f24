//! The outcome of a call in its record: whether it was sent, and whether its answer is known.

use std::{fmt, str::FromStr};

use toolway_wire::error::WireError;

use crate::call::{CallError, CallOutcome};

/// Whether a call was sent and answered. Each call that has ended has one; `outcome` in records, JSON and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// The server's answer, which may be an error, was recorded.
    Answered,
    /// No byte of the request was written.
    NotSent,
    /// Everything else: the server may have acted or not.
    Unknown,
}

/// A word that is not an outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown outcome `{0}`; use one of: {all}", all = Delivery::ALL.map(Delivery::as_str).join(", "))]
pub struct UnknownDelivery(String);

/// Member of `_meta` of an error result that has the outcome.
pub const OUTCOME_META: &str = "toolway/outcome";

impl Delivery {
    /// All outcomes.
    pub const ALL: [Self; 3] = [Self::Answered, Self::NotSent, Self::Unknown];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::NotSent => "not-sent",
            Self::Unknown => "unknown",
        }
    }

    /// What it means, for a person, a client or a model; `None` for an answered call, whose answer says it.
    pub fn words(self) -> Option<&'static str> {
        match self {
            Self::Answered => None,
            Self::NotSent => Some("not sent"),
            Self::Unknown => Some("outcome unknown: the server may have acted on the call"),
        }
    }

    /// An error message that says it.
    pub fn said_after(self, message: &str) -> String {
        match self.words() {
            Some(words) => format!("{message}; {words}"),
            None => message.to_owned(),
        }
    }

    /// The outcome of a call that ended so. `was_written`: whether a byte of it may have been written.
    pub(crate) fn of(outcome: &CallOutcome, was_written: impl FnOnce() -> bool) -> Self {
        match outcome {
            CallOutcome::Answered(_)
            | CallOutcome::HandedOff(_)
            | CallOutcome::Failed(CallError::Server(_) | CallError::Limit(_)) => Self::Answered,
            _ if !was_written() => Self::NotSent,
            CallOutcome::Failed(CallError::SignInRequired { .. }) => Self::Answered,
            CallOutcome::Failed(CallError::Wire(error)) if is_answer(error) => Self::Answered,
            _ => Self::Unknown,
        }
    }
}

/// Whether an error is the answer of the server itself: it refused the request. A gateway between us may report the other
/// statuses for a server that has received the request.
fn is_answer(error: &WireError) -> bool {
    match error {
        WireError::Unauthorized { .. } => true,
        WireError::Status { status, .. } => {
            status.is_client_error() && !matches!(status.as_u16(), 408 | 409 | 425 | 499)
        }
        _ => false,
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Delivery {
    type Err = UnknownDelivery;

    fn from_str(text: &str) -> Result<Self, UnknownDelivery> {
        Self::ALL.into_iter().find(|known| known.as_str() == text).ok_or_else(|| UnknownDelivery(text.to_owned()))
    }
}
