//! A tool call on one line, with its result.

use serde_json::Value;
use toolway_agent::{CallState, EndedCall, StartedCall};
use toolway_model::ResultPart;

use crate::output::clean;

/// Characters of one argument.
const ARGUMENT: usize = 40;
/// Characters of an error below its line.
const PROBLEM: usize = 2_000;

/// `server.tool` with the arguments.
pub(super) fn label(call: &StartedCall, name: &str) -> String {
    let arguments = match &call.call.arguments {
        Value::Object(given) if call.tool != call.call.name => given.get("arguments").cloned().unwrap_or_default(),
        given => given.clone(),
    };
    let Value::Object(arguments) = arguments else { return clean::flat(name) };
    let pairs = arguments.iter().map(|(key, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let value = clean::line(&value, ARGUMENT);
        if value.contains(' ') { format!("{key}=\"{value}\"") } else { format!("{key}={value}") }
    });
    let words: Vec<String> = std::iter::once(clean::flat(name)).chain(pairs.map(|pair| clean::flat(&pair))).collect();
    words.join(" ")
}

/// The line of a call that has ended, and lines below it for an error.
pub(super) fn ended(call: &EndedCall, label: &str, width: usize) -> (String, Option<String>) {
    let mark = match call.made.state {
        CallState::Succeeded => '✓',
        CallState::Refused | CallState::ApproverUnavailable => '⊘',
        _ => '✗',
    };
    let time = match call.duration.as_secs_f64() {
        seconds if seconds >= 1.0 => format!(" ({seconds:.1} s)"),
        _ => String::new(),
    };
    let room = width.saturating_sub(3 + time.chars().count());
    if call.made.state == CallState::Succeeded {
        let called = clean::line(label, (room * 3 / 5).max(20).min(room));
        let left = room.saturating_sub(called.chars().count() + 3);
        let result = if left < 8 { String::new() } else { format!(" → {}", preview(call, left)) };
        return (format!("{mark} {called}{result}{time}"), None);
    }
    let state = call.made.state.as_str();
    let called = clean::line(label, room.saturating_sub(state.len() + 2).max(20));
    let problem = match &call.problem {
        Some(problem) => clean::line(problem.as_str(), PROBLEM),
        None => clean::line(&text(call), PROBLEM),
    };
    (format!("{mark} {called}: {state}{time}"), Some(problem).filter(|problem| !problem.is_empty()))
}

/// The first line of a result.
fn preview(call: &EndedCall, room: usize) -> String {
    let text = text(call);
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("(nothing)");
    let more = if lines > 1 { format!(" (+{} lines)", lines - 1) } else { String::new() };
    let first = clean::line(first, room.saturating_sub(more.chars().count()).max(4));
    format!("{first}{more}")
}

fn text(call: &EndedCall) -> String {
    let parts = call.result.content.iter().map(|part| match part {
        ResultPart::Text { text } => text.clone(),
        ResultPart::Image(image) => format!("[image: {}]", image.mime_type),
    });
    parts.collect::<Vec<_>>().join("\n")
}
