//! One server as `status` and `doctor` show it: a row for people, an object for programs.

use std::time::Duration;

use serde_json::{Map, Value, json};
use toolway_host::{connection::Phase, keeper::HowEnded};
use toolway_wire::json::Raw;

use crate::{
    gathering::Seen,
    output::{Format, Output},
    unused::Unused,
};

/// Lines of standard error that programs are given.
const STDERR: usize = 50;

/// The object for programs. What is not known is not there.
pub(crate) fn object(seen: &Seen) -> Map<String, Value> {
    let status = &seen.status;
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() {
            object.insert(key.to_owned(), value);
        }
    };
    put("name", json!(status.server.as_str()));
    put("description", json!(status.description));
    put("source", json!(status.source));
    put("transport", json!(status.transport.word()));
    put("target", json!(status.target));
    put("state", json!(state(seen)));
    put("reason", json!(seen.problem()));
    if let Some(error) = status.last_error.as_ref().filter(|_| seen.problem().is_some()) {
        put("code", json!(error.code));
        put("whoseMove", json!(error.whose_move.word()));
    }
    if let Some(profile) = &status.profile {
        put("era", json!(profile.era.to_string()));
        put("protocolVersion", json!(profile.revision.as_str()));
        put("serverInfo", profile.info.read().unwrap_or_default());
        put("capabilities", profile.capabilities.0.read().unwrap_or_default());
        put("instructions", json!(profile.instructions));
        put("session", json!(profile.session));
    }
    if let Some(counts) = seen.offered {
        put("tools", json!(counts.tools));
        put("resources", json!(counts.resources));
        put("resourceTemplates", json!(counts.templates));
        put("prompts", json!(counts.prompts));
        put("setAside", json!(counts.set_aside));
    }
    match status.ended {
        Some(HowEnded::Exited(status)) => put("exitStatus", json!(status)),
        Some(HowEnded::Signalled(signal)) => put("exitSignal", json!(signal)),
        Some(HowEnded::Unknown) | None => {}
    }
    put("process", json!(status.process));
    put("connectMilliseconds", json!(seen.connected.map(milliseconds)));
    put("listMilliseconds", json!(seen.listed.map(milliseconds)));
    put("stderr", json!(tail(seen, STDERR)));
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
