//! Oddities of the handshake, when the era is probed.

use std::io;

use serde_json::{Value, json};

use super::{ReceivedMessage, Flow, Oddity, Output};
use crate::odd::compliant::{self, SupportedEras};

/// Oddity with this name.
pub(super) fn find(name: &str) -> Option<Oddity> {
    Some(match name {
        "legacy" => |heard, output| output.answer(SupportedEras::Legacy, heard),
        "modern" => |heard, output| output.answer(SupportedEras::Modern, heard),
        "both" => |heard, output| output.answer(SupportedEras::Both, heard),
        "refuses" => refuses,
        "refuses-without-id" => refuses_without_id,
        "empty" => |heard, output| on_discover(heard, output, &json!({})),
        "no-list" => |heard, output| on_discover(heard, output, &json!({ "capabilities": {}, "serverInfo": {} })),
        "odd-list" => |heard, output| on_discover(heard, output, &json!({ "supportedVersions": compliant::MODERN })),
        "lists" => lists,
        "turns-down" => turns_down,
        "turns-down-once" => turns_down_once,
        "silent" => silent,
        "mute" => |_, _| Ok(Flow::Continue),
        "late-legacy" => |heard, output| late(heard, output, SupportedEras::Legacy),
        "late-modern" => |heard, output| late(heard, output, SupportedEras::Modern),
        "overtaken" => overtaken,
        "ends" => ends,
        "ends-late" => ends_late,
        "ends-always" | "ends-at-once" => |_, _| Ok(Flow::Exit),
        "banner" => banner,
        "asks-first" => asks_first,
        "agrees-on" => agrees_on,
        "agrees-on-nothing" => |heard, output| on(heard, output, "initialize", &json!({ "capabilities": {} })),
        "declines" => declines,
        "string-ids" => string_ids,
        _ => return None,
    })
}

/// A legacy server, except for the result of one method.
fn on(heard: &ReceivedMessage, output: &mut Output, method: &str, result: &Value) -> io::Result<Flow> {
    if heard.method == method {
        output.send(&compliant::answered(heard.id(), result))?;
        return Ok(Flow::Continue);
    }
    output.answer(SupportedEras::Legacy, heard)
}

fn on_discover(heard: &ReceivedMessage, output: &mut Output, result: &Value) -> io::Result<Flow> {
    on(heard, output, "server/discover", result)
}

/// Answers unknown methods with this error code.
fn refuses(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    refuse(heard, output, &heard.id().clone())
}

/// The same, without an id.
fn refuses_without_id(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    refuse(heard, output, &Value::Null)
}

fn refuse(heard: &ReceivedMessage, output: &mut Output, id: &Value) -> io::Result<Flow> {
    if heard.method == "server/discover" {
        let code = output.argument.parse().map_err(io::Error::other)?;
        output.send(&compliant::error(id, code, "no"))?;
        return Ok(Flow::Continue);
    }
    output.answer(SupportedEras::Legacy, heard)
}

/// Lists these versions, and is a legacy server.
fn lists(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let argument = output.argument.clone();
    on_discover(heard, output, &compliant::discovered(&versions(&argument)))
}

/// Refuses every version, whatever it lists.
fn turns_down(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if heard.method == "server/discover" {
        let argument = output.argument.clone();
        output.send(&compliant::other_versions(heard.id(), &versions(&argument)))?;
        return Ok(Flow::Continue);
    }
    output.answer(SupportedEras::Legacy, heard)
}

/// Refuses a version once and then accepts it, as during a deployment.
fn turns_down_once(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if heard.before == 0 { turns_down(heard, output) } else { output.answer(SupportedEras::Modern, heard) }
}

/// Ignores unknown methods.
fn silent(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if heard.method == "server/discover" { Ok(Flow::Continue) } else { output.answer(SupportedEras::Legacy, heard) }
}

/// Answers `server/discover` only after the next message, too late.
fn late(heard: &ReceivedMessage, output: &mut Output, speaks: SupportedEras) -> io::Result<Flow> {
    if heard.method == "server/discover" && heard.before == 0 {
        output.defer(speaks.answer(&heard.message));
        return Ok(Flow::Continue);
    }
    output.send_deferred()?;
    output.answer(speaks, heard)
}

/// Refuses `initialize` with its versions, and only then answers `server/discover`.
fn overtaken(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    match heard.method.as_str() {
        "server/discover" if heard.before == 0 => output.defer(SupportedEras::Modern.answer(&heard.message)),
        "initialize" => {
            output.send(&compliant::other_versions(heard.id(), &[compliant::MODERN]))?;
            output.send_deferred()?;
        }
        _ => return output.answer(SupportedEras::Modern, heard),
    }
    Ok(Flow::Continue)
}

/// Exits on unknown methods.
fn ends(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if heard.method == "server/discover" { Ok(Flow::Exit) } else { output.answer(SupportedEras::Legacy, heard) }
}

/// Exits on the message after an unknown method.
fn ends_late(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    match (heard.method.as_str(), output.heard.contains_key("server/discover")) {
        ("server/discover", _) => Ok(Flow::Continue),
        (_, true) => Ok(Flow::Exit),
        (_, false) => output.answer(SupportedEras::Legacy, heard),
    }
}

/// Prints a banner to its standard output.
fn banner(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if heard.before == 0 {
        output.send_bytes(b"\x1b[32mOdd server v1\x1b[0m listening on stdio\n\n{not json}\n[]\n42\n")?;
    }
    output.answer(SupportedEras::Legacy, heard)
}

/// Sends requests before it answers.
fn asks_first(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if heard.method == "initialize" {
        output.defer(SupportedEras::Legacy.answer(&heard.message));
        output.send(&compliant::request(&json!("a"), "ping", &json!({})))?;
        output.send(&compliant::request(&json!("b"), "roots/list", &json!({})))?;
        return Ok(Flow::Continue);
    }
    // The second request was answered.
    if heard.method == "error" {
        output.send_deferred()?;
    }
    output.answer(SupportedEras::Legacy, heard)
}

/// Agrees on the version in its argument, whichever was offered.
fn agrees_on(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    let argument = output.argument.clone();
    on(heard, output, "initialize", &compliant::initialized(&argument))
}

/// Refuses every handshake.
fn declines(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    output.send(&compliant::error(heard.id(), -32603, "not today"))?;
    Ok(Flow::Continue)
}

/// Answers request `1` with the id `"1"`.
fn string_ids(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if let Some(mut answer) = SupportedEras::Both.answer(&heard.message) {
        answer["id"] = json!(heard.id().to_string());
        output.send(&answer)?;
    }
    Ok(Flow::Continue)
}

fn versions(argument: &str) -> Vec<&str> {
    argument.split(',').filter(|version| !version.is_empty()).collect()
}
