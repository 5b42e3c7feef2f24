//! Files that a server's entry names and that change while the host runs: the next process may run another program.

use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolway_config::{Config, document::Document};
use toolway_host::{
    call::{CallRequest, Caller},
    connection::{Phase, StopReason, WantedServer},
    keeper::KeeperHandle,
    policy::{ApprovalAnswer, MemoryBaselines, Surface},
    record::CallState,
};
use toolway_testkit::test_host::{TestHost, name};

/// A server with one tool that says what its program is.
const PROGRAM: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": [{"name": "look", "description": "Looks", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]},
        "tools/call": {"content": [{"type": "text", "text": "first"}]},
    }.get(message["method"])
    if not result:
        answer = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "unknown"}}
    else:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    print(json.dumps(answer), flush=True)
"#;

/// A folder with the program in `server.py`, and a host whose server stops when it is idle and starts with the next call.
async fn started(arguments: &[&str]) -> (TempDir, TestHost) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("server.py"), PROGRAM).unwrap();
    let at = |text: &&str| text.replace("HERE", folder.path().to_str().unwrap());
    let arguments: Vec<String> = arguments.iter().map(at).collect();
    let entry = json!({ "command": "python3", "args": arguments, "lazy": true, "idleStop": "100ms" });
    let text = json!({ "mcpServers": { "shop": entry } }).to_string();
    let config = Config::of(&Document::of("/x/toolway.json".as_ref(), &text).unwrap(), None).unwrap();
    let mut builder = TestHost::new().wanted(WantedServer::configured(&config, &config.servers[&name("shop")]));
    builder.options.keeper = KeeperHandle::disabled();
    let host = builder.start().await;
    host.answering(ApprovalAnswer::approved("test"));
    (folder, host)
}

/// A host with this entry, and the definitions that hosts before it have seen.
async fn host_of(entry: &Value, baselines: &Arc<MemoryBaselines>) -> TestHost {
    let text = json!({ "mcpServers": { "shop": entry } }).to_string();
    let config = Config::of(&Document::of("/x/toolway.json".as_ref(), &text).unwrap(), None).unwrap();
    let mut builder = TestHost::new().wanted(WantedServer::configured(&config, &config.servers[&name("shop")]));
    builder.options.keeper = KeeperHandle::disabled();
    builder.ports.baselines = Arc::clone(baselines) as _;
    let host = builder.start().await;
    host.answering(ApprovalAnswer::approved("test"));
    host.ready("shop").await;
    host
}

async fn look(host: &TestHost) -> String {
    let request = CallRequest::tool(Caller::Agent("a".into()), "shop__look".parse().unwrap(), None);
    let outcome = host.call_of(CallRequest { surface: Surface::Chat, ..request }).await;
    assert_eq!(outcome.state(), CallState::Succeeded, "{outcome}");
    outcome.result().unwrap().to_string()
}

async fn stopped(host: &TestHost) {
    host.until("shop", |phase| *phase == Phase::Stopped(StopReason::Idle)).await;
}

#[tokio::test]
async fn a_program_that_changes_before_its_next_start_is_asked_about_before_the_first_call() {
    for arguments in [
        &["HERE/server.py"][..],
        // As with `uv --directory DIR run server.py`.
        &["-c", "import os, sys; os.chdir(sys.argv[1]); exec(open(sys.argv[2]).read())", "HERE", "server.py"],
        &["-c", "import sys; exec(open(sys.argv[1].split('=')[1]).read())", "--program=HERE/server.py"],
    ] {
        let (folder, host) = started(arguments).await;
        assert!(look(&host).await.contains("first"));
        stopped(&host).await;
        look(&host).await;
        assert!(host.asked().is_empty(), "an unchanged start: {:?}", host.reasons());
        stopped(&host).await;
        let file = folder.path().join("server.py");
        std::fs::write(&file, PROGRAM.replace("\"first\"", "\"other\"")).unwrap();
        assert!(look(&host).await.contains("other"));
        let reasons = host.reasons();
        assert!(reasons.len() == 1 && reasons[0].contains("server: content of "), "{arguments:?}: {reasons:?}");
        stopped(&host).await;
        look(&host).await;
        assert_eq!(host.asked().len(), 1, "what was approved is the baseline");
    }
}

#[tokio::test]
async fn an_approval_for_another_reason_does_not_accept_a_program_that_changed_meanwhile() {
    let (folder, host) = started(&["HERE/server.py"]).await;
    let ask = CallRequest::tool(Caller::Agent("a".into()), "shop__look".parse().unwrap(), None);
    let ask = CallRequest { surface: Surface::Chat, mode: Some(toolway_config::PolicyMode::Ask), ..ask };
    assert_eq!(host.call_of(ask.clone()).await.state(), CallState::Succeeded);
    stopped(&host).await;
    std::fs::write(folder.path().join("server.py"), PROGRAM.replace("\"first\"", "\"other\"")).unwrap();
    assert_eq!(host.call_of(ask).await.state(), CallState::Succeeded);
    // The call was approved before the changed program was started, and once more with the difference.
    let reasons = host.reasons();
    let about_file = reasons.iter().filter(|reason| reason.contains("server: content of ")).count();
    assert!(about_file == 1 && host.asked().len() == 3, "{reasons:?}");
}

#[tokio::test]
async fn each_kind_of_change_of_an_entry_is_asked_about_once_and_an_unchanged_one_never() {
    let folder = tempfile::tempdir().unwrap();
    let path = |file: &str| folder.path().join(file).display().to_string();
    std::fs::create_dir(path("sub")).unwrap();
    for file in ["server.py", "other.py"] {
        std::fs::write(path(file), PROGRAM).unwrap();
    }
    let entry = |members: &Value| {
        let mut entry =
            json!({ "command": "python3", "args": [path("server.py")], "env": { "MODE": "mild" }, "cwd": path("") });
        members.as_object().unwrap().iter().for_each(|(key, value)| entry[key] = value.clone());
        entry
    };
    for (members, shown) in [
        (
            json!({ "command": "env", "args": ["python3", path("server.py")] }),
            r#"server: command: was "python3", is now "env""#,
        ),
        (json!({ "args": [path("other.py")] }), "server: args: was "),
        (json!({ "args": [path("server.py"), "--wild"] }), r#"server: args 2: added "--wild""#),
        (json!({ "args": ["-I", path("server.py")] }), "server: args: was "),
        (json!({ "env": { "MODE": "wild" } }), "server: "),
        (json!({ "env": { "MODE": "mild", "PYTHONSTARTUP": path("other.py") } }), "PYTHONSTARTUP"),
        (json!({ "env": {} }), "MODE"),
        (json!({ "cwd": path("sub") }), "server: cwd: was "),
    ] {
        let baselines = Arc::default();
        let before = entry(&json!({}));
        for _ in 0..2 {
            let host = host_of(&before, &baselines).await;
            look(&host).await;
            assert!(host.asked().is_empty(), "an unchanged entry: {:?}", host.reasons());
        }
        let after = entry(&members);
        let host = host_of(&after, &baselines).await;
        look(&host).await;
        let reasons = host.reasons();
        assert!(reasons.len() == 1 && reasons[0].contains(shown), "{members}: {reasons:?}");
        let host = host_of(&after, &baselines).await;
        look(&host).await;
        assert!(host.asked().is_empty(), "what was approved is the baseline: {:?}", host.reasons());
    }
}
