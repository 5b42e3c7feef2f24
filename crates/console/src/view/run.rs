//! A run, and how far it is.

use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use toolway_host::call::CallKind;
use uuid::Uuid;

use super::{
    content::{self, ResultView},
    moment,
};
use crate::runs::{Run, RunProgress};

/// Bytes of arguments that a page gets back.
const MAX_ARGUMENTS: usize = 256 * 1024;

/// A run with its result.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunView {
    id: String,
    kind: &'static str,
    server: String,
    name: String,
    /// `running` while it goes on; then the state of its call.
    state: &'static str,
    started_at: String,
    arguments: Option<Box<RawValue>>,
    progress: Option<Value>,
    duration_ms: Option<f64>,
    waited_ms: Option<f64>,
    error: Option<String>,
    /// Problems of arguments by their JSON pointer.
    fields: serde_json::Map<String, Value>,
    validation: Vec<String>,
    /// Size of the whole result.
    bytes: usize,
    result: Option<ResultView>,
}

/// One run.
pub(crate) fn view(run: &Run) -> RunView {
    let end = run.end.as_deref();
    let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1_000.0;
    let arguments = run.arguments.as_ref().filter(|arguments| arguments.as_bytes().len() <= MAX_ARGUMENTS);
    RunView {
        id: run.id.to_string(),
        kind: run.kind.as_str(),
        server: run.origin.server.to_string(),
        name: run.origin.raw_name.clone(),
        state: end.map_or("running", |end| end.state),
        started_at: moment(run.started_at),
        arguments: arguments.and_then(|arguments| RawValue::from_string(arguments.to_string()).ok()),
        progress: run.progress.as_ref().map(progress_of),
        duration_ms: end.map(|end| milliseconds(end.took)),
        waited_ms: end.map(|end| milliseconds(end.waited)),
        error: end.and_then(|end| end.error.clone()),
        fields: end.map(|end| end.fields.clone()).unwrap_or_default(),
        validation: end.map(|end| end.validation.clone()).unwrap_or_default(),
        bytes: end.map_or(0, |end| end.bytes),
        result: end.and_then(|end| end.result.as_ref()).map(|result| result_of(run.kind, result)),
    }
}

fn result_of(kind: CallKind, result: &toolway_wire::json::Raw) -> ResultView {
    content::result(kind, result)
}

/// The event of a progress.
pub(crate) fn progress(id: Uuid, progress: &RunProgress) -> Value {
    json!({ "id": id.to_string(), "state": "running", "progress": progress_of(progress) })
}

fn progress_of(progress: &RunProgress) -> Value {
    json!({ "done": progress.done, "total": progress.total, "message": progress.message })
}
