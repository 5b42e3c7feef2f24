//! An oddity for terminals: colours, titles, bells and turned-around lines in everything a person is shown.

use std::io;

use serde_json::json;

use crate::odd::{
    line::{Heard, Next, Oddity, Voice},
    polite::{self, Speaks},
};

/// Red letters, a window's title, a cleared screen, C1, a bell, and a line that reads backwards.
const PAINTED: &str =
    "\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}\u{1b}[2J\u{9b}1mbold\u{7}\u{8}\r\u{202e}back\u{1b}]8;;http://x\u{1b}\\";

/// The oddity of this name.
pub(super) fn find(name: &str) -> Option<Oddity> {
    (name == "paints").then_some(paints)
}

/// Paints its tools, its progress, its answer to `odd`, and the error it answers `hello` with.
fn paints(heard: &Heard, voice: &mut Voice) -> io::Result<Next> {
    match (heard.method.as_str(), heard.tool()) {
        ("tools/list", _) => {
            let mut list = polite::tools(&["hello", "odd", PAINTED]);
            for tool in list["tools"].as_array_mut().into_iter().flatten() {
                tool["title"] = json!(PAINTED);
                tool["description"] = json!(PAINTED);
                tool["inputSchema"]["properties"] = json!({ PAINTED: { "type": PAINTED, "default": PAINTED } });
            }
            voice.say(&polite::answered(heard.id(), &list))?;
        }
        ("tools/call", "hello") => voice.say(&polite::error(heard.id(), -32603, PAINTED))?,
        ("tools/call", _) => {
            let token = &heard.message["params"]["_meta"]["progressToken"];
            let params = json!({ "progressToken": token, "progress": 1, "total": 2, "message": PAINTED });
            voice.say(&polite::notification("notifications/progress", &params))?;
            let params = json!({ "level": "error", "logger": PAINTED, "data": PAINTED });
            voice.say(&polite::notification("notifications/message", &params))?;
            voice.say(&polite::answered(heard.id(), &polite::text(PAINTED)))?;
        }
        _ => return voice.answer(Speaks::Both, heard),
    }
    Ok(Next::GoOn)
}
