//! Oddities with server requests: too many, too long, undeclared, or of ambiguous origin.

use std::io;

use serde_json::{Value, json};

use super::{amount, on_call};
use crate::odd::{
    compliant::{self, SupportedEras},
    stdio::{Flow, Oddity, Output, ReceivedMessage},
};

/// Oddity with this name.
pub(super) fn find(name: &str) -> Option<Oddity> {
    Some(match name {
        "asks" => asks,
        "elicits" => elicits,
        "elicits-modern" => elicits_modern,
        "awaits-url" => awaits_url,
        "asks-undeclared" => asks_undeclared,
        "asks-between" => asks_between,
        "asks-anyway" => |received, output| on_call(received, output, asks_anyway),
        "rounds" => |received, output| {
            on_call(received, output, |received, output| wants(received, output, &form_request(), "again"))
        },
        "retries" => |received, output| {
            on_call(received, output, |received, output| wants(received, output, &json!({}), "again"))
        },
        "questions" => |received, output| on_call(received, output, questions),
        "state" => |received, output| on_call(received, output, state),
        "wants-undeclared" => |received, output| on_call(received, output, wants_undeclared),
        "wants-nothing" => |received, output| {
            on_call(received, output, |received, output| {
                result(received, output, &json!({ "resultType": "input_required" }))
            })
        },
        "unknown-type" => |received, output| {
            on_call(received, output, |received, output| result(received, output, &json!({ "resultType": "perhaps" })))
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

fn result(received: &ReceivedMessage, output: &mut Output, result: &Value) -> io::Result<Flow> {
    output.send(&compliant::answered(received.id(), result))?;
    Ok(Flow::Continue)
}

// === while the call is open ===

/// Sends this many server requests at once; the answer counts the responses.
fn asks(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    match received.method.as_str() {
        "tools/call" if received.tool() == "odd" => {
            output.defer(Some(received.message.clone()));
            for number in 0..amount(output)? {
                output.send(&compliant::request(&json!(format!("q{number}")), "elicitation/create", &form()))?;
            }
            Ok(Flow::Continue)
        }
        "result" | "error" => {
            let count = |method: &str| output.received.get(method).copied().unwrap_or_default();
            let (given, refused) = (count("result"), count("error"));
            if given + refused == amount(output)? {
                answer_deferred(output, &format!("{given} given, {refused} refused"))?;
            }
            Ok(Flow::Continue)
        }
        _ => output.answer(SupportedEras::Both, received),
    }
}

/// Sends the arguments of the call as the parameters of an elicitation; the answer is the response to it.
fn elicits(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    match received.method.as_str() {
        "tools/call" if received.tool() == "odd" => {
            output.defer(Some(received.message.clone()));
            let params = &received.message["params"]["arguments"];
            output.send(&compliant::request(&json!("e"), "elicitation/create", params))?;
            Ok(Flow::Continue)
        }
        "result" | "error" => {
            answer_deferred(output, &received.message[received.method.as_str()].to_string())?;
            Ok(Flow::Continue)
        }
        _ => output.answer(SupportedEras::Legacy, received),
    }
}

/// Like [`elicits`], in the era without sessions.
fn elicits_modern(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    match (received.tool(), received.message["params"].get("inputResponses")) {
        ("odd", Some(responses)) => {
            let text = compliant::text(&responses["form"].to_string());
            output.send(&compliant::answered(received.id(), &text))?;
            Ok(Flow::Continue)
        }
        ("odd", None) => {
            let params = &received.message["params"]["arguments"];
            let requests = json!({ "form": { "method": "elicitation/create", "params": params } });
            wants(received, output, &requests, "again")
        }
        _ => output.answer(SupportedEras::Modern, received),
    }
}

/// Like [`elicits_modern`], and asks once more for the same while it waits for what the user does there.
fn awaits_url(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let params = &received.message["params"];
    let requests = json!({ "url": { "method": "elicitation/create", "params": params["arguments"] } });
    match (received.tool(), params["requestState"].as_str()) {
        ("odd", None) => wants(received, output, &requests, "once"),
        ("odd", Some("once")) => wants(received, output, &requests, "twice"),
        ("odd", Some(_)) => {
            let text = compliant::text(&format!("asked twice, then {}", params["inputResponses"]["url"]));
            output.send(&compliant::answered(received.id(), &text))?;
            Ok(Flow::Continue)
        }
        _ => output.answer(SupportedEras::Modern, received),
    }
}

/// Sends an undeclared sampling request; the answer contains the error code.
fn asks_undeclared(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    match received.method.as_str() {
        "tools/call" if received.tool() == "odd" => {
            output.defer(Some(received.message.clone()));
            output.send(&compliant::request(&json!("s"), "sampling/createMessage", &json!({ "messages": [] })))?;
            Ok(Flow::Continue)
        }
        "error" => {
            answer_deferred(output, &format!("refused with {}", received.message["error"]["code"]))?;
            Ok(Flow::Continue)
        }
        _ => output.answer(SupportedEras::Both, received),
    }
}

/// Logs and sends server requests while two calls are in flight; both answers contain the responses.
fn asks_between(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    match received.method.as_str() {
        "tools/call" if received.tool() == "odd" => {
            output.defer(Some(received.message.clone()));
            if output.deferred.len() == 2 {
                let log = json!({ "level": "info", "data": "which call is this for?" });
                output.send(&compliant::notification("notifications/message", &log))?;
                output.send(&compliant::request(&json!("e"), "elicitation/create", &form()))?;
                output.send(&compliant::request(&json!("r"), "roots/list", &json!({})))?;
            }
            Ok(Flow::Continue)
        }
        "result" | "error" => {
            let said = match received.message["id"].as_str() {
                Some("e") => format!("elicitation: {}", received.message["error"]["code"]),
                _ => format!("roots: {}", received.message["result"]["roots"]),
            };
            output.argument = format!("{}{said}; ", output.argument);
            if output.argument.contains("elicitation") && output.argument.contains("roots") {
                let said = output.argument.clone();
                answer_deferred(output, &said)?;
            }
            Ok(Flow::Continue)
        }
        _ => output.answer(SupportedEras::Both, received),
    }
}

/// Sends a request where the protocol forbids it, then the answer.
fn asks_anyway(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    output.send(&compliant::request(&json!("e"), "elicitation/create", &form()))?;
    output.answer(SupportedEras::Both, received)
}

/// Answers all deferred calls with this text.
fn answer_deferred(output: &mut Output, text: &str) -> io::Result<()> {
    for call in std::mem::take(&mut output.deferred) {
        output.send(&compliant::answered(&call["id"], &compliant::text(text)))?;
    }
    Ok(())
}

// === in the place of an answer ===

fn wants(received: &ReceivedMessage, output: &mut Output, requests: &Value, state: &str) -> io::Result<Flow> {
    let wanted = json!({ "resultType": "input_required", "inputRequests": requests, "requestState": state });
    result(received, output, &wanted)
}

/// Sends this many input requests at once.
fn questions(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let question = json!({ "method": "elicitation/create", "params": form() });
    let questions = (0..amount(output)?).map(|number| (format!("q{number}"), question.clone()));
    wants(received, output, &Value::Object(questions.collect()), "state")
}

/// Request state of this many bytes.
fn state(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let state = "x".repeat(amount(output)?);
    wants(received, output, &form_request(), &state)
}

fn wants_undeclared(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let question =
        json!({ "url": { "method": "elicitation/create", "params": { "mode": "url", "url": "https://x.example" } } });
    wants(received, output, &question, "state")
}
