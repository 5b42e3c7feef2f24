//! Oddities of the first words: what servers do when they are asked for their era.

use std::io;

use serde_json::{Value, json};

use super::{Heard, Next, Oddity, Voice};
use crate::odd::polite::{self, Speaks};

/// The oddity of this name.
pub(super) fn find(name: &str) -> Option<Oddity> {
    Some(match name {
        "legacy" => |heard, voice| voice.answer(Speaks::Legacy, heard),
        "modern" => |heard, voice| voice.answer(Speaks::Modern, heard),
        "both" => |heard, voice| voice.answer(Speaks::Both, heard),
        "refuses" => refuses,
        "refuses-nobody" => refuses_nobody,
        "empty" => |heard, voice| on_discover(heard, voice, &json!({})),
        "no-list" => |heard, voice| on_discover(heard, voice, &json!({ "capabilities": {}, "serverInfo": {} })),
        "odd-list" => |heard, voice| on_discover(heard, voice, &json!({ "supportedVersions": polite::MODERN })),
        "lists" => lists,
        "turns-down" => turns_down,
        "turns-down-once" => turns_down_once,
        "silent" => silent,
        "mute" => |_, _| Ok(Next::GoOn),
        "late-legacy" => |heard, voice| late(heard, voice, Speaks::Legacy),
        "late-modern" => |heard, voice| late(heard, voice, Speaks::Modern),
        "overtaken" => overtaken,
        "ends" => ends,
        "ends-late" => ends_late,
        "ends-always" | "ends-at-once" => |_, _| Ok(Next::Leave),
        "banner" => banner,
        "asks-first" => asks_first,
        "agrees-on" => agrees_on,
        "agrees-on-nothing" => |heard, voice| on(heard, voice, "initialize", &json!({ "capabilities": {} })),
        "declines" => declines,
        "string-ids" => string_ids,
        _ => return None,
    })
}

/// A legacy server, but for the result of one method.
fn on(heard: &Heard, voice: &mut Voice, method: &str, result: &Value) -> io::Result<Next> {
    if heard.method == method {
        voice.say(&polite::answered(heard.id(), result))?;
        return Ok(Next::GoOn);
    }
    voice.answer(Speaks::Legacy, heard)
}

fn on_discover(heard: &Heard, voice: &mut Voice, result: &Value) -> io::Result<Next> {
    on(heard, voice, "server/discover", result)
}

/// Says an error with this code to what it does not know.
fn refuses(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    refuse(heard, voice, &heard.id().clone())
}

/// The same, but without saying to whom.
fn refuses_nobody(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    refuse(heard, voice, &Value::Null)
}

fn refuse(heard: &Heard, voice: &mut Voice, id: &Value) -> io::Result<Next> {
    if heard.method == "server/discover" {
        let code = voice.argument.parse().map_err(io::Error::other)?;
        voice.say(&polite::error(id, code, "no"))?;
        return Ok(Next::GoOn);
    }
    voice.answer(Speaks::Legacy, heard)
}

/// Lists these versions, and speaks with a session.
fn lists(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    let argument = voice.argument.clone();
    on_discover(heard, voice, &polite::discovered(&versions(&argument)))
}

/// Never speaks the version it is spoken to in, whatever it lists.
fn turns_down(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    if heard.method == "server/discover" {
        let argument = voice.argument.clone();
        voice.say(&polite::other_versions(heard.id(), &versions(&argument)))?;
        return Ok(Next::GoOn);
    }
    voice.answer(Speaks::Legacy, heard)
}

/// Turns a version down and then speaks it, as servers do that are being replaced.
fn turns_down_once(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    if heard.before == 0 { turns_down(heard, voice) } else { voice.answer(Speaks::Modern, heard) }
}

/// Passes over what it does not know.
fn silent(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    if heard.method == "server/discover" { Ok(Next::GoOn) } else { voice.answer(Speaks::Legacy, heard) }
}

/// Answers `server/discover` only when something else has come: later than anyone waits.
fn late(heard: &Heard, voice: &mut Voice, speaks: Speaks) -> io::Result<Next> {
    if heard.method == "server/discover" && heard.before == 0 {
        voice.owe(speaks.answer(&heard.message));
        return Ok(Next::GoOn);
    }
    voice.pay()?;
    voice.answer(speaks, heard)
}

/// Refuses `initialize` with the versions it speaks, and only then answers `server/discover`.
fn overtaken(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    match heard.method.as_str() {
        "server/discover" if heard.before == 0 => voice.owe(Speaks::Modern.answer(&heard.message)),
        "initialize" => {
            voice.say(&polite::other_versions(heard.id(), &[polite::MODERN]))?;
            voice.pay()?;
        }
        _ => return voice.answer(Speaks::Modern, heard),
    }
    Ok(Next::GoOn)
}

/// Exits on what it does not know.
fn ends(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    if heard.method == "server/discover" { Ok(Next::Leave) } else { voice.answer(Speaks::Legacy, heard) }
}

/// Stumbles over what it does not know when the next message comes.
fn ends_late(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    match (heard.method.as_str(), voice.heard.contains_key("server/discover")) {
        ("server/discover", _) => Ok(Next::GoOn),
        (_, true) => Ok(Next::Leave),
        (_, false) => voice.answer(Speaks::Legacy, heard),
    }
}

/// Takes its output for a terminal.
fn banner(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    if heard.before == 0 {
        voice.say_bytes(b"\x1b[32mOdd server v1\x1b[0m listening on stdio\n\n{not json}\n[]\n42\n")?;
    }
    voice.answer(Speaks::Legacy, heard)
}

/// Asks before it has answered.
fn asks_first(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    if heard.method == "initialize" {
        voice.owe(Speaks::Legacy.answer(&heard.message));
        voice.say(&polite::request(&json!("a"), "ping", &json!({})))?;
        voice.say(&polite::request(&json!("b"), "roots/list", &json!({})))?;
        return Ok(Next::GoOn);
    }
    // The second of its questions has an answer.
    if heard.method == "error" {
        voice.pay()?;
    }
    voice.answer(Speaks::Legacy, heard)
}

/// Agrees on the version in its argument, whichever was offered.
fn agrees_on(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    let argument = voice.argument.clone();
    on(heard, voice, "initialize", &polite::initialized(&argument))
}

/// Wants nobody.
fn declines(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    voice.say(&polite::error(heard.id(), -32603, "not today"))?;
    Ok(Next::GoOn)
}

/// Answers to `"1"` what was asked under `1`.
fn string_ids(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    if let Some(mut answer) = Speaks::Both.answer(&heard.message) {
        answer["id"] = json!(heard.id().to_string());
        voice.say(&answer)?;
    }
    Ok(Next::GoOn)
}

fn versions(argument: &str) -> Vec<&str> {
    argument.split(',').filter(|version| !version.is_empty()).collect()
}
