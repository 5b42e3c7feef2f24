//! Oddities of lists: endless, circular, oversized, late, different for some clients.

use std::{io, thread, time::Duration};

use serde_json::json;

use super::amount;
use crate::odd::{
    compliant::{self, SupportedEras},
    stdio::{Flow, Oddity, Output, ReceivedMessage},
};

/// Oddity with this name.
pub(super) fn find(name: &str) -> Option<Oddity> {
    Some(match name {
        "pages" => |received, output| page(received, output, &format!("page {}", received.before + 1)),
        "circle" => |received, output| page(received, output, ["there", "back"][received.before % 2]),
        "crowd" => crowd,
        "no-tools" => no_tools,
        "maze" => maze,
        "slow-list" => slow_list,
        "form-tool" => form_tool,
        _ => return None,
    })
}

/// One tool, and another page after it.
fn page(received: &ReceivedMessage, output: &mut Output, next: &str) -> io::Result<Flow> {
    if received.method != "tools/list" {
        return output.answer(SupportedEras::Both, received);
    }
    let mut page = compliant::tools(&["hello"]);
    page["nextCursor"] = json!(next);
    output.send(&compliant::answered(received.id(), &page))?;
    Ok(Flow::Continue)
}

/// This many tools on one page.
fn crowd(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if received.method != "tools/list" {
        return output.answer(SupportedEras::Both, received);
    }
    let names = vec!["hello"; amount(output)?];
    output.send(&compliant::answered(received.id(), &compliant::tools(&names)))?;
    Ok(Flow::Continue)
}

/// An invalid list.
fn no_tools(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if received.method != "tools/list" {
        return output.answer(SupportedEras::Both, received);
    }
    output.send(&compliant::answered(received.id(), &json!({ "tools": { "hello": {} } })))?;
    Ok(Flow::Continue)
}

/// Lists after this many milliseconds. With sessions only.
fn slow_list(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if received.method == "tools/list" {
        thread::sleep(Duration::from_millis(amount(output)? as u64));
    }
    output.answer(SupportedEras::Legacy, received)
}

/// Lists one more tool to clients with forms. With sessions only.
fn form_tool(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if received.method != "tools/list" || output.declared["elicitation"].is_null() {
        return output.answer(SupportedEras::Legacy, received);
    }
    output.send(&compliant::answered(received.id(), &compliant::tools(&["hello", "odd", "form"])))?;
    Ok(Flow::Continue)
}

/// A tool with a small schema that takes exponential time to validate.
fn maze(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if received.method != "tools/list" {
        return output.answer(SupportedEras::Both, received);
    }
    let mut rooms = serde_json::Map::new();
    for room in 0..60 {
        let door = json!({ "$ref": format!("#/$defs/{}", room + 1) });
        rooms.insert(room.to_string(), json!({ "allOf": [door, { "not": { "not": door } }] }));
    }
    rooms.insert("60".to_owned(), json!({ "type": "object" }));
    let mut list = compliant::tools(&["odd"]);
    list["tools"][0]["inputSchema"] = json!({ "type": "object", "$ref": "#/$defs/0", "$defs": rooms });
    output.send(&compliant::answered(received.id(), &list))?;
    Ok(Flow::Continue)
}
