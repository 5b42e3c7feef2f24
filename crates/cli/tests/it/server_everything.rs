//! The public reference server `server-everything`.

use std::{
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::home::{Home, root};

const SERVER: &str = "mcp-server-everything stdio";

fn home() -> Home {
    let server = root().join(".interop/node_modules/.bin/mcp-server-everything");
    assert!(server.exists(), "{} is missing: run ./test, which installs it", server.display());
    Home::new()
}

#[test]
fn tools_are_listed_and_called() {
    let home = home();
    let tools = home.run(&["tools", "--stdio", SERVER, "-o", "human"]);
    assert!(tools.ok().contains("get-sum(a: number, b: number)"), "{tools:?}");
    let sum = home.run(&["call", "--stdio", SERVER, "get-sum", "a=2", "b=3", "-o", "human"]);
    assert_eq!(sum.ok(), "The sum of 2 and 3 is 5.\n");
    let image = home.run(&["call", "--stdio", SERVER, "get-tiny-image", "-o", "human"]);
    assert!(image.ok().contains("[image: image/png, "), "{image:?}");
    let error = home.run(&["call", "--stdio", SERVER, "get-sun", "a=2"]).failed(2, "unknown_tool");
    assert_eq!(error["message"], "the server has no tool `get-sun`; did you mean `get-sum`?");
}

#[test]
fn tools_for_clients_that_answer_are_marked() {
    let home = home();
    let script = home.write("every.sh", "echo >> starts\nexec mcp-server-everything stdio\n");
    let every = json!({ "command": "sh", "args": [script], "cwd": script.parent() });
    home.configure(&json!({ "mcpServers": { "every": every } }).to_string());
    let starts = || std::fs::read_to_string(script.with_file_name("starts")).unwrap().lines().count();
    let needs = |listed: &Value, name: &str| {
        let tools = listed["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["_meta"]["toolway/origin"]["name"] == name);
        tool.unwrap()["_meta"]["toolway/needs"].clone()
    };
    // The second time without another start.
    for started in [2, 3] {
        let listed = home.run(&["tools", "-o", "json"]).json();
        assert_eq!(starts(), started);
        assert_eq!(needs(&listed, "trigger-elicitation-request"), "user");
        assert_eq!(needs(&listed, "echo"), Value::Null);
    }
    let shown = home.run(&["tools", "every", "-o", "human"]);
    let line = shown.ok().lines().find(|line| line.starts_with("trigger-elicitation-request")).unwrap();
    assert_eq!(line, "trigger-elicitation-request()  (needs a user who answers)");
}

#[test]
fn progress_is_printed() {
    let words = ["call", "--stdio", SERVER, "trigger-long-running-operation", "duration=1", "steps=2", "-o", "ndjson"];
    let ran = home().run(&words);
    let lines: Vec<Value> = ran.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let progress: Vec<&Value> =
        lines.iter().filter(|line| line["method"] == "notifications/progress").map(|line| &line["params"]).collect();
    assert_eq!(progress.len(), 2, "{ran:?}");
    assert_eq!(progress[1]["total"], 2);
    assert!(lines.last().unwrap()["content"][0]["text"].as_str().unwrap().contains("Duration: 1 seconds"), "{ran:?}");
}

#[test]
fn resources_prompts_and_completions_work() {
    let home = home();
    let resources = home.run(&["resources", "--stdio", SERVER]).json();
    let uri = resources["resources"][0]["uri"].as_str().unwrap().to_owned();
    let read = home.run(&["resources", "read", "--stdio", SERVER, &uri]).json();
    assert_eq!(read["contents"][0]["uri"], uri);
    let prompt = home.run(&["prompts", "get", "--stdio", SERVER, "args-prompt", "city=Rome", "-o", "raw"]);
    assert!(prompt.ok().contains("Rome"), "{prompt:?}");
    let words = ["complete", "--stdio", SERVER, "--prompt", "completable-prompt", "department=E", "-o", "raw"];
    assert_eq!(home.run(&words).ok(), "Engineering\n");
    assert_eq!(home.run(&["ping", "--stdio", SERVER, "-o", "raw"]).ok(), "2025-11-25\n");
}

/// The server process; killed on drop.
struct ServerProcess(Child);

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

#[test]
fn http_transport_works() {
    let home = home();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let bin = root().join(".interop/node_modules/.bin");
    let node = std::process::Command::new(bin.join("mcp-server-everything"))
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .env("PATH", std::env::join_paths([bin.as_path(), "/usr/bin".as_ref(), "/bin".as_ref()]).unwrap())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _served = ServerProcess(node);
    for _ in 0..200 {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    let url = format!("http://127.0.0.1:{port}/mcp");
    let said = home.run(&["call", "--url", &url, "echo", "message=over HTTP", "-o", "human"]);
    assert_eq!(said.ok(), "Echo: over HTTP\n");
}
