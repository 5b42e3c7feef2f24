//! Tasks: requests that continue after their exchange has ended, in one form for both eras.
//!
//! An exchange ends with a task ([`crate::exchange::Outcome::HandedOff`]) if its request allows it
//! ([`crate::exchange::Handover`]). The task can then be polled, answered, cancelled, or followed to its end as another
//! exchange. The wire formats are in [`codec`]: the core tasks of 2025-11-25 with `tasks/result`, and the extension with
//! everything in one response.

pub(crate) mod codec;
pub(crate) mod follow;
pub(crate) mod hosted;

use std::{fmt, str::FromStr, time::Duration};

use crate::{
    error::WireError,
    exchange::{Handover, Outcome, ServerRequestDetails},
    json::Raw,
    message::RpcError,
    time,
};

/// Message of the error that ends the exchange of a task that was cancelled.
pub const CANCELLED_TASK: &str = "the task was cancelled";

/// State of a task when it was read.
#[derive(Clone, Debug)]
pub struct Task {
    /// Task id of the server that runs it.
    pub id: String,
    /// Current status. A tool result with `isError` counts as completed.
    pub status: TaskStatus,
    /// Status message for users.
    pub message: Option<String>,
    /// Time of creation, as received.
    pub created: String,
    /// Time of the last change, as received.
    pub updated: String,
    /// Lifetime from its creation; `None`: unlimited.
    pub ttl: Option<Duration>,
    /// Suggested poll interval, if any.
    pub poll_interval: Option<Duration>,
    /// Result, error or open server requests.
    pub content: TaskContent,
    /// The task object as received.
    pub raw: Raw,
}

/// Status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskStatus {
    /// In progress.
    Working,
    /// Waiting for answers to server requests.
    InputRequired,
    /// Finished with a result.
    Completed,
    /// Finished with an error.
    Failed,
    /// Cancelled by its caller.
    Cancelled,
}

/// Result, error or open server requests of a task.
#[derive(Clone, Debug)]
pub enum TaskContent {
    /// None, or not requested.
    Nothing,
    /// Open server requests, each with a key that is unique within the task.
    Requests(Vec<ServerRequestDetails>),
    /// The result of the request.
    Result(Raw),
    /// The error of the request.
    Error(RpcError),
}

/// How much of a task to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskDetail {
    /// Only the status.
    Status,
    /// Status and content.
    Full,
}

/// Whether a tool can run as a task (`execution.taskSupport`, legacy only; modern servers do not announce it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSupport {
    /// Not possible; the default.
    Forbidden,
    /// Possible on request.
    Optional,
    /// The tool runs only as a task.
    Required,
}

/// One page of a task list.
#[derive(Clone, Debug, Default)]
pub struct TaskPage {
    /// Tasks without content.
    pub tasks: Vec<Task>,
    /// Cursor of the next page.
    pub next: Option<Raw>,
}

/// Error of an operation on a task.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TaskError {
    /// The server refused it; its error as received.
    #[error("{0}")]
    Refused(RpcError),
    /// The operation failed before the server answered.
    #[error(transparent)]
    Failed(#[from] WireError),
}

/// An unknown task status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown task status `{0}`")]
pub struct UnknownTaskStatus(pub String);

// === impl Task ===

impl Task {
    /// A new task in progress.
    pub fn new(id: &str, ttl: Option<Duration>, poll_interval: Option<Duration>) -> Self {
        let now = time::rfc3339_now();
        let task = Self {
            id: id.to_owned(),
            status: TaskStatus::Working,
            message: None,
            created: now.clone(),
            updated: now,
            ttl,
            poll_interval,
            content: TaskContent::Nothing,
            raw: Raw::empty_object(),
        };
        Self { raw: codec::modern(&task), ..task }
    }

    /// Parses a task of either era: flat, or under `task`.
    pub fn view(result: &Raw) -> Option<Self> {
        codec::read(result)
    }

    /// The same task under another id, for relays.
    #[must_use]
    pub fn with_id(self, id: &str) -> Self {
        Self { id: id.to_owned(), ..self }
    }

    /// Poll interval: the suggested one, between 100 ms and 60 s.
    pub(crate) fn interval(&self) -> Duration {
        const USUAL: Duration = Duration::from_secs(1);
        const LEAST: Duration = Duration::from_millis(100);
        const MOST: Duration = Duration::from_secs(60);
        self.poll_interval.unwrap_or(USUAL).clamp(LEAST, MOST)
    }

    /// Time between two polls of a server: as it suggests, between 1 and 60 s; `usual` if it suggests none.
    pub fn poll_delay(&self, usual: Duration) -> Duration {
        const LEAST: Duration = Duration::from_secs(1);
        const MOST: Duration = Duration::from_secs(60);
        self.poll_interval.unwrap_or(usual).clamp(LEAST, MOST)
    }

    /// Sets the status and the time of the last change.
    pub(crate) fn touch(&mut self, status: TaskStatus) {
        self.status = status;
        self.updated = time::rfc3339_now();
    }
}

impl TaskContent {
    /// Bytes of a result or an error.
    fn size(&self) -> usize {
        match self {
            Self::Nothing | Self::Requests(_) => 0,
            Self::Result(result) => result.as_bytes().len(),
            Self::Error(error) => error.raw().as_bytes().len(),
        }
    }
}

impl TaskStatus {
    /// All statuses.
    pub const ALL: [Self; 5] = [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled];

    /// Name on the wire, the same in both eras.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the task is finished.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl FromStr for TaskStatus {
    type Err = UnknownTaskStatus;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| UnknownTaskStatus(text.to_owned()))
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl TaskSupport ===

impl TaskSupport {
    /// Task support of a listed tool.
    pub fn of(tool: &Raw) -> Self {
        let support = tool.get("execution").and_then(|execution| execution.get("taskSupport"));
        match support.as_ref().and_then(Raw::as_str).as_deref() {
            Some("optional") => Self::Optional,
            Some("required") => Self::Required,
            _ => Self::Forbidden,
        }
    }

    /// Handover to request from the server of such a tool: a legacy server creates a task only on request.
    pub fn handover_for(self, caller: Handover) -> Handover {
        match (caller, self) {
            (Handover::Allowed, Self::Optional | Self::Required) => Handover::Wanted(None),
            (given, _) => given,
        }
    }
}

// === impl TaskError ===

impl TaskError {
    /// Error for an unknown task id.
    pub fn unknown(id: &str) -> Self {
        Self::Refused(RpcError::new(RpcError::INVALID_PARAMS, &format!("task `{id}` not found")))
    }

    /// Error for an unknown method.
    pub fn no_such_method(method: &str) -> Self {
        Self::Refused(RpcError::new(RpcError::METHOD_NOT_FOUND, &format!("unknown method `{method}`")))
    }
}

impl From<TaskError> for Outcome {
    fn from(problem: TaskError) -> Self {
        match problem {
            TaskError::Refused(error) => Self::Refused(error),
            TaskError::Failed(error) => Self::Failed(error),
        }
    }
}
