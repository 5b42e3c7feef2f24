//! Servers of `--stdio` and `--url`: one more server beside the configured ones, under the same settings and policy.

use serde_json::{Value, json};

use crate::home::{Home, Ran, sample};

/// A home whose configuration denies `echo`, records no bodies and has a store of its own.
fn strict_home(more: Value) -> Home {
    let home = Home::new();
    let mut config = json!({
        "policy": { "rules": [{ "match": { "server": "server", "tool": "echo" }, "then": "deny", "reason": "no echo" }] },
        "store": { "path": home.path("own.db"), "bodies": "none" },
    });
    config.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    home.configure(&config.to_string());
    home
}

fn stdio(home: &Home, words: &[&str]) -> Ran {
    home.run(&[words, &["--stdio", &sample()]].concat())
}

fn calls(home: &Home) -> Vec<Value> {
    home.run(&["calls", "list"]).json().as_array().unwrap().clone()
}

#[test]
fn call_obeys_policy_bodies_and_store_of_the_users_file() {
    let home = strict_home(json!({}));
    let refused = stdio(&home, &["call", "echo", "text=hi"]).failed(7, "denied");
    assert!(refused["message"].as_str().unwrap().contains("no echo"), "{refused}");
    stdio(&home, &["call", "add", "a=2", "b=3"]).ok();
    assert!(home.path("own.db").exists());
    assert!(!home.path(".local/state/toolway/toolway.db").exists(), "the default store is not used");
    let calls = calls(&home);
    assert_eq!(calls.iter().map(|call| &call["state"]).collect::<Vec<_>>(), ["succeeded", "refused"], "{calls:?}");
    let record = home.run(&["calls", "show", calls[0]["id"].as_str().unwrap()]).json();
    assert!(record["arguments"].is_null() && record["result"].is_null(), "bodies are `none`: {record}");
}

#[test]
fn every_command_with_a_server_obeys_the_same_file() {
    let home = strict_home(json!({}));
    let rpc = ["rpc", "tools/call", r#"{"name":"echo","arguments":{"text":"hi"}}"#];
    stdio(&home, &rpc).failed(7, "denied");
    stdio(&home, &["resources", "read", "memo://today"]).ok();
    stdio(&home, &["prompts", "get", "introduce", "name=Ada"]).ok();
    for words in [&["tools"][..], &["ping"], &["doctor"], &["status"], &["resources"], &["prompts"]] {
        stdio(&home, words).ok();
    }
    assert_eq!(calls(&home).len(), 4, "three calls and the ping, in the user's own store");
    assert!(!home.path(".local/state/toolway/toolway.db").exists(), "the default store is not used");
}

#[test]
fn an_invalid_file_is_an_error_with_options_too() {
    let home = Home::new();
    home.configure(r#"{ "policy": { "rules": [{ "then": "perhaps" }] } }"#);
    stdio(&home, &["call", "echo", "text=hi"]).failed(2, "config");
    let other =
        home.write("other.json", r#"{ "policy": { "rules": [{ "match": { "tool": "echo" }, "then": "deny" }] } }"#);
    stdio(&home, &["call", "echo", "text=hi", "--config", other.to_str().unwrap()]).failed(7, "denied");
}

#[test]
fn a_project_rule_applies_to_a_server_of_the_command_line() {
    let home = Home::new();
    home.folder("work/.git");
    home.write("work/toolway.json", r#"{ "policy": { "rules": [{ "match": { "tool": "echo" }, "then": "deny" }] } }"#);
    let mut command = home.command(&["call", "echo", "text=hi", "--stdio", &sample()]);
    Ran::of(&command.current_dir(home.path("work")).output().unwrap()).failed(7, "denied");
}

#[test]
fn run_gets_the_tools_of_the_server_of_the_command_line_too() {
    let turns = json!([
        { "calls": [{ "tool": "server__add", "arguments": { "a": 2, "b": 3 } }, { "tool": "server__echo", "arguments": { "text": "x" } }] },
        { "text": "Five." },
    ]);
    let home = strict_home(json!({}));
    home.write("script.json", &json!({ "turns": turns }).to_string());
    let result = stdio(&home, &["run", "--model", "scripted:script.json", "add"]).json();
    let states: Vec<&Value> = result["toolCalls"].as_array().unwrap().iter().map(|call| &call["state"]).collect();
    assert_eq!(states, ["succeeded", "refused"], "{result}");
    let home =
        strict_home(json!({ "mcpServers": { "server": { "command": "true" }, "other": { "command": "true" } } }));
    home.write("script.json", &json!({ "turns": [{ "text": "Done." }] }).to_string());
    let taken = stdio(&home, &["run", "--model", "scripted:script.json", "x"]).failed(2, "arguments");
    assert!(taken["message"].as_str().unwrap().contains("is named `server`"), "{taken}");
    let shown =
        stdio(&home, &["run", "--model", "scripted:script.json", "x", "--servers", "other", "--dry-run"]).json();
    assert!(shown["tools"].as_array().unwrap().contains(&json!("server__add")), "{shown}");
}

#[test]
fn chat_gets_the_tools_of_the_server_of_the_command_line_too() {
    let home = strict_home(json!({}));
    let turns = json!([
        { "calls": [{ "tool": "server__add", "arguments": { "a": 2, "b": 3 } }] },
        { "expect": [{ "error": false }], "text": "Five." },
    ]);
    home.write("script.json", &json!({ "turns": turns }).to_string());
    let words = ["chat", "--model", "scripted:script.json", "--stdio", &sample()];
    let said = home.run_with(&words, &[("TOOLWAY_OUTPUT", "human")], "add\n");
    assert!(said.ok().contains("Five."), "{said:?}");
    assert_eq!(calls(&home)[0]["state"], "succeeded");
}
