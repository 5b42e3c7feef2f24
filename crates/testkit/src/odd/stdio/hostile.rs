//! Oddities in the place of an answer: floods, lines that do not end, ids that are nobody's, broken text.
//!
//! Each speaks either era and shows itself when the tool `odd` is called; any other tool is answered with manners,
//! so that a test sees whether the connection outlived it. Questions are in [`asking`], lists in [`listing`], what comes
//! outside any call in [`unasked`].

mod asking;
mod listing;
mod painting;
mod unasked;

use std::{
    fs::File,
    io::{self, Write},
};

use serde_json::{Value, json};

use super::{Heard, Next, Oddity, Voice};
use crate::odd::polite::{self, Speaks};

/// The oddity of this name.
pub(super) fn find(name: &str) -> Option<Oddity> {
    Some(match name {
        "flood" => |heard, voice| on_call(heard, voice, flood),
        "progress-flood" => |heard, voice| on_call(heard, voice, progress_flood),
        "ping-flood" => |heard, voice| on_call(heard, voice, ping_flood),
        "long-line" => |heard, voice| on_call(heard, voice, long_line),
        "long-question" => |heard, voice| on_call(heard, voice, long_question),
        "endless-line" => |heard, voice| on_call(heard, voice, endless_line),
        "wrong-id" => |heard, voice| on_call(heard, voice, |heard, voice| answer_to(&json!(4711), heard, voice)),
        "string-id" => {
            |heard, voice| on_call(heard, voice, |heard, voice| answer_to(&json!(heard.id().to_string()), heard, voice))
        }
        "no-id" => |heard, voice| on_call(heard, voice, |heard, voice| answer_to(&Value::Null, heard, voice)),
        "float-id" => |heard, voice| on_call(heard, voice, float_id),
        "double" => |heard, voice| on_call(heard, voice, double),
        "stray" => |heard, voice| on_call(heard, voice, stray),
        "truncated" => |heard, voice| on_call(heard, voice, truncated),
        "truncated-early" => |heard, voice| on_call(heard, voice, truncated_early),
        "not-utf8" => |heard, voice| on_call(heard, voice, not_utf8),
        "deep" => |heard, voice| on_call(heard, voice, deep),
        "neither" => |heard, voice| on_call(heard, voice, neither),
        "batch" => |heard, voice| on_call(heard, voice, batch),
        "cut" => |heard, voice| on_call(heard, voice, cut),
        "half-closed" => |heard, voice| on_call(heard, voice, half_closed),
        "deaf" => |heard, voice| on_call(heard, voice, deaf),
        "gives-up" => |heard, voice| on_call(heard, voice, gives_up),
        _ => {
            let beside = asking::find(name).or_else(|| listing::find(name));
            return beside.or_else(|| painting::find(name)).or_else(|| unasked::find(name));
        }
    })
}

/// A server with manners, but for the tool `odd`.
fn on_call(heard: &Heard, voice: &mut Voice, odd: Oddity) -> io::Result<Next> {
    if heard.tool() == "odd" { odd(heard, voice) } else { voice.answer(Speaks::Both, heard) }
}

fn amount(voice: &Voice) -> io::Result<usize> {
    voice.argument.parse().map_err(io::Error::other)
}

/// So many notifications, then the answer.
fn flood(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    let line = format!("{}\n", polite::notification("notifications/vendor", &json!({ "noise": "x".repeat(40) })));
    for _ in 0..amount(voice)? {
        voice.say_bytes(line.as_bytes())?;
    }
    voice.answer(Speaks::Both, heard)
}

fn progress_flood(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    let token = &heard.message["params"]["_meta"]["progressToken"];
    for step in 0..amount(voice)? {
        let params = json!({ "progressToken": token, "progress": step, "message": "x".repeat(100) });
        voice.say_bytes(format!("{}\n", polite::notification("notifications/progress", &params)).as_bytes())?;
    }
    voice.answer(Speaks::Both, heard)
}

/// So many requests, without reading a single answer before the last was sent.
fn ping_flood(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    for number in 0..amount(voice)? {
        voice.say_bytes(format!("{}\n", polite::request(&json!(number), "ping", &json!({}))).as_bytes())?;
    }
    voice.answer(Speaks::Both, heard)
}

/// An answer of so many bytes, the id last.
fn long_line(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    let result = polite::text(&"x".repeat(amount(voice)?));
    voice.say_bytes(format!("{{\"jsonrpc\":\"2.0\",\"result\":{result},\"id\":{}}}\n", heard.id()).as_bytes())?;
    voice.flush()?;
    Ok(Next::GoOn)
}

/// A request of so many bytes under the very id of the call, then the answer to the call.
fn long_question(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    let params = json!({ "message": "x".repeat(amount(voice)?), "requestedSchema": {} });
    voice.say(&polite::request(heard.id(), "elicitation/create", &params))?;
    voice.answer(Speaks::Both, heard)
}

/// Never comes to the end of its line.
fn endless_line(_heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    loop {
        voice.say_bytes(&[b'x'; 4096])?;
    }
}

fn answer_to(id: &Value, heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    voice.say(&polite::answered(id, &polite::text(heard.tool())))?;
    Ok(Next::GoOn)
}

/// Some languages have one kind of number.
fn float_id(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    let result = polite::text(polite::HELLO);
    voice.say_bytes(format!("{{\"id\":{}.0,\"result\":{result}}}\n", heard.id()).as_bytes())?;
    voice.flush()?;
    Ok(Next::GoOn)
}

/// Answers twice, differently.
fn double(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    voice.answer(Speaks::Both, heard)?;
    voice.say(&polite::error(heard.id(), -32603, "on second thoughts, no"))?;
    Ok(Next::GoOn)
}

/// Answers what nobody asked, then what was asked.
fn stray(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    for id in [json!(4711), json!("seven"), json!(-1), json!(1e300), Value::Null] {
        voice.say(&polite::answered(&id, &json!({})))?;
    }
    voice.answer(Speaks::Both, heard)
}

fn truncated(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    voice.say_bytes(format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"content\":[\n", heard.id()).as_bytes())?;
    voice.flush()?;
    Ok(Next::GoOn)
}

/// Nobody can tell what this would have answered.
fn truncated_early(_heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    voice.say_bytes(b"{\"jsonrpc\":\"2.0\",\n")?;
    voice.flush()?;
    Ok(Next::GoOn)
}

/// An older encoding.
fn not_utf8(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    voice.say_bytes(b"{\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"caf\xe9\"}]},\"id\":")?;
    voice.say_bytes(format!("{}}}\n", heard.id()).as_bytes())?;
    voice.flush()?;
    Ok(Next::GoOn)
}

/// An answer of so many brackets, the id last.
fn deep(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    let depth = amount(voice)?;
    let nest = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    voice.say_bytes(format!("{{\"result\":{{\"x\":{nest}}},\"id\":{}}}\n", heard.id()).as_bytes())?;
    voice.flush()?;
    Ok(Next::GoOn)
}

/// Neither result nor error.
fn neither(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    voice.say(&json!({ "jsonrpc": "2.0", "id": heard.id(), "outcome": "fine" }))?;
    Ok(Next::GoOn)
}

/// The answer in an array, behind a notification.
fn batch(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    let answer = Speaks::Both.answer(&heard.message);
    voice.say(&json!([polite::notification("notifications/vendor", &json!({})), answer]))?;
    Ok(Next::GoOn)
}

/// Dies in the middle of its answer.
fn cut(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    voice.say_bytes(format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"resu", heard.id()).as_bytes())?;
    voice.flush()?;
    Ok(Next::Leave)
}

/// Closes its output and goes on reading.
fn half_closed(_heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    voice.out.get_mut().flush()?;
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(Next::GoOn)
}

/// Closes its input and waits to be ended.
fn deaf(_heard: &Heard, _voice: &mut Voice) -> io::Result<Next> {
    rustix::stdio::dup2_stdin(File::open("/dev/zero")?)?;
    loop {
        std::thread::park();
    }
}

/// Takes back what it was asked, as only the asking side may.
fn gives_up(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    voice.say(&polite::notification("notifications/cancelled", &json!({ "requestId": heard.id() })))?;
    Ok(Next::GoOn)
}
