//! A server that offers a tool only to clients that answer forms: the lists are the same with and without a terminal, and a
//! scripted call says what it needs.

use std::time::Duration;

use serde_json::json;

use crate::{home::Home, terminal::Terminal};

/// A server of 2025-11-25 with the tool `plain`, and `asking` for clients with the capability `elicitation`.
const SERVER: &str = r#"
import json, sys
forms = False
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, result = message["method"], None
    if method == "initialize":
        forms = "elicitation" in message["params"]["capabilities"]
        info = {"name": "shy", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        names = ["plain"] + (["asking"] if forms else [])
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": "with forms" if forms else "alone"}]}
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    answer.update({"result": result} if result else {"error": {"code": -32601, "message": "unknown"}})
    print(json.dumps(answer), flush=True)
"#;

fn home() -> Home {
    let home = Home::new();
    let script = home.write("server.py", SERVER);
    let entry = json!({ "command": "python3", "args": [script], "era": "legacy" });
    home.configure(&json!({ "mcpServers": { "shy": entry } }).to_string());
    home
}

#[test]
fn list_is_the_same_in_a_pipe_and_at_a_terminal() {
    let home = home();
    for words in [&["tools", "shy"][..], &["tools"]] {
        let piped = home.run(&[words, &["-o", "human"]].concat());
        assert!(piped.ok().contains("plain") && piped.out.contains("asking"), "{words:?}: {}", piped.out);
        let (status, shown) = Terminal::start(home.command(words)).end(Duration::from_secs(30));
        assert!(status.success() && shown.contains("plain") && shown.contains("asking"), "{words:?}: {shown}");
    }
}

#[test]
fn scripted_call_of_such_a_tool_says_what_it_needs() {
    let home = home();
    let refused = home.run(&["call", "shy.asking"]).failed(6, "input_required");
    assert!(refused["message"].as_str().unwrap().contains("needs a user who answers"), "{refused}");
    assert_eq!(home.run(&["call", "shy.asking", "--decline", "-o", "raw"]).ok().trim(), "with forms");
    // A server that knows that no user is there can do without one.
    assert_eq!(home.run(&["call", "shy.plain", "-o", "raw"]).ok().trim(), "alone");
    home.run(&["call", "shy.missing"]).failed(2, "unknown_tool");
}
