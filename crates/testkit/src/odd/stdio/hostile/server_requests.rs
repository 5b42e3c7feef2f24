//! Oddities with server requests: too many, too long, undeclared, or of ambiguous origin.

use std::io;

use serde_json::{Value, json};

use super::{amount, on_call};
use crate::odd::{
    line::{ReceivedMessage, Flow, Oddity, Output},
    compliant::{self, SupportedEras},
};

/// Oddity with this name.
pub(super) fn find(name: &str) -> Option<Oddity> {
    Some(match name {
        "asks" => asks,
        "asks-undeclared" => asks_undeclared,
        "asks-between" => asks_between,
        "asks-anyway" => |heard, output| on_call(heard, output, asks_anyway),
        "rounds" => |heard, output| on_call(heard, output, |heard, output| wants(heard, output, &form_request(), "again")),
        "retries" => |heard, output| on_call(heard, output, |heard, output| wants(heard, output, &json!({}), "again")),
        "questions" => |heard, output| on_call(heard, output, questions),
        "state" => |heard, output| on_call(heard, output, state),
        "wants-undeclared" => |heard, output| on_call(heard, output, wants_undeclared),
        "wants-nothing" => |heard, output| {
            on_call(heard, output, |heard, output| result(heard, output, &json!({ "resultType": "input_required" })))
        },
        "unknown-type" => |heard, output| {
            on_call(heard, output, |heard, output| result(heard, output, &json!({ "resultType": "perhaps" })))
        },
        _ => return None,
    })
}

fn form() -> Value {
    json!({ "message": "Who are you?", "requestedSchema": { "type": "object", "properties": {} } })
}

fn form_request() -> Value {
    json!({ "who": { "method": "elicitation/create", "params": form() } })
}

fn result(heard: &ReceivedMessage, output: &mut Output, result: &Value) -> io::Result<Flow> {
    output.send(&compliant::answered(heard.id(), result))?;
    Ok(Flow::Continue)
}

// === while the call is open ===

/// Sends this many server requests at once; the answer counts the responses.
fn asks(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    match heard.method.as_str() {
        "tools/call" if heard.tool() == "odd" => {
            output.defer(Some(heard.message.clone()));
            for number in 0..amount(output)? {
                output.send(&compliant::request(&json!(format!("q{number}")), "elicitation/create", &form()))?;
            }
            Ok(Flow::Continue)
        }
        "result" | "error" => {
            let count = |method: &str| output.heard.get(method).copied().unwrap_or_default();
            let (given, refused) = (count("result"), count("error"));
            if given + refused == amount(output)? {
                answer_deferred(output, &format!("{given} given, {refused} refused"))?;
            }
            Ok(Flow::Continue)
        }
        _ => output.answer(SupportedEras::Both, heard),
    }
}

/// Sends an undeclared sampling request; the answer contains the error code.
fn asks_undeclared(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    match heard.method.as_str() {
        "tools/call" if heard.tool() == "odd" => {
            output.defer(Some(heard.message.clone()));
            output.send(&compliant::request(&json!("s"), "sampling/createMessage", &json!({ "messages": [] })))?;
            Ok(Flow::Continue)
        }
        "error" => {
            answer_deferred(output, &format!("refused with {}", heard.message["error"]["code"]))?;
            Ok(Flow::Continue)
        }
        _ => output.answer(SupportedEras::Both, heard),
    }
}

/// Logs and sends server requests while two calls are in flight; both answers contain the responses.
fn asks_between(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    match heard.method.as_str() {
        "tools/call" if heard.tool() == "odd" => {
            output.defer(Some(heard.message.clone()));
            if output.deferred.len() == 2 {
                let log = json!({ "level": "info", "data": "which call is this for?" });
                output.send(&compliant::notification("notifications/message", &log))?;
                output.send(&compliant::request(&json!("e"), "elicitation/create", &form()))?;
                output.send(&compliant::request(&json!("r"), "roots/list", &json!({})))?;
            }
            Ok(Flow::Continue)
        }
        "result" | "error" => {
            let said = match heard.message["id"].as_str() {
                Some("e") => format!("elicitation: {}", heard.message["error"]["code"]),
                _ => format!("roots: {}", heard.message["result"]["roots"]),
            };
            output.argument = format!("{}{said}; ", output.argument);
            if output.argument.contains("elicitation") && output.argument.contains("roots") {
                let said = output.argument.clone();
                answer_deferred(output, &said)?;
            }
            Ok(Flow::Continue)
        }
        _ => output.answer(SupportedEras::Both, heard),
    }
}

/// Sends a request where the protocol forbids it, then the answer.
fn asks_anyway(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    output.send(&compliant::request(&json!("e"), "elicitation/create", &form()))?;
    output.answer(SupportedEras::Both, heard)
}

/// Answers all deferred calls with this text.
fn answer_deferred(output: &mut Output, text: &str) -> io::Result<()> {
    for call in std::mem::take(&mut output.deferred) {
        output.send(&compliant::answered(&call["id"], &compliant::text(text)))?;
    }
    Ok(())
}

// === in the place of an answer ===

fn wants(heard: &ReceivedMessage, output: &mut Output, requests: &Value, state: &str) -> io::Result<Flow> {
    let wanted = json!({ "resultType": "input_required", "inputRequests": requests, "requestState": state });
    result(heard, output, &wanted)
}

/// Sends this many input requests at once.
fn questions(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let question = json!({ "method": "elicitation/create", "params": form() });
    let questions = (0..amount(output)?).map(|number| (format!("q{number}"), question.clone()));
    wants(heard, output, &Value::Object(questions.collect()), "state")
}

/// Request state of this many bytes.
fn state(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let state = "x".repeat(amount(output)?);
    wants(heard, output, &form_request(), &state)
}

fn wants_undeclared(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let question =
        json!({ "url": { "method": "elicitation/create", "params": { "mode": "url", "url": "https://x.example" } } });
    wants(heard, output, &question, "state")
}
