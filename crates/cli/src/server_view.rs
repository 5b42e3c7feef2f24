//! One server as `status` and `doctor` show it: a row for people, an object for programs.

use std::time::Duration;

use serde_json::{Map, Value, json};
use toolway_host::connection::{
    Phase,
    view::{self, Judged},
};
use toolway_wire::json::Raw;

use crate::{
    gathering::Seen,
    output::{Format, Output},
    unused::Unused,
};

/// The object for programs. What is not known is not there.
pub(crate) fn object(seen: &Seen) -> Map<String, Value> {
    let judged = Judged { state: state(seen), reason: seen.problem(), counts: seen.offered };
    let mut object = view::object(&seen.status, &judged);
    for (key, time) in [("connectMilliseconds", seen.connected), ("listMilliseconds", seen.listed)] {
        if let Some(time) = time {
            object.insert(key.to_owned(), json!(milliseconds(time)));
        }
    }
    object
}

/// All of them for programs: the servers with those that wait for a person, and what was set aside.
pub(crate) fn print(mut servers: Vec<Value>, unused: &[Unused], output: &mut Output) {
    let (waiting, aside): (Vec<&Unused>, Vec<&Unused>) = unused.iter().partition(|unused| unused.is_server());
    servers.extend(waiting.into_iter().map(Unused::object));
    let aside: Vec<Value> = aside.into_iter().map(Unused::object).collect();
    match output.format {
        Format::Ndjson => servers.iter().chain(&aside).for_each(|object| output.json(&Raw::of(object))),
        _ => output.json(&Raw::of(&json!({ "servers": servers, "setAside": aside }))),
    }
}

/// The state as a word.
pub(crate) fn state(seen: &Seen) -> &'static str {
    match (&seen.status.phase, seen.problem()) {
        // It can be called, and does not say what it has.
        (Phase::Ready, Some(_)) => "not listed",
        (phase, _) => phase.word(),
    }
}

/// What it has, in words.
pub(crate) fn counted(seen: &Seen) -> Option<String> {
    let counts = seen.offered?;
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
    let aside = if 0 < counts.set_aside { format!(" ({} left out)", counts.set_aside) } else { String::new() };
    Some(if parts.is_empty() { format!("nothing{aside}") } else { format!("{}{aside}", parts.join(", ")) })
}

/// The end of what its process said on standard error.
pub(crate) fn tail(seen: &Seen, lines: usize) -> &[String] {
    let all = &seen.status.stderr;
    &all[all.len().saturating_sub(lines)..]
}

/// A time for programs.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 100_000.0).round() / 100.0
}
