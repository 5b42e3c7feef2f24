//! One connection in an export: which requests wait for a response, so that a response has a method and a duration.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use toolway_config::ServerName;
use toolway_host::record::redact::Redactor;
use toolway_wire::json::Raw;

use super::{
    MessageExport,
    summary::{MessageKind, Observation},
};

/// A connection to a server whose messages are exported.
#[derive(Debug)]
pub(crate) struct ExportedConnection {
    export: Arc<MessageExport>,
    server: ServerName,
    number: u64,
    redactor: Redactor,
    // Nothing awaits under this lock.
    waiting: Mutex<HashMap<RequestKey, WaitingRequest>>,
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// To the server.
    Out,
    /// From the server.
    In,
}

/// A request by the direction in which it was sent and the text of its id.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RequestKey {
    direction: Direction,
    id: String,
}

#[derive(Debug)]
struct WaitingRequest {
    method: String,
    sent: Instant,
}

/// Requests of one connection that wait for a response; later ones get no method and no duration.
const MAX_WAITING: usize = 10_000;
/// Longest id in bytes by which a response finds its request.
const MAX_ID: usize = 256;
/// Longest method in bytes; a longer one is cut.
const MAX_METHOD: usize = 128;

// === impl ExportedConnection ===

impl ExportedConnection {
    pub(super) fn new(export: Arc<MessageExport>, server: ServerName, number: u64, redactor: Redactor) -> Self {
        Self { export, server, number, redactor, waiting: Mutex::default() }
    }

    /// Exports a message.
    pub(crate) fn record(&self, direction: Direction, text: &Bytes) {
        let mut observation = self.observe(direction, text);
        for text in [&mut observation.id, &mut observation.method].into_iter().flatten() {
            *text = self.redactor.plain(text).into_owned();
        }
        self.export.record(self, &observation, text);
    }

    pub(super) fn server(&self) -> &ServerName {
        &self.server
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    fn observe(&self, direction: Direction, text: &Bytes) -> Observation {
        let unknown = Observation::of(direction, MessageKind::Other);
        let Ok(message) = Raw::parse(text.clone()) else { return unknown };
        let [id, method, result, error] = message.fields(["id", "method", "result", "error"]);
        let id = id.map(|id| id.to_string()).filter(|id| id.len() <= MAX_ID);
        let method = method.as_ref().and_then(Raw::as_str).map(|method| cut(&method));
        match (method, id) {
            (Some(method), Some(id)) => {
                self.begin(RequestKey { direction, id: id.clone() }, &method);
                Observation { id: Some(id), method: Some(method), ..Observation::of(direction, MessageKind::Request) }
            }
            (Some(method), None) => {
                Observation { method: Some(method), ..Observation::of(direction, MessageKind::Notification) }
            }
            (None, id) if result.is_some() || error.is_some() => {
                let kind = match (&error, result.as_ref().and_then(|result| result.get("isError"))) {
                    (Some(_), _) => MessageKind::Error,
                    (None, Some(is_error)) if is_error.as_bool() == Some(true) => MessageKind::ToolError,
                    (None, _) => MessageKind::Response,
                };
                let request = id.clone().and_then(|id| self.end(&RequestKey { direction: direction.opposite(), id }));
                let took = request.as_ref().map(|request| request.sent.elapsed());
                let method = request.map(|request| request.method);
                Observation { id, method, took: took.map(millis), ..Observation::of(direction, kind) }
            }
            (None, _) => unknown,
        }
    }

    fn begin(&self, key: RequestKey, method: &str) {
        let mut waiting = self.waiting.lock();
        if waiting.len() < MAX_WAITING {
            waiting.insert(key, WaitingRequest { method: method.to_owned(), sent: Instant::now() });
        }
    }

    fn end(&self, key: &RequestKey) -> Option<WaitingRequest> {
        self.waiting.lock().remove(key)
    }
}

impl Direction {
    /// The way of a response.
    pub(super) fn opposite(self) -> Self {
        match self {
            Self::Out => Self::In,
            Self::In => Self::Out,
        }
    }
}

fn cut(method: &str) -> String {
    method[..method.floor_char_boundary(MAX_METHOD)].to_owned()
}

/// Milliseconds with three decimals.
fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}
