//! Keys over their life: created, used, changed, rotated, restricted to monitoring.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    gateway::{Answer, Serving},
    home::{Home, Ran},
};

fn add(home: &Home, words: &[&str]) -> String {
    let added = home.run(&[&["clients", "add"], words].concat()).json();
    added["key"].as_str().unwrap().to_owned()
}

fn list(home: &Home) -> Value {
    home.run(&["clients", "list"]).json()["clients"].clone()
}

fn tools(serving: &Serving, key: &str) -> Answer {
    Answer::of(serving.call_as(key, "tools/list", json!({})))
}

#[test]
fn list_has_creation_last_use_and_expiry() {
    let home = Home::new();
    let key = add(&home, &["editor", "--expires", "12h"]);
    let serving = Serving::start(&home, &[]);
    let before = list(&home)[0].clone();
    assert!(before["created"].as_str().unwrap().ends_with('Z') && before["expires"].is_string(), "{before}");
    assert!(before["lastUsed"].is_null(), "{before}");
    assert_eq!(tools(&serving, &key).status, 200);
    assert!(list(&home)[0]["lastUsed"].is_string(), "{}", list(&home));
    let shown = Ran::of(&home.command(&["clients", "list", "-o", "human"]).output().unwrap());
    assert_eq!(
        shown.ok(),
        "CLIENT  CAN USE      CREATED   LAST USED  EXPIRES\neditor  all servers  just now  just now   in 12 h\n"
    );
    serving.stop();
}

#[test]
fn rotated_key_works_beside_the_one_before_until_the_overlap_ends() {
    let home = Home::new();
    let first = add(&home, &["editor"]);
    let serving = Serving::start(&home, &[]);
    let rotated = home.run(&["clients", "rotate", "editor", "--overlap", "1h"]).json();
    let second = rotated["key"].as_str().unwrap().to_owned();
    assert_eq!((tools(&serving, &first).status, tools(&serving, &second).status), (200, 200));
    assert!(list(&home)[0]["previous"]["lastUsed"].is_string(), "{}", list(&home));

    let third = home.run(&["clients", "rotate", "editor"]).json();
    let third = third["key"].as_str().unwrap();
    assert_eq!((tools(&serving, &first).status, tools(&serving, &second).status), (401, 401));
    assert_eq!(tools(&serving, third).status, 200);
    assert!(list(&home)[0]["previous"].is_null());
    home.run(&["clients", "rotate", "missing"]).failed(2, "clients");
    serving.stop();
}

#[test]
fn key_before_a_rotation_is_refused_once_its_overlap_is_over() {
    let home = Home::new();
    let first = add(&home, &["editor"]);
    let serving = Serving::start(&home, &[]);
    let second =
        home.run(&["clients", "rotate", "editor", "--overlap", "1s"]).json()["key"].as_str().unwrap().to_owned();
    let end = Instant::now() + Duration::from_secs(20);
    while tools(&serving, &first).status != 401 {
        assert!(Instant::now() < end, "the key before is still accepted");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(tools(&serving, &second).status, 200);
    serving.stop();
}

#[test]
fn tools_of_a_key_can_be_changed_while_the_gateway_runs() {
    let home = Home::with_sample();
    let key = add(&home, &["editor", "--tools", "sample.echo,*.add*"]);
    let serving = Serving::start(&home, &[]);
    serving.settled(&key, "sample", "ready");
    serving.settled(&key, "old-sample", "ready");
    let call = |name: &str| {
        let answer =
            Answer::of(serving.call_as(&key, "tools/call", json!({ "name": name, "arguments": { "text": "x" } })));
        answer.json()["error"]["message"].as_str().map(str::to_owned)
    };
    assert_eq!(call("sample__echo"), None);
    assert!(call("old-sample__echo").is_some());
    let refused = call("old-sample__ech").unwrap();
    assert!(!refused.contains("old-sample__echo"), "a hidden tool is not suggested: {refused}");
    let names = |answer: Answer| {
        let tools = answer.json()["result"]["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let listed = names(tools(&serving, &key));
    assert!(listed.iter().all(|name| name == "sample__echo" || name.contains("__add")), "{listed:?}");
    assert_eq!(list(&home)[0]["tools"], json!(["sample.echo", "*.add*"]));
    home.run(&["clients", "update", "editor", "--tools", "old-sample.*"]).ok();
    assert_eq!(call("old-sample__echo"), None);
    assert!(call("sample__echo").is_some());
    home.run(&["clients", "update", "editor", "--all-tools", "--expires", "90d"]).ok();
    assert_eq!(call("sample__echo"), None);
    assert!(list(&home)[0]["expires"].is_string());
    assert_eq!(home.run(&["clients", "update", "editor", "--tools", "echo"]).code, 2);
    serving.stop();
}

#[test]
fn servers_of_a_key_can_be_changed() {
    let home = Home::with_sample();
    let key = add(&home, &["editor"]);
    let serving = Serving::start(&home, &[]);
    serving.settled(&key, "sample", "ready");
    let names = || {
        let servers = serving.get("/servers", &key).json();
        servers["servers"].as_array().unwrap().iter().map(|server| server["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names().len(), 2);
    home.run(&["clients", "update", "editor", "--servers", "sample"]).ok();
    assert_eq!(names(), ["sample"]);
    home.run(&["clients", "update", "editor", "--all-servers"]).ok();
    assert_eq!(names().len(), 2);
    assert_eq!(home.run(&["clients", "update", "editor"]).code, 2);
    serving.stop();
}

#[test]
fn key_for_metrics_reads_nothing_else() {
    let home = Home::new();
    let key = add(&home, &["prometheus", "--scope", "metrics"]);
    let serving = Serving::start(&home, &["--log", "json"]);
    for (path, status) in [("/metrics", 200), ("/health", 200), ("/servers", 403)] {
        assert_eq!(serving.get(path, &key).status, status, "{path}");
    }
    assert_ne!(serving.get("/ready", &key).status, 403);
    assert_eq!(tools(&serving, &key).status, 403);
    assert_eq!(list(&home)[0]["scope"], "metrics");
    for (path, status) in [("/health", 200), ("/ready", 401), ("/metrics", 401), ("/mcp", 401)] {
        assert_eq!(serving.get(path, "").status, status, "{path} without a key");
    }
    let talk = serving.stop();
    assert!(talk.contains("this key opens `/metrics`, `/ready` and `/health` only"), "{talk}");
}

#[test]
fn doctor_shows_the_processes_of_the_running_gateway_with_their_callers_until_they_share_one() {
    let home = Home::with_sample();
    let keys = [add(&home, &["ada"]), add(&home, &["bob"]), add(&home, &["eve"])];
    let serving = Serving::start(&home, &[]);
    serving.settled(&keys[0], "old-sample", "ready");
    let call_all = || {
        for key in &keys {
            let call = json!({ "name": "old-sample__echo", "arguments": { "text": "x" } });
            assert_eq!(Answer::of(serving.call_as(key, "tools/call", call)).status, 200);
        }
        let doctor = home.run(&["doctor", "old-sample"]).json();
        assert_eq!(doctor["processes"][0]["server"], "old-sample", "{doctor}");
        doctor["processes"][0].clone()
    };
    let found = call_all();
    let processes = found["processes"].as_array().unwrap();
    assert!(processes.iter().all(|one| one["bytes"].as_u64().unwrap() > 0), "{found}");
    assert!(processes.iter().any(|one| one["caller"].as_str().is_some_and(|caller| caller.contains("bob"))), "{found}");
    assert!(found["hint"].as_str().unwrap().contains("servers update old-sample --sharing shared"), "{found}");
    home.run(&["servers", "update", "old-sample", "--sharing", "shared"]).ok();
    serving.settled(&keys[0], "old-sample", "ready");
    let shared = call_all();
    assert_eq!((shared["processes"].as_array().unwrap().len(), &shared["hint"]), (1, &Value::Null), "{shared}");
    serving.stop();
}
