//! Oddities of the handshake, when the era is probed.

use std::io;

use serde_json::{Value, json};

use super::{Flow, Oddity, Output, ReceivedMessage};
use crate::odd::compliant::{self, SupportedEras};

/// Oddity with this name.
pub(super) fn find(name: &str) -> Option<Oddity> {
    Some(match name {
        "legacy" => |received, output| output.answer(SupportedEras::Legacy, received),
        "modern" => |received, output| output.answer(SupportedEras::Modern, received),
        "both" => |received, output| output.answer(SupportedEras::Both, received),
        "refuses" => refuses,
        "refuses-without-id" => refuses_without_id,
        "empty" => |received, output| on_discover(received, output, &json!({})),
        "no-list" => |received, output| on_discover(received, output, &json!({ "capabilities": {}, "serverInfo": {} })),
        "odd-list" => {
            |received, output| on_discover(received, output, &json!({ "supportedVersions": compliant::MODERN }))
        }
        "lists" => lists,
        "turns-down" => turns_down,
        "turns-down-once" => turns_down_once,
        "silent" => silent,
        "mute" => |_, _| Ok(Flow::Continue),
        "late-legacy" => |received, output| late(received, output, SupportedEras::Legacy),
        "late-modern" => |received, output| late(received, output, SupportedEras::Modern),
        "overtaken" => overtaken,
        "ends" => ends,
        "ends-late" => ends_late,
        "ends-always" | "ends-at-once" => |_, _| Ok(Flow::Exit),
        "banner" => banner,
        "asks-first" => asks_first,
        "agrees-on" => agrees_on,
        "agrees-on-nothing" => |received, output| on(received, output, "initialize", &json!({ "capabilities": {} })),
        "declines" => declines,
        "string-ids" => string_ids,
        _ => return None,
    })
}

/// A legacy server, except for the result of one method.
fn on(received: &ReceivedMessage, output: &mut Output, method: &str, result: &Value) -> io::Result<Flow> {
    if received.method == method {
        output.send(&compliant::answered(received.id(), result))?;
        return Ok(Flow::Continue);
    }
    output.answer(SupportedEras::Legacy, received)
}

fn on_discover(received: &ReceivedMessage, output: &mut Output, result: &Value) -> io::Result<Flow> {
    on(received, output, "server/discover", result)
}

/// Answers unknown methods with this error code.
fn refuses(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    refuse(received, output, &received.id().clone())
}

/// The same, without an id.
fn refuses_without_id(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    refuse(received, output, &Value::Null)
}

fn refuse(received: &ReceivedMessage, output: &mut Output, id: &Value) -> io::Result<Flow> {
    if received.method == "server/discover" {
        let code = output.argument.parse().map_err(io::Error::other)?;
        output.send(&compliant::error(id, code, "no"))?;
        return Ok(Flow::Continue);
    }
    output.answer(SupportedEras::Legacy, received)
}

/// Lists these versions, and is a legacy server.
fn lists(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let argument = output.argument.clone();
    on_discover(received, output, &compliant::discovered(&versions(&argument)))
}

/// Refuses every version, whatever it lists.
fn turns_down(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if received.method == "server/discover" {
        let argument = output.argument.clone();
        output.send(&compliant::other_versions(received.id(), &versions(&argument)))?;
        return Ok(Flow::Continue);
    }
    output.answer(SupportedEras::Legacy, received)
}

/// Refuses a version once and then accepts it, as during a deployment.
fn turns_down_once(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if received.before == 0 { turns_down(received, output) } else { output.answer(SupportedEras::Modern, received) }
}

/// Ignores unknown methods.
fn silent(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if received.method == "server/discover" {
        Ok(Flow::Continue)
    } else {
        output.answer(SupportedEras::Legacy, received)
    }
}

/// Answers `server/discover` only after the next message, too late.
fn late(received: &ReceivedMessage, output: &mut Output, speaks: SupportedEras) -> io::Result<Flow> {
    if received.method == "server/discover" && received.before == 0 {
        output.defer(speaks.answer(&received.message));
        return Ok(Flow::Continue);
    }
    output.send_deferred()?;
    output.answer(speaks, received)
}

/// Refuses `initialize` with its versions, and only then answers `server/discover`.
fn overtaken(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    match received.method.as_str() {
        "server/discover" if received.before == 0 => output.defer(SupportedEras::Modern.answer(&received.message)),
        "initialize" => {
            output.send(&compliant::other_versions(received.id(), &[compliant::MODERN]))?;
            output.send_deferred()?;
        }
        _ => return output.answer(SupportedEras::Modern, received),
    }
    Ok(Flow::Continue)
}

/// Exits on unknown methods.
fn ends(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if received.method == "server/discover" { Ok(Flow::Exit) } else { output.answer(SupportedEras::Legacy, received) }
}

/// Exits on the message after an unknown method.
fn ends_late(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    match (received.method.as_str(), output.received.contains_key("server/discover")) {
        ("server/discover", _) => Ok(Flow::Continue),
        (_, true) => Ok(Flow::Exit),
        (_, false) => output.answer(SupportedEras::Legacy, received),
    }
}

/// Prints a banner to its standard output.
fn banner(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if received.before == 0 {
        output.send_bytes(b"\x1b[32mOdd server v1\x1b[0m listening on stdio\n\n{not json}\n[]\n42\n")?;
    }
    output.answer(SupportedEras::Legacy, received)
}

/// Sends requests before it answers.
fn asks_first(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if received.method == "initialize" {
        output.defer(SupportedEras::Legacy.answer(&received.message));
        output.send(&compliant::request(&json!("a"), "ping", &json!({})))?;
        output.send(&compliant::request(&json!("b"), "roots/list", &json!({})))?;
        return Ok(Flow::Continue);
    }
    // The second request was answered.
    if received.method == "error" {
        output.send_deferred()?;
    }
    output.answer(SupportedEras::Legacy, received)
}

/// Agrees on the version in its argument, whichever was offered.
fn agrees_on(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let argument = output.argument.clone();
    on(received, output, "initialize", &compliant::initialized(&argument))
}

/// Refuses every handshake.
fn declines(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    output.send(&compliant::error(received.id(), -32603, "not today"))?;
    Ok(Flow::Continue)
}

/// Answers request `1` with the id `"1"`.
fn string_ids(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if let Some(mut answer) = SupportedEras::Both.answer(&received.message) {
        answer["id"] = json!(received.id().to_string());
        output.send(&answer)?;
    }
    Ok(Flow::Continue)
}

fn versions(argument: &str) -> Vec<&str> {
    argument.split(',').filter(|version| !version.is_empty()).collect()
}
