//! Calls as they are stored, and which of them a query returns.

use toolway_wire::time::Micros;
use uuid::Uuid;

use super::{CallBody, CallState, Delivery};
use crate::task::TaskStatus;

/// A call as it is known at some moment. The same row is written at its beginning, when it is sent, and at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRow {
    /// UUIDv7, so that ids sort by time.
    pub id: Uuid,
    /// When it began.
    pub started_at: Micros,
    /// Microseconds until its end without `waited`; `None` while it is open.
    pub duration: Option<i64>,
    /// Microseconds in which it waited for a person; known at its end.
    pub waited: i64,
    /// Microseconds until it was sent, without `waited`; `None` if it was not, and in records of before.
    pub prepared: Option<i64>,
    /// `kind[:name]` of the caller.
    pub caller: String,
    /// `call`, `chat`, `run`, `gateway`, `console`, `library`.
    pub surface: String,
    /// `tool`, `prompt`, `resource`, `method`.
    pub kind: String,
    /// Name as it was requested; a URI without its query.
    pub name: String,
    /// Server name; `None` if no server was found.
    pub server: Option<String>,
    /// Public tool name; `None` for other kinds.
    pub tool: Option<String>,
    /// Present state.
    pub state: CallState,
    /// Whether it was sent and answered; `None` while it is open, and in records of before.
    pub outcome: Option<Delivery>,
    /// Whether the item is annotated idempotent or read-only.
    pub idempotent: bool,
    /// Whether an earlier result of the same resource answered it, so that nothing was sent.
    pub from_cache: bool,
    /// The rule that decided.
    pub rule: Option<String>,
    /// Who approved it, where policy asked.
    pub approved_by: Option<String>,
    /// Redacted error message.
    pub error: Option<String>,
    /// Stable error code of a refused call (`denied`, `no_approver`, `hidden` …); `None` for others, and in records of before.
    pub code: Option<String>,
    /// Conversation it belongs to.
    pub conversation: Option<String>,
    /// Bytes of the arguments.
    pub argument_bytes: i64,
    /// Bytes of the result.
    pub result_bytes: i64,
    /// Server requests during the call.
    pub server_requests: i64,
    /// Status of the task that continues the call, whose id is that of the call. Read with the call, and not written with it.
    pub task: Option<TaskStatus>,
}

/// A call with its arguments and result, as far as `store.bodies` keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCall {
    /// The call.
    pub row: CallRow,
    /// Arguments and result.
    pub body: CallBody,
}

/// What a model answered in a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingRow {
    /// Id of the request, a UUIDv7.
    pub id: Uuid,
    /// When it was asked.
    pub at: Micros,
    /// The server that asked.
    pub server: String,
    /// Name of the model.
    pub model: String,
    /// Why this model was chosen.
    pub reason: String,
    /// Tokens that count against quotas: the maximum until the model has answered.
    pub tokens: i64,
    /// Tokens of the request, as the vendor counts them.
    pub input_tokens: Option<i64>,
    /// Tokens of the answer, as the vendor counts them.
    pub output_tokens: Option<i64>,
    /// `answered`, `failed`, `withheld` or `cancelled`; `None` while it is open.
    pub outcome: Option<String>,
}

/// Which calls to return. Absent members match every call.
#[derive(Clone, Debug, Default)]
pub struct CallFilter {
    /// In one of these states; empty: in any.
    pub states: Vec<CallState>,
    /// Server name.
    pub server: Option<String>,
    /// `kind[:name]` of the caller; a kind alone matches all its names.
    pub caller: Option<String>,
    /// Public tool name.
    pub tool: Option<String>,
    /// Conversation id.
    pub conversation: Option<String>,
    /// Begun at this time or later.
    pub since: Option<Micros>,
    /// Older than this call, for the next page.
    pub before: Option<Uuid>,
    /// At most this many.
    pub limit: usize,
}

/// Which calls are counted. Absent members match all.
#[derive(Clone, Debug, Default)]
pub struct StatsFilter {
    /// Ended at this time or later.
    pub since: Micros,
    /// Server name.
    pub server: Option<String>,
    /// Public tool name.
    pub tool: Option<String>,
    /// `kind[:name]` of the caller.
    pub caller: Option<String>,
}

/// Statistics of the calls of one tool. Durations are in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolStats {
    /// Server name, empty if none was found.
    pub server: String,
    /// Public tool name, empty for other kinds.
    pub tool: String,
    /// All calls that ended.
    pub calls: i64,
    /// Calls that ended in another state than `succeeded`.
    pub unsuccessful: i64,
    /// Mean duration; `None` without calls.
    pub mean: Option<i64>,
    /// A bound that half of the calls do not exceed; `None` if none is known.
    pub p50: Option<i64>,
    /// A bound that 95 % of the calls do not exceed; `None` if none is known.
    pub p95: Option<i64>,
}

impl CallRow {
    /// When it ended; `None` while it is open.
    pub fn ended_at(&self) -> Option<Micros> {
        Some(self.started_at.saturating_add(self.duration?).saturating_add(self.waited))
    }
}
