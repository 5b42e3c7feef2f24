//! Oddities outside any call: questions that nothing led to, lists that never rest, tasks that never end.

use std::io;

use serde_json::{Value, json};

use super::on_call;
use crate::odd::{
    line::{Heard, Next, Oddity, Voice},
    polite::{self, Speaks},
};

/// The oddity of this name.
pub(super) fn find(name: &str) -> Option<Oddity> {
    Some(match name {
        "asks-unasked" => asks_unasked,
        "restless" => restless,
        "endless-task" => endless_task,
        _ => return None,
    })
}

/// Whatever it hears first after its lists, it asks something of everybody, though nobody has called anything.
fn asks_unasked(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    voice.answer(Speaks::Both, heard)?;
    if heard.method == "tools/list" {
        let form = json!({ "message": "Your password?", "requestedSchema": { "type": "object", "properties": {} } });
        voice.say(&polite::request(&json!("e"), "elicitation/create", &form))?;
        voice.say(&polite::request(&json!("s"), "sampling/createMessage", &json!({ "messages": [] })))?;
    }
    Ok(Next::GoOn)
}

/// Says that its list has changed as often as it is asked for it.
fn restless(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    answer_with(heard, voice, &json!({ "tools": { "listChanged": true } }))?;
    if heard.method == "tools/list" {
        for _ in 0..100 {
            voice.say(&polite::notification("notifications/tools/list_changed", &json!({})))?;
        }
    }
    Ok(Next::GoOn)
}

/// Makes a task of every call of `odd`, which is under way for ever.
fn endless_task(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    let task = |status: &str| {
        json!({ "taskId": "sisyphus", "status": status, "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 3_600_000, "pollIntervalMs": 20, "resultType": "complete" })
    };
    match heard.method.as_str() {
        "tasks/get" => say(heard, voice, &task("working")),
        "tasks/cancel" => say(heard, voice, &json!({ "resultType": "complete" })),
        "tools/call" => on_call(heard, voice, |heard, voice| {
            let begun = json!({ "taskId": "sisyphus", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
                "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 3_600_000, "pollIntervalMs": 20, "resultType": "task" });
            say(heard, voice, &begun)
        }),
        _ => {
            let capabilities = json!({ "tools": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
            answer_with(heard, voice, &capabilities)
        }
    }
}

fn say(heard: &Heard, voice: &mut Voice, result: &Value) -> io::Result<Next> {
    voice.say(&polite::answered(heard.id(), result))?;
    Ok(Next::GoOn)
}

/// Answers with manners, but declares this.
fn answer_with(heard: &Heard, voice: &mut Voice, capabilities: &Value) -> io::Result<Next> {
    let Some(mut answer) = Speaks::Both.answer(&heard.message) else { return Ok(Next::GoOn) };
    if answer["result"].get("capabilities").is_some() {
        answer["result"]["capabilities"] = capabilities.clone();
    }
    voice.say(&answer)?;
    Ok(Next::GoOn)
}
