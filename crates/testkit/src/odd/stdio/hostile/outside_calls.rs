//! Oddities outside calls: unsolicited requests, endless list changes, endless tasks.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::on_call;
use crate::odd::{
    compliant::{self, SupportedEras},
    stdio::{Flow, Oddity, Output, ReceivedMessage},
};

/// Oddity with this name.
pub(super) fn find(name: &str) -> Option<Oddity> {
    Some(match name {
        "asks-outside-calls" => asks_outside_a_call,
        "restless" => restless,
        "endless-task" => endless_task,
        "dying-task" => dying_task,
        "sampling-task" => sampling_task,
        "unready-task" => unready_task,
        "hinting-task" => hinting_task,
        "progress-task" => progress_task,
        _ => return None,
    })
}

/// Sends server requests after `tools/list`, without any call in flight.
fn asks_outside_a_call(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    output.answer(SupportedEras::Both, received)?;
    if received.method == "tools/list" {
        let form = json!({ "message": "Your password?", "requestedSchema": { "type": "object", "properties": {} } });
        output.send(&compliant::request(&json!("e"), "elicitation/create", &form))?;
        output.send(&compliant::request(&json!("s"), "sampling/createMessage", &json!({ "messages": [] })))?;
    }
    Ok(Flow::Continue)
}

/// Notifies of list changes each time the list is requested.
fn restless(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    answer_with(received, output, &json!({ "tools": { "listChanged": true } }))?;
    if received.method == "tools/list" {
        for _ in 0..100 {
            output.send(&compliant::notification("notifications/tools/list_changed", &json!({})))?;
        }
    }
    Ok(Flow::Continue)
}

/// Turns every call of `odd` into a task that never ends.
fn endless_task(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let task = |status: &str| {
        json!({ "taskId": "sisyphus", "status": status, "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 3_600_000, "pollIntervalMs": 20, "resultType": "complete" })
    };
    match received.method.as_str() {
        "tasks/get" => say(received, output, &task("working")),
        "tasks/cancel" => say(received, output, &json!({ "resultType": "complete" })),
        "tools/call" => on_call(received, output, |received, output| {
            let begun = json!({ "taskId": "sisyphus", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
                "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 3_600_000, "pollIntervalMs": 20, "resultType": "task" });
            say(received, output, &begun)
        }),
        _ => {
            let capabilities = json!({ "tools": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
            answer_with(received, output, &capabilities)
        }
    }
}

/// Like [`endless_task`], but the server ends when the task is read for the second time, with a path on stderr.
fn dying_task(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let reads = output.received.get("tasks/get").copied().unwrap_or_default();
    if received.method == "tasks/get" && 2 <= reads {
        writeln!(io::stderr(), "cannot open /home/ada/.netrc")?;
        return Ok(Flow::Exit);
    }
    endless_task(received, output)
}

/// Like [`endless_task`], but the task asks for an answer of a model and ends with it.
fn sampling_task(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if received.method == "tasks/update" {
        return say(received, output, &json!({ "resultType": "complete" }));
    }
    if received.method != "tasks/get" {
        return endless_task(received, output);
    }
    let mut task = json!({ "taskId": "sisyphus", "createdAt": "2026-01-01T00:00:00Z", "pollIntervalMs": 20,
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 3_600_000, "resultType": "complete" });
    if output.received.contains_key("tasks/update") {
        task["status"] = json!("completed");
        task["result"] = json!({ "content": [{ "type": "text", "text": "painted as the model said" }] });
    } else {
        let message = json!({ "role": "user", "content": { "type": "text", "text": "Which colour?" } });
        let params = json!({ "messages": [message], "maxTokens": 20 });
        task["status"] = json!("input_required");
        task["inputRequests"] = json!({ "colour": { "method": "sampling/createMessage", "params": params } });
    }
    say(received, output, &task)
}

/// Turns every call of `odd` in a session into a task, and refuses to wait for its result, as FastMCP 3 does; with the
/// argument `early`, in the form of FastMCP 2.14; with `fast`, it suggests to poll it every millisecond, with `silent`, nothing.
/// The task ends with the third `tasks/get`.
fn unready_task(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let interval = match output.argument.as_str() {
        "fast" => json!(1),
        "silent" => Value::Null,
        _ => json!(1_000),
    };
    let task = |status: &str| {
        json!({ "taskId": "t", "status": status, "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": 60_000, "pollInterval": interval })
    };
    let reads = output.received.get("tasks/get").copied().unwrap_or_default();
    let early = output.argument == "early";
    match received.method.as_str() {
        "tools/call" if early => {
            let meta = json!({ "modelcontextprotocol.io/task": { "taskId": "t", "status": "working" } });
            say(received, output, &json!({ "content": [], "isError": false, "_meta": meta }))
        }
        "tools/call" => say(received, output, &json!({ "task": task("working") })),
        "tasks/get" => say(received, output, &task(if reads < 3 { "working" } else { "completed" })),
        "tasks/result" if reads < 3 => {
            let unready = json!({ "code": -32602, "message": "Task not completed yet (current state: working)" });
            output.send(&json!({ "jsonrpc": "2.0", "id": received.id(), "error": unready }))?;
            Ok(Flow::Continue)
        }
        "tasks/result" => say(received, output, &json!({ "content": [{ "type": "text", "text": "done at last" }] })),
        _ => {
            let Some(mut answer) = SupportedEras::Both.answer(&received.message) else { return Ok(Flow::Continue) };
            if let Some(tools) = answer["result"]["tools"].as_array_mut() {
                tools.iter_mut().for_each(|tool| tool["execution"] = json!({ "taskSupport": "required" }));
            }
            if answer["result"].get("capabilities").is_some() {
                let tasks = json!({ "tasks": { "requests": { "tools": { "call": {} } } } });
                answer["result"]["capabilities"] = if early { json!({ "experimental": tasks }) } else { tasks };
                answer["result"]["capabilities"]["tools"] = json!({});
            }
            output.send(&answer)?;
            Ok(Flow::Continue)
        }
    }
}

/// Like [`unready_task`] with five reads and a long poll interval; announces a change a hundred times after each.
fn hinting_task(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let reads = output.received.get("tasks/get").copied().unwrap_or_default();
    let task = json!({ "taskId": "t", "status": if reads < 5 { "working" } else { "completed" }, "ttl": 600_000,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "pollInterval": 60_000 });
    match received.method.as_str() {
        "tools/call" => say(received, output, &json!({ "task": task })),
        "tasks/get" => {
            say(received, output, &task)?;
            for _ in 0..100 {
                output.send(&compliant::notification("notifications/tasks/status", &task))?;
            }
            Ok(Flow::Continue)
        }
        "tasks/result" => say(received, output, &json!({ "content": [{ "type": "text", "text": "done at last" }] })),
        _ => unready_task(received, output),
    }
}

/// Like [`unready_task`] with a long poll interval: the task reports five steps of ten with the token of its call, one every
/// 300 ms, and then goes on until it is read three times. With the argument `bell` its messages ring; with `brief` it suggests
/// to be read every second.
fn progress_task(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let reads = output.received.get("tasks/get").copied().unwrap_or_default();
    let interval = if output.argument == "brief" { 1_000 } else { 20_000 };
    let task = |status: &str| {
        json!({ "taskId": "t", "status": status, "statusMessage": "painting", "ttl": 600_000, "pollInterval": interval,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z" })
    };
    match received.method.as_str() {
        "tools/call" => {
            say(received, output, &json!({ "task": task("working") }))?;
            let token = received.message["params"]["_meta"]["progressToken"].clone();
            for step in 1..=5 {
                std::thread::sleep(std::time::Duration::from_millis(300));
                let message = format!("wall {step}{}", if output.argument == "bell" { "\u{7}" } else { "" });
                let params = json!({ "progressToken": token, "progress": step, "total": 10, "message": message });
                output.send(&compliant::notification("notifications/progress", &params))?;
            }
            Ok(Flow::Continue)
        }
        "tasks/get" => say(received, output, &task(if reads < 3 { "working" } else { "completed" })),
        "tasks/result" => say(received, output, &json!({ "content": [{ "type": "text", "text": "done at last" }] })),
        _ => unready_task(received, output),
    }
}

fn say(received: &ReceivedMessage, output: &mut Output, result: &Value) -> io::Result<Flow> {
    output.send(&compliant::answered(received.id(), result))?;
    Ok(Flow::Continue)
}

/// Answers correctly, with these capabilities.
fn answer_with(received: &ReceivedMessage, output: &mut Output, capabilities: &Value) -> io::Result<Flow> {
    let Some(mut answer) = SupportedEras::Both.answer(&received.message) else { return Ok(Flow::Continue) };
    if answer["result"].get("capabilities").is_some() {
        answer["result"]["capabilities"] = capabilities.clone();
    }
    output.send(&answer)?;
    Ok(Flow::Continue)
}
