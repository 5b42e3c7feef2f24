//! The states of a task: the words of rows, JSON and help.

use std::{fmt, str::FromStr};

use toolway_wire::task;

/// State of a task. The answer of its server decides; notifications only make us ask sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaskStatus {
    /// The server works on it.
    Working,
    /// The server waits for answers to its requests.
    InputRequired,
    /// Ended with a result, in which the tool may report an error.
    Completed,
    /// Ended with an error of the server.
    Failed,
    /// Cancelled by its caller or its server.
    Cancelled,
    /// Its end cannot be known: the server that ran it has ended, or no longer knows it.
    Lost,
}

/// A word that is not a state of a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown task status `{0}`; use one of: {all}", all = TaskStatus::ALL.map(TaskStatus::as_str).join(", "))]
pub struct UnknownTaskStatus(String);

impl TaskStatus {
    /// All states, in the order of a task's life.
    pub const ALL: [Self; 6] =
        [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled, Self::Lost];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input-required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
        }
    }

    /// Whether the task has not ended.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Working | Self::InputRequired)
    }
}

impl From<task::TaskStatus> for TaskStatus {
    fn from(status: task::TaskStatus) -> Self {
        match status {
            task::TaskStatus::Working => Self::Working,
            task::TaskStatus::InputRequired => Self::InputRequired,
            task::TaskStatus::Completed => Self::Completed,
            task::TaskStatus::Failed => Self::Failed,
            task::TaskStatus::Cancelled => Self::Cancelled,
        }
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TaskStatus {
    type Err = UnknownTaskStatus;

    fn from_str(text: &str) -> Result<Self, UnknownTaskStatus> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| UnknownTaskStatus(text.to_owned()))
    }
}
