//! Tasks as they are stored, and which of them a query returns.

use toolway_wire::time::{self, Micros};
use uuid::Uuid;

use super::TaskStatus;
use crate::{audience::ClientText, policy::Surface};

/// A task as it is known at some moment. Its result is that of its call, kept as bodies of calls are.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    /// Id of the task, which is that of its call.
    pub id: Uuid,
    /// Id of the task at its server.
    pub remote_id: String,
    /// Server name.
    pub server: String,
    /// Public tool name, or the name that was called.
    pub tool: String,
    /// `kind[:name]` of the caller.
    pub caller: String,
    /// Conversation it belongs to.
    pub conversation: Option<String>,
    /// Surface of its call; `None` if the call is not known any more. Read from the call.
    pub surface: Option<Surface>,
    /// Present state.
    pub status: TaskStatus,
    /// Last status message of the server, redacted; of a lost task, why it is lost. Clients and models read it.
    pub message: Option<ClientText>,
    /// Last progress of the server.
    pub progress: Option<TaskProgress>,
    /// When its call was continued as a task.
    pub created_at: Micros,
    /// When the row changed last.
    pub updated_at: Micros,
    /// Microseconds from its creation during which the server keeps it; `None`: unlimited.
    pub ttl: Option<i64>,
    /// Microseconds between two polls, as the server suggests.
    pub poll_interval: Option<i64>,
    /// What it ends with.
    pub kept_by: KeptBy,
    /// Who answers requests of its server.
    pub answered_by: AnsweredBy,
    /// Identity of the client for which the gateway hosts it: its name and key; `None` for any other task.
    pub hosted_for: Option<String>,
    /// Client capabilities of its caller as JSON, which select the connection; `None`: those of the host's ports.
    pub capabilities: Option<String>,
    /// Process that polls it; `None` if none does, or it has ended. Set by the store.
    pub process: Option<Uuid>,
}

/// A task with the result of its call. The error of the call is for the operator; clients read the message of the row.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTask {
    /// The task.
    pub row: TaskRow,
    /// Result of its call as JSON, as far as it is kept.
    pub result: Option<String>,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskProgress {
    /// What is done.
    pub done: f64,
    /// What there is to do; `None` if the server does not say.
    pub total: Option<f64>,
}

/// What keeps a task, and so what it ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptBy {
    /// The server process that we started: the task ends with it.
    Process,
    /// A server that others run: the task outlives us.
    Server,
}

/// Who answers the requests that a server sends during a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredBy {
    /// The ports of the host: the surface of the call, or the inbox.
    Host,
    /// The client of the gateway that has the task.
    Client,
}

/// Which tasks to return. Absent members match every task.
#[derive(Clone, Debug, Default)]
pub struct TaskFilter {
    /// Server name.
    pub server: Option<String>,
    /// Conversation id.
    pub conversation: Option<String>,
    /// Whether it has ended; `None`: either.
    pub is_open: Option<bool>,
    /// Only tasks that no process polls.
    pub unclaimed: bool,
    /// At most this many.
    pub limit: usize,
}

impl TaskRow {
    /// A task that begins now, of which nothing else is known.
    pub fn begun(id: Uuid, kept_by: KeptBy, answered_by: AnsweredBy) -> Self {
        let now = time::now();
        Self {
            id,
            remote_id: String::new(),
            server: String::new(),
            tool: String::new(),
            caller: String::new(),
            conversation: None,
            surface: None,
            status: TaskStatus::Working,
            message: None,
            progress: None,
            created_at: now,
            updated_at: now,
            ttl: None,
            poll_interval: None,
            kept_by,
            answered_by,
            hosted_for: None,
            capabilities: None,
            process: None,
        }
    }
}

impl KeptBy {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Server => "server",
        }
    }
}

impl AnsweredBy {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Client => "client",
        }
    }
}
