//! Oddities with questions: too many, too long, too often, undeclared, or nobody's in particular.

use std::io;

use serde_json::{Value, json};

use super::{amount, on_call};
use crate::odd::{
    line::{Heard, Next, Oddity, Voice},
    polite::{self, Speaks},
};

/// The oddity of this name.
pub(super) fn find(name: &str) -> Option<Oddity> {
    Some(match name {
        "asks" => asks,
        "asks-undeclared" => asks_undeclared,
        "asks-between" => asks_between,
        "asks-anyway" => |heard, voice| on_call(heard, voice, asks_anyway),
        "rounds" => |heard, voice| on_call(heard, voice, |heard, voice| wants(heard, voice, &form_request(), "again")),
        "retries" => |heard, voice| on_call(heard, voice, |heard, voice| wants(heard, voice, &json!({}), "again")),
        "questions" => |heard, voice| on_call(heard, voice, questions),
        "state" => |heard, voice| on_call(heard, voice, state),
        "wants-undeclared" => |heard, voice| on_call(heard, voice, wants_undeclared),
        "wants-nothing" => |heard, voice| {
            on_call(heard, voice, |heard, voice| result(heard, voice, &json!({ "resultType": "input_required" })))
        },
        "unknown-type" => |heard, voice| {
            on_call(heard, voice, |heard, voice| result(heard, voice, &json!({ "resultType": "perhaps" })))
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

fn result(heard: &Heard, voice: &mut Voice, result: &Value) -> io::Result<Next> {
    voice.say(&polite::answered(heard.id(), result))?;
    Ok(Next::GoOn)
}

// === while the call is open ===

/// So many questions at once; the answer counts what came back.
fn asks(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    match heard.method.as_str() {
        "tools/call" if heard.tool() == "odd" => {
            voice.owe(Some(heard.message.clone()));
            for number in 0..amount(voice)? {
                voice.say(&polite::request(&json!(format!("q{number}")), "elicitation/create", &form()))?;
            }
            Ok(Next::GoOn)
        }
        "result" | "error" => {
            let count = |method: &str| voice.heard.get(method).copied().unwrap_or_default();
            let (given, refused) = (count("result"), count("error"));
            if given + refused == amount(voice)? {
                answer_owed(voice, &format!("{given} given, {refused} refused"))?;
            }
            Ok(Next::GoOn)
        }
        _ => voice.answer(Speaks::Both, heard),
    }
}

/// Asks for a completion nobody offered; the answer says what was said to that.
fn asks_undeclared(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    match heard.method.as_str() {
        "tools/call" if heard.tool() == "odd" => {
            voice.owe(Some(heard.message.clone()));
            voice.say(&polite::request(&json!("s"), "sampling/createMessage", &json!({ "messages": [] })))?;
            Ok(Next::GoOn)
        }
        "error" => {
            answer_owed(voice, &format!("refused with {}", heard.message["error"]["code"]))?;
            Ok(Next::GoOn)
        }
        _ => voice.answer(Speaks::Both, heard),
    }
}

/// Logs and asks when two calls are under way; both answers say what came back.
fn asks_between(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    match heard.method.as_str() {
        "tools/call" if heard.tool() == "odd" => {
            voice.owe(Some(heard.message.clone()));
            if voice.owed.len() == 2 {
                let log = json!({ "level": "info", "data": "whose line is this?" });
                voice.say(&polite::notification("notifications/message", &log))?;
                voice.say(&polite::request(&json!("e"), "elicitation/create", &form()))?;
                voice.say(&polite::request(&json!("r"), "roots/list", &json!({})))?;
            }
            Ok(Next::GoOn)
        }
        "result" | "error" => {
            let said = match heard.message["id"].as_str() {
                Some("e") => format!("elicitation: {}", heard.message["error"]["code"]),
                _ => format!("roots: {}", heard.message["result"]["roots"]),
            };
            voice.argument = format!("{}{said}; ", voice.argument);
            if voice.argument.contains("elicitation") && voice.argument.contains("roots") {
                let said = voice.argument.clone();
                answer_owed(voice, &said)?;
            }
            Ok(Next::GoOn)
        }
        _ => voice.answer(Speaks::Both, heard),
    }
}

/// A request where no server may send one, then the answer.
fn asks_anyway(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    voice.say(&polite::request(&json!("e"), "elicitation/create", &form()))?;
    voice.answer(Speaks::Both, heard)
}

/// What is owed are the calls; all of them are answered with this text.
fn answer_owed(voice: &mut Voice, text: &str) -> io::Result<()> {
    for call in std::mem::take(&mut voice.owed) {
        voice.say(&polite::answered(&call["id"], &polite::text(text)))?;
    }
    Ok(())
}

// === in the place of an answer ===

fn wants(heard: &Heard, voice: &mut Voice, requests: &Value, state: &str) -> io::Result<Next> {
    let wanted = json!({ "resultType": "input_required", "inputRequests": requests, "requestState": state });
    result(heard, voice, &wanted)
}

/// So many questions at once.
fn questions(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    let question = json!({ "method": "elicitation/create", "params": form() });
    let questions = (0..amount(voice)?).map(|number| (format!("q{number}"), question.clone()));
    wants(heard, voice, &Value::Object(questions.collect()), "state")
}

/// Something of so many bytes to carry.
fn state(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    let state = "x".repeat(amount(voice)?);
    wants(heard, voice, &form_request(), &state)
}

fn wants_undeclared(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    let question =
        json!({ "url": { "method": "elicitation/create", "params": { "mode": "url", "url": "https://x.example" } } });
    wants(heard, voice, &question, "state")
}
