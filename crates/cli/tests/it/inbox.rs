//! The inbox of a running gateway, over its private socket.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    gateway::{Answer, Serving},
    home::{Home, TOOLWAY},
};

/// Longest wait for an item.
const PATIENCE: Duration = Duration::from_secs(60);

/// A home whose gateway asks before each call of a tool.
fn home() -> Home {
    let home = Home::new();
    let config = json!({
        "mcpServers": { "shop": { "command": TOOLWAY, "args": ["sample"] } },
        "policy": { "rules": [{ "match": { "server": "shop" }, "then": "ask", "reason": "money is involved" }] },
    });
    home.configure(&config.to_string());
    home
}

/// Calls `add` through the gateway; the response is read by the returned thread.
fn call(serving: &Serving) -> thread::JoinHandle<Answer> {
    let stream = serving.call("tools/call", json!({ "name": "shop__add", "arguments": { "a": 2, "b": 3 } }));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    thread::spawn(move || Answer::of(stream))
}

/// Waits until this many items wait; returns them.
fn waiting(home: &Home, count: usize) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let items = home.run(&["inbox", "list", "-o", "json"]).json();
        if items.as_array().unwrap().len() == count {
            return items.as_array().unwrap().clone();
        }
        assert!(began.elapsed() < PATIENCE, "{items}");
    }
}

fn id(item: &Value) -> &str {
    item["id"].as_str().unwrap()
}

#[test]
fn a_call_of_a_client_waits_for_an_approval_over_the_socket() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "shop", "ready");
    let called = call(&serving);
    let items = waiting(&home, 1);
    let item = &items[0];
    assert_eq!((&item["kind"], &item["server"]), (&json!("approval"), &json!("shop")), "{item}");
    assert!(item["caller"].as_str().unwrap().starts_with("client"), "{item}");
    assert!(item["callId"].is_string() && item["expiresAt"].as_str().unwrap().ends_with('Z'), "{item}");
    assert_eq!(item["approval"]["rows"][0], json!({ "label": "a", "value": "2", "important": false }), "{item}");
    assert_eq!((&item["approval"]["line"], &item["approval"]["reason"]), (&json!(1), &json!("money is involved")));
    let shown = home.run(&["inbox", "show", id(item), "-o", "human"]);
    assert!(shown.ok().contains("  b: 3") && shown.ok().contains("toolway.json:1: money is involved"), "{shown:?}");

    assert_eq!(home.run(&["inbox", "answer", id(item), "-o", "human"]).ok(), "Approved once.\n");
    assert!(called.join().unwrap().body.contains("\"sum\":5"));
    let record = home.run(&["calls", "show", item["callId"].as_str().unwrap(), "-o", "json"]).json();
    assert_eq!((&record["approvedBy"], &record["state"]), (&json!("inbox"), &json!("succeeded")), "{record}");
    let error = home.run(&["inbox", "answer", id(item)]).failed(2, "not_waiting");
    assert!(error["message"].as_str().unwrap().contains("answered elsewhere"), "{error}");
}

#[test]
fn a_declined_call_is_refused_with_the_reason_and_never_is_saved() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "shop", "ready");
    let called = call(&serving);
    let item = &waiting(&home, 1)[0];
    home.run(&["inbox", "decline", id(item), "--reason", "not today"]).ok();
    assert!(called.join().unwrap().body.contains("not today"));

    let called = call(&serving);
    let item = &waiting(&home, 1)[0];
    home.run(&["inbox", "decline", id(item), "--never"]).ok();
    called.join().unwrap();
    let refused = call(&serving).join().unwrap();
    assert!(refused.body.contains("denied"), "{refused:?}");
    assert_eq!(home.run(&["trust", "list", "-o", "json"]).json()[0]["effect"], json!("deny"));
}

#[test]
fn a_waiting_item_blocks_only_its_own_call_and_follow_prints_each() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "shop", "ready");
    let mut following = home.command(&["inbox", "follow", "-o", "ndjson"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let first = call(&serving);
    let item = next();
    let second = call(&serving);
    let other = next();
    assert_ne!(id(&item), id(&other));
    home.run(&["inbox", "answer", id(&other)]).ok();
    assert!(second.join().unwrap().body.contains("\"sum\":5"));
    assert_eq!(waiting(&home, 1)[0]["id"], item["id"]);
    home.run(&["inbox", "answer", id(&item), "--for", "always"]).ok();
    assert!(first.join().unwrap().body.contains("\"sum\":5"));
    assert!(call(&serving).join().unwrap().body.contains("\"sum\":5"), "it is approved for later calls");
    following.kill().unwrap();
    following.wait().unwrap();
}

#[test]
fn a_server_cannot_use_the_inbox_of_its_own_gateway() {
    let home = home();
    // The server approves whatever waits, then says so in a file.
    let said = home.path("said");
    let (program, file) = (TOOLWAY, said.display());
    let script = format!("{program} inbox list >{file}.part 2>&1; mv {file}.part {file}; exec {program} sample\n");
    let script = home.write("server.sh", &script);
    let config = json!({ "mcpServers": { "shop": {
        "command": "sh", "args": [script], "env": { "HOME": home.path(""), "TOOLWAY_OUTPUT": "json" } } } });
    home.configure(&config.to_string());
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "shop", "ready");
    let said = std::fs::read_to_string(said).unwrap();
    assert!(said.contains("servers of this gateway and their processes cannot use its inbox"), "{said}");
    assert_eq!(waiting(&home, 0), Vec::<Value>::new(), "the user can");
}

#[test]
fn the_inbox_needs_a_running_gateway() {
    let home = home();
    for words in [&["inbox", "list"][..], &["inbox", "answer", "x"], &["inbox", "decline", "x"]] {
        home.run(words).failed(2, "no_gateway");
    }
}
