//! One server as `status` and `doctor` show it: text parts and a JSON object.

use std::time::Duration;

use serde_json::{Map, Value, json};
use toolway_host::connection::{
    Phase, stderr_tail,
    view::{self, ServerAssessment},
};
use toolway_wire::json::Raw;

use crate::{
    multi_server_host::ServerOutcome,
    output::{Format, Output},
    unused::Unused,
};

/// The JSON object; unknown values are omitted, and session ids are left out.
pub(crate) fn object(outcome: &ServerOutcome) -> Map<String, Value> {
    let mut object = object_with_session(outcome);
    view::remove_session_ids(&mut object);
    object
}

/// The JSON object with the whole session id.
pub(crate) fn object_with_session(outcome: &ServerOutcome) -> Map<String, Value> {
    let judged = ServerAssessment { state: state(outcome), reason: outcome.problem(), counts: outcome.counts };
    let mut object = view::object(&outcome.status, &judged);
    for (key, time) in [("connectMilliseconds", outcome.connect_time), ("listMilliseconds", outcome.list_time)] {
        if let Some(time) = time {
            object.insert(key.to_owned(), json!(milliseconds(time)));
        }
    }
    object
}

/// Prints JSON: the servers, with those not accepted, and the entries that were set aside.
pub(crate) fn print(mut servers: Vec<Value>, unused: &[Unused], more: Map<String, Value>, output: &mut Output) {
    servers.iter_mut().filter_map(Value::as_object_mut).for_each(view::remove_session_ids);
    let (waiting, aside): (Vec<&Unused>, Vec<&Unused>) = unused.iter().partition(|unused| unused.is_server());
    servers.extend(waiting.into_iter().map(Unused::object));
    let aside: Vec<Value> = aside.into_iter().map(Unused::object).collect();
    match output.format {
        Format::Ndjson => servers.iter().chain(&aside).for_each(|object| output.json(&Raw::of(object))),
        _ => {
            let mut view = json!({ "servers": servers, "invalid": aside });
            more.into_iter().for_each(|(key, value)| view[key] = value);
            output.json(&Raw::of(&view));
        }
    }
}

/// The state in one word.
pub(crate) fn state(outcome: &ServerOutcome) -> &'static str {
    match (&outcome.status.phase, outcome.problem()) {
        // Connected, but its lists failed.
        (Phase::Ready, Some(_)) => "not listed",
        (phase, _) => phase.word(),
    }
}

/// The number of items as text; `None` if the server was not listed.
pub(crate) fn counted(outcome: &ServerOutcome) -> Option<String> {
    let counts = outcome.counts?;
    let one = |count: usize, word: &str| match count {
        0 => None,
        1 => Some(format!("1 {word}")),
        many => Some(format!("{many} {word}s")),
    };
    let parts = [
        one(counts.tools, "tool"),
        one(counts.resources, "resource"),
        one(counts.templates, "template"),
        one(counts.prompts, "prompt"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let aside = if 0 < counts.set_aside { format!(" ({} ignored)", counts.set_aside) } else { String::new() };
    Some(if parts.is_empty() { format!("nothing{aside}") } else { format!("{}{aside}", parts.join(", ")) })
}

/// At most `lines` lines of the server's standard error: those with the cause, and the last ones.
pub(crate) fn tail(outcome: &ServerOutcome, lines: usize) -> Vec<String> {
    stderr_tail::essential(&outcome.status.stderr, lines)
}

/// Milliseconds, rounded to two decimals.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 100_000.0).round() / 100.0
}
