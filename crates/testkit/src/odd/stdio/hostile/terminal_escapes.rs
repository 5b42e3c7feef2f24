//! Terminal escape sequences in all texts that are shown to users.

use std::io;

use serde_json::json;

use crate::odd::{
    compliant::{self, SupportedEras},
    stdio::{Flow, Oddity, Output, ReceivedMessage},
};

/// Colours, window title, cleared screen, C1, bell and reversed text.
const PAINTED: &str =
    "\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}\u{1b}[2J\u{9b}1mbold\u{7}\u{8}\r\u{202e}back\u{1b}]8;;http://x\u{1b}\\";

/// Oddity with this name.
pub(super) fn find(name: &str) -> Option<Oddity> {
    (name == "paints").then_some(paints)
}

/// Escape sequences in tools, progress, the answer of `odd` and the error of `hello`.
fn paints(received: &ReceivedMessage, output: &mut Output) -> io::Result<Flow> {
    match (received.method.as_str(), received.tool()) {
        ("tools/list", _) => {
            let mut list = compliant::tools(&["hello", "odd", PAINTED]);
            for tool in list["tools"].as_array_mut().into_iter().flatten() {
                tool["title"] = json!(PAINTED);
                tool["description"] = json!(PAINTED);
                tool["inputSchema"]["properties"] = json!({ PAINTED: { "type": PAINTED, "default": PAINTED } });
            }
            output.send(&compliant::answered(received.id(), &list))?;
        }
        ("tools/call", "hello") => output.send(&compliant::error(received.id(), -32603, PAINTED))?,
        ("tools/call", _) => {
            let token = &received.message["params"]["_meta"]["progressToken"];
            let params = json!({ "progressToken": token, "progress": 1, "total": 2, "message": PAINTED });
            output.send(&compliant::notification("notifications/progress", &params))?;
            let params = json!({ "level": "error", "logger": PAINTED, "data": PAINTED });
            output.send(&compliant::notification("notifications/message", &params))?;
            output.send(&compliant::answered(received.id(), &compliant::text(PAINTED)))?;
        }
        _ => return output.answer(SupportedEras::Both, received),
    }
    Ok(Flow::Continue)
}
