//! Counts, sizes, durations and error rates of an export, by server, sender and method.

use std::collections::BTreeMap;

use serde::Serialize;
use toolway_config::ServerName;
use toolway_host::time;

use super::connection::Direction;

/// What is known of a message besides its text.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Observation {
    pub(super) direction: Direction,
    pub(super) kind: MessageKind,
    /// JSON of the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// Of a response: that of its request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<String>,
    /// Milliseconds since the request, of a response.
    #[serde(skip_serializing_if = "Option::is_none", rename = "tookMs")]
    pub(super) took: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MessageKind {
    Request,
    Notification,
    /// A response with a result.
    Response,
    /// A response with a result that says `isError`.
    ToolError,
    /// A response with a JSON-RPC error.
    Error,
    /// Anything else, such as the body of an HTTP status.
    Other,
}

/// The counts of an export.
#[derive(Debug, Default)]
pub(super) struct Summary {
    methods: BTreeMap<MethodKey, MethodCounts>,
    messages: u64,
    bytes: u64,
}

/// A method of requests and notifications, and who sends them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MethodKey {
    server: ServerName,
    direction: Direction,
    method: String,
}

#[derive(Debug, Default)]
struct MethodCounts {
    requests: u64,
    notifications: u64,
    answered: u64,
    errors: u64,
    tool_errors: u64,
    bytes_out: u64,
    bytes_in: u64,
    total_ms: f64,
    max_ms: f64,
}

/// The last line of an export.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SummaryView {
    #[serde(rename = "type")]
    kind: &'static str,
    ended_at: String,
    messages: u64,
    bytes: u64,
    omitted: u64,
    methods: Vec<MethodView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MethodView {
    server: String,
    method: String,
    direction: Direction,
    requests: u64,
    notifications: u64,
    answered: u64,
    unanswered: u64,
    errors: u64,
    tool_errors: u64,
    error_rate: Option<f64>,
    bytes_out: u64,
    bytes_in: u64,
    mean_ms: Option<f64>,
    max_ms: Option<f64>,
}

/// Methods with counts of their own; the server chooses the names of what it sends.
const MAX_METHODS: usize = 1_000;
/// The name of all other methods, and of messages without one; no method has it.
const OTHERS: &str = "(other)";

// === impl Observation ===

impl Observation {
    pub(super) fn of(direction: Direction, kind: MessageKind) -> Self {
        Self { direction, kind, id: None, method: None, took: None }
    }

    /// The way of the request or notification that the message belongs to.
    fn request_direction(&self) -> Direction {
        match self.kind {
            MessageKind::Request | MessageKind::Notification | MessageKind::Other => self.direction,
            MessageKind::Response | MessageKind::ToolError | MessageKind::Error => self.direction.opposite(),
        }
    }
}

// === impl Summary ===

impl Summary {
    pub(super) fn count(&mut self, server: &ServerName, observation: &Observation, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
        let method = observation.method.clone().unwrap_or_else(|| OTHERS.to_owned());
        let mut key = MethodKey { server: server.clone(), direction: observation.request_direction(), method };
        if MAX_METHODS <= self.methods.len() && !self.methods.contains_key(&key) {
            OTHERS.clone_into(&mut key.method);
        }
        self.methods.entry(key).or_default().count(observation, bytes as u64);
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    pub(super) fn view(&self, omitted: u64) -> SummaryView {
        SummaryView {
            kind: "summary",
            ended_at: time::rfc3339_now(),
            messages: self.messages,
            bytes: self.bytes,
            omitted,
            methods: self.methods.iter().map(|(key, counts)| counts.view(key)).collect(),
        }
    }
}

// === impl MethodCounts ===

impl MethodCounts {
    fn count(&mut self, observation: &Observation, bytes: u64) {
        match observation.direction {
            Direction::Out => self.bytes_out += bytes,
            Direction::In => self.bytes_in += bytes,
        }
        match observation.kind {
            MessageKind::Request => self.requests += 1,
            MessageKind::Notification => self.notifications += 1,
            MessageKind::Response => self.answered += 1,
            MessageKind::ToolError => (self.answered, self.tool_errors) = (self.answered + 1, self.tool_errors + 1),
            MessageKind::Error => (self.answered, self.errors) = (self.answered + 1, self.errors + 1),
            MessageKind::Other => {}
        }
        if let Some(took) = observation.took {
            self.total_ms += took;
            self.max_ms = self.max_ms.max(took);
        }
    }

    fn view(&self, key: &MethodKey) -> MethodView {
        let of_answers = |value: f64| (0 < self.answered).then(|| (value * 1_000.0).round() / 1_000.0);
        let answered = self.answered as f64;
        MethodView {
            server: key.server.to_string(),
            method: key.method.clone(),
            direction: key.direction,
            requests: self.requests,
            notifications: self.notifications,
            answered: self.answered,
            unanswered: self.requests.saturating_sub(self.answered),
            errors: self.errors,
            tool_errors: self.tool_errors,
            error_rate: of_answers((self.errors + self.tool_errors) as f64 / answered),
            bytes_out: self.bytes_out,
            bytes_in: self.bytes_in,
            mean_ms: of_answers(self.total_ms / answered),
            max_ms: of_answers(self.max_ms),
        }
    }
}
