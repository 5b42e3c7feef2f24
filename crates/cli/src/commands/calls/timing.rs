//! Where a call spent its time.

use serde_json::{Value, json};
use toolway_host::record::CallRow;

/// The parts of a call's time, in microseconds. Together they are the time from its beginning to its end.
pub(super) struct Timing {
    /// Lookup, decision, connecting, waiting for a free connection.
    prepared: Option<i64>,
    /// Waiting for a person: approvals, forms, URLs.
    waited: i64,
    /// From sending to the answer.
    server: Option<i64>,
}

impl Timing {
    pub(super) fn of(call: &CallRow) -> Self {
        let (prepared, server) = match (call.prepared, call.duration) {
            (Some(prepared), Some(took)) => (Some(prepared.min(took)), Some((took - prepared).max(0))),
            // It was not sent: all of it was preparation.
            (None, took) => (took, None),
            (prepared, None) => (prepared, None),
        };
        Self { prepared, waited: call.waited, server }
    }

    /// Label, time and what is in it.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&'static str, i64, &'static str)> {
        let rows = [
            ("prepared", self.prepared, "find, decide, connect, queue"),
            ("waited", Some(self.waited), "for a person"),
            ("server", self.server, "from sending to the answer"),
        ];
        rows.into_iter().filter_map(|(label, micros, what)| Some((label, micros?, what)))
    }

    /// As scripts see it.
    pub(super) fn view(&self) -> Value {
        let millis = |micros: Option<i64>| micros.map(|micros| micros as f64 / 1_000.0);
        json!({
            "preparedMs": millis(self.prepared),
            "waitedMs": millis(Some(self.waited)),
            "serverMs": millis(self.server),
        })
    }
}
