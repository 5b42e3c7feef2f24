//! A tool call on one line, with its result.

use std::borrow::Cow;

use toolway_agent::{CallState, EndedCall, EndedTask, StartedCall, TaskEnd};
use toolway_host::inbox::approval_rows;
use toolway_model::ResultPart;
use toolway_wire::json::Member;

use crate::output::clean;

/// Characters of one argument.
const ARGUMENT: usize = 40;
/// After a call that goes on as a task.
const RUNNING: &str = " → runs in the background";
/// Characters of an error below its line.
const PROBLEM: usize = 2_000;

/// `server.tool` with the arguments.
pub(super) fn label(call: &StartedCall, name: &str) -> String {
    let given = &call.call.arguments;
    let inner = if call.tool == call.call.name { None } else { given.get("arguments") };
    let mut arguments: Vec<Member> = inner.as_ref().unwrap_or(given).members();
    // Paths, addresses and commands first: the end of the line may be cut.
    arguments.sort_by_key(|member| !is_important(member));
    let pairs = arguments.into_iter().map(|Member { key, value }| {
        let value = value.as_str().map_or_else(|| value.to_string(), Cow::into_owned);
        let value = clean::line(&value, ARGUMENT);
        if value.contains(' ') { format!("{key}=\"{value}\"") } else { format!("{key}={value}") }
    });
    let words: Vec<String> = std::iter::once(clean::flat(name)).chain(pairs.map(|pair| clean::flat(&pair))).collect();
    words.join(" ")
}

/// Whether an argument decides what the call touches.
fn is_important(member: &Member) -> bool {
    approval_rows::is_important(&member.key, &member.value)
}

/// The line of a call that has ended, with the number that opens its result, and lines below it for an error.
pub(super) fn ended(call: &EndedCall, label: &str, number: Option<usize>, width: usize) -> (String, Option<String>) {
    let mark = match call.made.state {
        CallState::Succeeded => '✓',
        CallState::Running => '…',
        CallState::Refused | CallState::ApproverUnavailable | CallState::RefusedForGood => '⊘',
        _ => '✗',
    };
    let number = number.map(|number| format!(" [{number}]")).unwrap_or_default();
    let time = match call.duration.as_secs_f64() {
        seconds if seconds >= 1.0 => format!(" ({seconds:.1} s)"),
        _ => String::new(),
    };
    let room = width.saturating_sub(3 + time.len());
    let time = format!("{time}{number}");
    if call.made.state == CallState::Running {
        let called = clean::line(label, room.saturating_sub(RUNNING.len() + number.len()).max(20));
        return (format!("{mark} {called}{RUNNING}{number}"), None);
    }
    if call.made.state == CallState::Succeeded {
        let called = clean::line(label, (room * 3 / 5).max(20).min(room));
        let left = room.saturating_sub(clean::columns(&called) + 3 + number.len());
        let result = if left < 8 { String::new() } else { format!(" → {}", preview(call, left)) };
        let mismatch =
            call.mismatches.iter().map(|mismatch| clean::line(mismatch, PROBLEM)).collect::<Vec<_>>().join("\n");
        return (format!("{mark} {called}{result}{time}"), Some(mismatch).filter(|mismatch| !mismatch.is_empty()));
    }
    let state = call.made.state.as_str();
    let called = clean::line(label, room.saturating_sub(state.len() + 2 + number.len()).max(20));
    let problem = match &call.problem {
        Some(problem) => clean::line(problem.as_str(), PROBLEM),
        None => clean::line(&text(call), PROBLEM),
    };
    (format!("{mark} {called}: {state}{time}"), Some(problem).filter(|problem| !problem.is_empty()))
}

/// The line of a background task that has ended, with the number that opens its result.
pub(super) fn ended_task(task: &EndedTask, label: &str, number: Option<usize>, width: usize) -> String {
    let mark = match task.end {
        TaskEnd::Completed => '✓',
        TaskEnd::Cancelled | TaskEnd::CancelledByUser => '⊘',
        TaskEnd::ToolError | TaskEnd::Failed | TaskEnd::Lost => '✗',
    };
    let number = number.map(|number| format!(" [{number}]")).unwrap_or_default();
    let room = width.saturating_sub(3 + number.len());
    let called = clean::line(label, (room * 3 / 5).max(20).min(room));
    let left = room.saturating_sub(clean::columns(&called) + 3);
    let said = match task.end {
        TaskEnd::Completed | TaskEnd::ToolError | TaskEnd::Failed => preview_of(&text_of(&task.content), left.max(8)),
        end => clean::line(end.words(), left.max(8)),
    };
    format!("{mark} {called} → {said}{number}")
}

/// The first line of a result.
fn preview(call: &EndedCall, room: usize) -> String {
    preview_of(&text(call), room)
}

fn preview_of(text: &str, room: usize) -> String {
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("(nothing)");
    if ["{", "["].contains(&first.trim()) {
        // JSON over several lines.
        return clean::line(text, room);
    }
    let more = match lines {
        0 | 1 => String::new(),
        2 => " (+1 line)".to_owned(),
        lines => format!(" (+{} lines)", lines - 1),
    };
    let first = clean::line(first, room.saturating_sub(more.chars().count()).max(4));
    format!("{first}{more}")
}

/// The whole text of a result.
pub(super) fn text(call: &EndedCall) -> String {
    text_of(&call.result.content)
}

/// The text of parts of a result.
pub(super) fn text_of(content: &[ResultPart]) -> String {
    let parts = content.iter().map(|part| match part {
        ResultPart::Text { text } => text.clone(),
        ResultPart::Image(image) => format!("[image: {}]", image.mime_type),
        ResultPart::Audio(audio) => format!("[audio: {}]", audio.mime_type),
    });
    parts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use toolway_agent::MadeCall;
    use toolway_model::{ToolCall, ToolResult};
    use toolway_wire::json::Raw;

    use super::*;

    fn started(arguments: &Value) -> StartedCall {
        let call = ToolCall { id: "1".to_owned(), name: "files__write".to_owned(), arguments: Raw::of(arguments) };
        StartedCall { call, tool: "files__write".to_owned(), call_id: None }
    }

    fn shown(result: &str) -> String {
        let content = vec![ResultPart::Text { text: result.to_owned() }];
        let result = ToolResult { call_id: "1".to_owned(), name: "write".to_owned(), content, is_error: false };
        let made =
            MadeCall { name: "write".to_owned(), state: CallState::Succeeded, call_id: None, remedies: Vec::new() };
        ended(
            &EndedCall {
                made,
                result,
                problem: None,
                mismatches: Vec::new(),
                duration: Duration::ZERO,
                waited: Duration::ZERO,
            },
            "files.write",
            None,
            60,
        )
        .0
    }

    #[test]
    fn the_path_of_a_call_stands_first() {
        let call = started(&json!({ "content": "hello", "mode": 3, "path": "/a/b.txt" }));
        assert_eq!(label(&call, "files.write"), "files.write path=/a/b.txt content=hello mode=3");
    }

    #[test]
    fn a_result_is_one_line_with_the_number_of_further_lines() {
        assert_eq!(shown("done"), "✓ files.write → done");
        assert_eq!(shown("one\ntwo"), "✓ files.write → one (+1 line)");
        assert_eq!(shown("one\n\ntwo\nthree"), "✓ files.write → one (+2 lines)");
        assert_eq!(shown("{\n  \"a\": [\n    1\n  ]\n}"), "✓ files.write → { \"a\": [ 1 ] }");
    }
}
