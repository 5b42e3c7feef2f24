//! The states of a call: the words of records, logs, metrics, JSON and help.

use std::{fmt, str::FromStr};

/// State of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallState {
    /// Begun and not sent: it is looked up, decided, or waits for an approval or a slot.
    Pending,
    /// Sent and not ended.
    Running,
    /// Ended with a result.
    Succeeded,
    /// Ended with a result in which the tool reports an error.
    ToolError,
    /// Not sent, by policy, filter or limit.
    Refused,
    /// Ended with an error of the server or of the connection.
    Failed,
    /// Cancelled by its caller.
    Cancelled,
    /// Ended by a timeout.
    TimedOut,
    /// Its process ended without ending it.
    Interrupted,
}

/// A word that is not a state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown state `{0}`; use one of: {all}", all = CallState::ALL.map(CallState::as_str).join(", "))]
pub struct UnknownState(String);

impl CallState {
    /// All states, in the order of a call's life.
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Running,
        Self::Succeeded,
        Self::ToolError,
        Self::Refused,
        Self::Failed,
        Self::Cancelled,
        Self::TimedOut,
        Self::Interrupted,
    ];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::ToolError => "tool-error",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed-out",
            Self::Interrupted => "interrupted",
        }
    }

    /// Whether the call has not ended.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

impl fmt::Display for CallState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for CallState {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| UnknownState(text.to_owned()))
    }
}
