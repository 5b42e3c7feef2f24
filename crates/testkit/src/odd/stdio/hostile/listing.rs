//! Oddities of lists: no end, a circle, a crowd.

use std::io;

use serde_json::json;

use super::amount;
use crate::odd::{
    line::{Heard, Next, Oddity, Voice},
    polite::{self, Speaks},
};

/// The oddity of this name.
pub(super) fn find(name: &str) -> Option<Oddity> {
    Some(match name {
        "pages" => |heard, voice| page(heard, voice, &format!("page {}", heard.before + 1)),
        "circle" => |heard, voice| page(heard, voice, ["there", "back"][heard.before % 2]),
        "crowd" => crowd,
        "no-tools" => no_tools,
        "maze" => maze,
        _ => return None,
    })
}

/// One tool, and another page after it.
fn page(heard: &Heard, voice: &mut Voice, next: &str) -> io::Result<Next> {
    if heard.method != "tools/list" {
        return voice.answer(Speaks::Both, heard);
    }
    let mut page = polite::tools(&["hello"]);
    page["nextCursor"] = json!(next);
    voice.say(&polite::answered(heard.id(), &page))?;
    Ok(Next::GoOn)
}

/// So many tools on one page.
fn crowd(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    if heard.method != "tools/list" {
        return voice.answer(Speaks::Both, heard);
    }
    let names = vec!["hello"; amount(voice)?];
    voice.say(&polite::answered(heard.id(), &polite::tools(&names)))?;
    Ok(Next::GoOn)
}

/// A list that is none.
fn no_tools(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    if heard.method != "tools/list" {
        return voice.answer(Speaks::Both, heard);
    }
    voice.say(&polite::answered(heard.id(), &json!({ "tools": { "hello": {} } })))?;
    Ok(Next::GoOn)
}

/// A tool whose schema is small and takes longer to go through than anybody has.
fn maze(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    if heard.method != "tools/list" {
        return voice.answer(Speaks::Both, heard);
    }
    let mut rooms = serde_json::Map::new();
    for room in 0..60 {
        let door = json!({ "$ref": format!("#/$defs/{}", room + 1) });
        rooms.insert(room.to_string(), json!({ "allOf": [door, { "not": { "not": door } }] }));
    }
    rooms.insert("60".to_owned(), json!({ "type": "object" }));
    let mut list = polite::tools(&["odd"]);
    list["tools"][0]["inputSchema"] = json!({ "type": "object", "$ref": "#/$defs/0", "$defs": rooms });
    voice.say(&polite::answered(heard.id(), &list))?;
    Ok(Next::GoOn)
}
