//! Oddities in place of an answer: floods, endless lines, wrong ids, broken text.
//!
//! Each supports both eras and shows itself when the tool `odd` is called; other tools are answered correctly, so that
//! a test sees whether the connection survived. Server requests are in [`server_requests`], lists in [`listing`],
//! messages outside calls in [`outside_calls`].

mod listing;
mod outside_calls;
mod server_requests;
mod terminal_escapes;

use std::{
    fs::File,
    io::{self, Write},
};

use serde_json::{Value, json};

use super::{Flow, Oddity, Output, ReceivedMessage};
use crate::odd::compliant::{self, SupportedEras};

/// Oddity with this name.
pub(super) fn find(name: &str) -> Option<Oddity> {
    Some(match name {
        "flood" => |received, output| on_call(received, output, flood),
        "progress-flood" => |received, output| on_call(received, output, progress_flood),
        "ping-flood" => |received, output| on_call(received, output, ping_flood),
        "long-line" => |received, output| on_call(received, output, long_line),
        "long-question" => |received, output| on_call(received, output, long_question),
        "endless-line" => |received, output| on_call(received, output, endless_line),
        "wrong-id" => {
            |received, output| on_call(received, output, |received, output| answer_to(&json!(4711), received, output))
        }
        "string-id" => |received, output| {
            on_call(received, output, |received, output| answer_to(&json!(received.id().to_string()), received, output))
        },
        "no-id" => {
            |received, output| on_call(received, output, |received, output| answer_to(&Value::Null, received, output))
        }
        "float-id" => |received, output| on_call(received, output, float_id),
        "double" => |received, output| on_call(received, output, double),
        "stray" => |received, output| on_call(received, output, stray),
        "truncated" => |received, output| on_call(received, output, truncated),
        "truncated-early" => |received, output| on_call(received, output, truncated_early),
        "not-utf8" => |received, output| on_call(received, output, not_utf8),
        "deep" => |received, output| on_call(received, output, deep),
        "neither" => |received, output| on_call(received, output, neither),
        "batch" => |received, output| on_call(received, output, batch),
        "cut" => |received, output| on_call(received, output, cut),
        "half-closed" => |received, output| on_call(received, output, half_closed),
        "deaf" => |received, output| on_call(received, output, deaf),
        "gives-up" => |received, output| on_call(received, output, gives_up),
        _ => {
            let other = server_requests::find(name).or_else(|| listing::find(name));
            return other.or_else(|| terminal_escapes::find(name)).or_else(|| outside_calls::find(name));
        }
    })
}

/// Answers correctly, except for the tool `odd`.
fn on_call(received: &ReceivedMessage, output: &mut Output, odd: Oddity) -> io::Result<Flow> {
    if received.tool() == "odd" { odd(received, output) } else { output.answer(SupportedEras::Both, received) }
}

fn amount(output: &Output) -> io::Result<usize> {
    output.argument.parse().map_err(io::Error::other)
}

/// Sends this many notifications, then the answer.
fn flood(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let line = format!("{}\n", compliant::notification("notifications/vendor", &json!({ "noise": "x".repeat(40) })));
    for _ in 0..amount(output)? {
        output.send_bytes(line.as_bytes())?;
    }
    output.answer(SupportedEras::Both, received)
}

fn progress_flood(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let token = &received.message["params"]["_meta"]["progressToken"];
    for step in 0..amount(output)? {
        let params = json!({ "progressToken": token, "progress": step, "message": "x".repeat(100) });
        output.send_bytes(format!("{}\n", compliant::notification("notifications/progress", &params)).as_bytes())?;
    }
    output.answer(SupportedEras::Both, received)
}

/// Sends this many requests without reading an answer in between.
fn ping_flood(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    for number in 0..amount(output)? {
        output.send_bytes(format!("{}\n", compliant::request(&json!(number), "ping", &json!({}))).as_bytes())?;
    }
    output.answer(SupportedEras::Both, received)
}

/// An answer of this many bytes, the id last.
fn long_line(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let result = compliant::text(&"x".repeat(amount(output)?));
    output.send_bytes(format!("{{\"jsonrpc\":\"2.0\",\"result\":{result},\"id\":{}}}\n", received.id()).as_bytes())?;
    output.flush()?;
    Ok(Flow::Continue)
}

/// A request of this many bytes with the id of the call, then the answer to the call.
fn long_question(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let params = json!({ "message": "x".repeat(amount(output)?), "requestedSchema": {} });
    output.send(&compliant::request(received.id(), "elicitation/create", &params))?;
    output.answer(SupportedEras::Both, received)
}

/// Sends a line that never ends.
fn endless_line(_heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    loop {
        output.send_bytes(&[b'x'; 4096])?;
    }
}

fn answer_to(id: &Value, received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    output.send(&compliant::answered(id, &compliant::text(received.tool())))?;
    Ok(Flow::Continue)
}

/// As in languages with only one number type.
fn float_id(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let result = compliant::text(compliant::HELLO);
    output.send_bytes(format!("{{\"id\":{}.0,\"result\":{result}}}\n", received.id()).as_bytes())?;
    output.flush()?;
    Ok(Flow::Continue)
}

/// Answers twice, differently.
fn double(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    output.answer(SupportedEras::Both, received)?;
    output.send(&compliant::error(received.id(), -32603, "on second thoughts, no"))?;
    Ok(Flow::Continue)
}

/// Answers requests that were never sent, then the call.
fn stray(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    for id in [json!(4711), json!("seven"), json!(-1), json!(1e300), Value::Null] {
        output.send(&compliant::answered(&id, &json!({})))?;
    }
    output.answer(SupportedEras::Both, received)
}

fn truncated(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    output.send_bytes(
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"content\":[\n", received.id()).as_bytes(),
    )?;
    output.flush()?;
    Ok(Flow::Continue)
}

/// The id of this answer is lost.
fn truncated_early(_heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    output.send_bytes(b"{\"jsonrpc\":\"2.0\",\n")?;
    output.flush()?;
    Ok(Flow::Continue)
}

/// Text in Latin-1.
fn not_utf8(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    output.send_bytes(b"{\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"caf\xe9\"}]},\"id\":")?;
    output.send_bytes(format!("{}}}\n", received.id()).as_bytes())?;
    output.flush()?;
    Ok(Flow::Continue)
}

/// An answer of this many nested arrays, the id last.
fn deep(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let depth = amount(output)?;
    let nest = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    output.send_bytes(format!("{{\"result\":{{\"x\":{nest}}},\"id\":{}}}\n", received.id()).as_bytes())?;
    output.flush()?;
    Ok(Flow::Continue)
}

/// Neither result nor error.
fn neither(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    output.send(&json!({ "jsonrpc": "2.0", "id": received.id(), "outcome": "fine" }))?;
    Ok(Flow::Continue)
}

/// The answer in an array, after a notification.
fn batch(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let answer = SupportedEras::Both.answer(&received.message);
    output.send(&json!([compliant::notification("notifications/vendor", &json!({})), answer]))?;
    Ok(Flow::Continue)
}

/// Exits in the middle of its answer.
fn cut(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    output.send_bytes(format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"resu", received.id()).as_bytes())?;
    output.flush()?;
    Ok(Flow::Exit)
}

/// Closes its output and continues to read.
fn half_closed(_heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    output.out.get_mut().flush()?;
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(Flow::Continue)
}

/// Closes its input and waits to be killed.
fn deaf(_heard: &ReceivedMessage, _voice: &mut Output) -> io::Result<Flow> {
    rustix::stdio::dup2_stdin(File::open("/dev/zero")?)?;
    loop {
        std::thread::park();
    }
}

/// Cancels the call, which only the caller may do.
fn gives_up(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    output.send(&compliant::notification("notifications/cancelled", &json!({ "requestId": received.id() })))?;
    Ok(Flow::Continue)
}
