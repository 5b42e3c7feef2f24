//! Oddities of lists: endless, circular, oversized.

use std::io;

use serde_json::json;

use super::amount;
use crate::odd::{
    line::{ReceivedMessage, Flow, Oddity, Output},
    compliant::{self, SupportedEras},
};

/// Oddity with this name.
pub(super) fn find(name: &str) -> Option<Oddity> {
    Some(match name {
        "pages" => |heard, output| page(heard, output, &format!("page {}", heard.before + 1)),
        "circle" => |heard, output| page(heard, output, ["there", "back"][heard.before % 2]),
        "crowd" => crowd,
        "no-tools" => no_tools,
        "maze" => maze,
        _ => return None,
    })
}

/// One tool, and another page after it.
fn page(heard: &ReceivedMessage, output: &mut Output, next: &str) -> io::Result<Flow> {
    if heard.method != "tools/list" {
        return output.answer(SupportedEras::Both, heard);
    }
    let mut page = compliant::tools(&["hello"]);
    page["nextCursor"] = json!(next);
    output.send(&compliant::answered(heard.id(), &page))?;
    Ok(Flow::Continue)
}

/// This many tools on one page.
fn crowd(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if heard.method != "tools/list" {
        return output.answer(SupportedEras::Both, heard);
    }
    let names = vec!["hello"; amount(output)?];
    output.send(&compliant::answered(heard.id(), &compliant::tools(&names)))?;
    Ok(Flow::Continue)
}

/// An invalid list.
fn no_tools(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if heard.method != "tools/list" {
        return output.answer(SupportedEras::Both, heard);
    }
    output.send(&compliant::answered(heard.id(), &json!({ "tools": { "hello": {} } })))?;
    Ok(Flow::Continue)
}

/// A tool with a small schema that takes exponential time to validate.
fn maze(heard: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    if heard.method != "tools/list" {
        return output.answer(SupportedEras::Both, heard);
    }
    let mut rooms = serde_json::Map::new();
    for room in 0..60 {
        let door = json!({ "$ref": format!("#/$defs/{}", room + 1) });
        rooms.insert(room.to_string(), json!({ "allOf": [door, { "not": { "not": door } }] }));
    }
    rooms.insert("60".to_owned(), json!({ "type": "object" }));
    let mut list = compliant::tools(&["odd"]);
    list["tools"][0]["inputSchema"] = json!({ "type": "object", "$ref": "#/$defs/0", "$defs": rooms });
    output.send(&compliant::answered(heard.id(), &list))?;
    Ok(Flow::Continue)
}
