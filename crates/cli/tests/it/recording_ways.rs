//! Every way to a server has a record and an audit event.
//!
//! A server whose input is copied to a file shows which requests reach it. Each of them belongs to a recorded call, or
//! stands in [`UNRECORDED`] with the reason.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::{home::Home, stdio_client::StdioClient};

/// Requests that reach a server and are not recorded as calls, and why.
const UNRECORDED: &[(&str, &str)] = &[
    ("initialize", "part of connecting, which is a `connection` event"),
    ("server/discover", "part of connecting, which is a `connection` event"),
    ("tools/list", "sent by the connection itself; clients are answered from the catalog"),
    ("prompts/list", "sent by the connection itself; clients are answered from the catalog"),
    ("resources/list", "sent by the connection itself; clients are answered from the catalog"),
    ("resources/templates/list", "sent by the connection itself; clients are answered from the catalog"),
    ("resources/unsubscribe", "the end of a recorded subscription"),
    (
        "subscriptions/listen",
        "list changes for the connection itself; of a resource: recorded as `resources/subscribe`",
    ),
    ("logging/setLevel", "sent by the connection itself; levels of clients are applied in the gateway"),
    ("tasks/result", "reads the result for a recorded `tasks/get`, or follows a recorded call"),
];

/// A home with the conformance server of this revision, which offers everything, and the file with its input.
fn home(revision: &str) -> Home {
    let home = Home::new();
    let here = std::env::current_exe().unwrap();
    let server = here.ancestors().nth(2).unwrap().join("conformance-server");
    assert!(server.exists(), "{} is missing: run ./test, which builds it", server.display());
    let (input, server) = (home.path("input"), server.display());
    let script = format!("tee -a {} | {server} --era {revision} --stdio", input.display());
    let all = json!({ "command": "sh", "args": ["-c", script], "methods": ["*"] });
    home.configure(&json!({ "mcpServers": { "all": all } }).to_string());
    home
}

/// How many requests of each method reached the server.
fn requests(home: &Home) -> BTreeMap<String, usize> {
    let mut methods = BTreeMap::new();
    for line in std::fs::read_to_string(home.path("input")).unwrap().lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        if !message["id"].is_null()
            && let Some(method) = message["method"].as_str()
        {
            *methods.entry(method.to_owned()).or_default() += 1;
        }
    }
    methods
}

/// How many calls of each method were recorded as sent.
fn records(database: &Connection) -> BTreeMap<String, usize> {
    let sql = "SELECT CASE kind WHEN 'tool' THEN 'tools/call' WHEN 'prompt' THEN 'prompts/get' \
               WHEN 'resource' THEN 'resources/read' ELSE name END, count(*) FROM calls GROUP BY 1";
    let mut statement = database.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.try_into().unwrap()))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Uses every method that the gateway offers to clients.
fn use_gateway(home: &Home) {
    let mut client = StdioClient::start(home);
    let mut ask = |method: &str, params: Value| {
        let response = client.request(method, params);
        assert!(response["result"].is_object(), "{method}: {response}");
        response["result"].clone()
    };
    ask("tools/list", json!({}));
    ask("prompts/list", json!({}));
    ask("resources/templates/list", json!({}));
    let resources = ask("resources/list", json!({}));
    let uri = resources["resources"][0]["uri"].clone();
    ask("tools/call", json!({ "name": "all__test_simple_text" }));
    ask("prompts/get", json!({ "name": "all__test_simple_prompt" }));
    ask("resources/read", json!({ "uri": uri }));
    let about = json!({ "type": "ref/prompt", "name": "all__test_prompt_with_arguments" });
    ask("completion/complete", json!({ "ref": about, "argument": { "name": "arg1", "value": "a" } }));
    ask("resources/subscribe", json!({ "uri": uri }));
    ask("resources/unsubscribe", json!({ "uri": uri }));
    ask("logging/setLevel", json!({ "level": "debug" }));
    ask("ping", json!({}));
    let slow = json!({ "name": "all__slow_compute", "arguments": { "seconds": 600 }, "task": {} });
    let task = ask("tools/call", slow)["task"]["taskId"].clone();
    ask("tasks/get", json!({ "taskId": task }));
    ask("tasks/list", json!({}));
    ask("tasks/cancel", json!({ "taskId": task }));
    let short = json!({ "name": "all__slow_compute", "arguments": { "seconds": 0 }, "task": {} });
    let task = ask("tools/call", short)["task"]["taskId"].clone();
    ask("tasks/result", json!({ "taskId": task }));
    client.leave();
}

/// Uses every command that reaches a server.
fn use_commands(home: &Home) {
    for words in [
        &["tools", "all"][..],
        &["call", "all.test_simple_text"],
        &["resources", "read", "all", "test://static-text"],
        &["prompts", "get", "all", "test_simple_prompt"],
        &["complete", "all", "--prompt", "test_prompt_with_arguments", "arg1=a"],
        &["ping", "all"],
        &["rpc", "all", "tools/list"],
        &["rpc", "all", "tools/call", r#"{"name":"test_simple_text"}"#],
    ] {
        home.run(words).ok();
    }
}

#[test]
fn every_request_that_reaches_a_server_is_recorded_or_says_why_not() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let home = home(revision);
        use_gateway(&home);
        use_commands(&home);
        let (requests, database) = (requests(&home), Connection::open(home.path(".local/state/toolway/toolway.db")));
        let database = database.unwrap();
        let records = records(&database);
        for (method, count) in &requests {
            // The gateway follows the tasks of a server of this era itself, under the record of their call.
            let is_followed = revision == "2026-07-28" && ["tasks/get", "tasks/cancel"].contains(&method.as_str());
            if !is_followed && !UNRECORDED.iter().any(|(known, _)| known == method) {
                let recorded = records.get(method).copied().unwrap_or_default();
                // A task that is followed is read often, under one record.
                let needed = if method == "tasks/get" { 1 } else { *count };
                assert!(needed <= recorded, "{revision} {method}: {count} sent, {recorded} recorded\n{records:?}");
            }
        }
        for method in ["tools/call", "prompts/get", "resources/read"] {
            assert!(requests[method] >= 2, "{revision} {method}: {requests:?}");
        }
        for method in ["completion/complete", "resources/subscribe", "ping"] {
            assert!(records.contains_key(method), "{revision} {method}: {records:?}");
        }
        if revision == "2025-11-25" {
            for method in ["tasks/get", "tasks/cancel", "tasks/list"] {
                assert!(records.contains_key(method), "{method}: {records:?}");
            }
        }
        let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        let open = count("SELECT count(*) FROM calls WHERE state IN ('pending', 'running')");
        let without = "SELECT count(*) FROM calls WHERE id NOT IN (SELECT call FROM audit WHERE kind = 'call')";
        assert_eq!((open, count(without)), (0, 0), "{revision}: every call has ended and has an audit event");
        let ended =
            "SELECT group_concat(state) FROM (SELECT state FROM calls WHERE name = 'all__slow_compute' ORDER BY id)";
        let ended: String = database.query_row(ended, [], |row| row.get(0)).unwrap();
        assert_eq!(ended, "cancelled,succeeded", "{revision}: the call of a task ends as its task");
        let connected = "SELECT count(*) FROM audit WHERE kind = 'connection' AND details LIKE '%\"ready\"%'";
        assert!(count(connected) >= 2, "{revision}: connecting is an event");
    }
}

/// What happens beside calls is in the audit log, each under its kind.
#[test]
fn changes_are_in_the_audit_log() {
    let home = Home::with_sample();
    home.run(&["servers", "add", "extra", "--", "toolway", "sample"]).ok();
    home.run(&["clients", "add", "editor"]).ok();
    home.run(&["clients", "revoke", "editor"]).ok();
    home.run(&["call", "sample.echo", "text=hello"]).ok();
    let mut client = StdioClient::with_capabilities(&home, json!({ "elicitation": {} }));
    client.send("tools/call", json!({ "name": "old-sample__greet", "arguments": {} }));
    let asked = client.next_request();
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    client.respond(&asked["id"], json!({ "action": "accept", "content": { "name": "Ada" } }));
    client.next_response().unwrap();
    client.leave();
    let entries = home.run(&["audit", "export"]).ok().to_owned();
    let entries: Vec<Value> = entries.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let has = |kind: &str, pointer: &str, value: &str| {
        entries.iter().any(|entry| entry["kind"] == kind && entry.pointer(pointer) == Some(&json!(value)))
    };
    assert!(has("configuration", "/details/change", "added"), "{entries:?}");
    assert!(has("configuration", "/server", "extra"), "{entries:?}");
    assert!(has("key", "/details/change", "created") && has("key", "/details/change", "revoked"), "{entries:?}");
    assert!(has("key", "/subject", "editor"), "{entries:?}");
    assert!(has("connection", "/details/state", "ready") && has("connection", "/server", "sample"), "{entries:?}");
    assert!(has("call", "/subject", "sample__echo"), "{entries:?}");
    assert!(has("server-request", "/details/method", "elicitation/create"), "{entries:?}");
    assert!(has("server-request", "/details/answer", "accepted"), "{entries:?}");
    assert!(!entries.iter().any(|entry| entry.to_string().contains("tw_")), "no key is in the log");
    home.run(&["audit", "verify"]).ok();
}
