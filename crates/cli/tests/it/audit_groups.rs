//! Each group of the audit log has what really happens, and only that. Requests of servers for a model are in `sampling.rs`.

use serde_json::Value;

use crate::{home::Home, sign_in_fixture::SignInFixture};

/// The entries of a group, newest first.
fn group(home: &Home, name: &str) -> Vec<Value> {
    let entries = home.run(&["audit", "query", "--group", name, "-o", "json"]).json();
    let entries = entries.as_array().unwrap().clone();
    assert!(entries.iter().all(|entry| entry["group"] == name), "{entries:#?}");
    entries
}

fn subjects(entries: &[Value]) -> Vec<&str> {
    entries.iter().filter_map(|entry| entry["subject"].as_str()).collect()
}

#[test]
fn calls_of_tools_are_tool_call_however_they_end() {
    let home = Home::with_sample();
    home.run(&["call", "sample.add", "a=1", "b=2"]).ok();
    home.run(&["call", "sample.fail"]).failed(5, "tool_error");
    let entries = group(&home, "tool_call");
    assert_eq!(subjects(&entries), ["sample__fail", "sample__add"]);
    assert_eq!(entries[0]["details"]["state"], "tool-error");
    for other in ["prompt_invocation", "resource_access", "sampling_request", "auth_event"] {
        assert_eq!(group(&home, other), Vec::<Value>::new(), "{other}");
    }
}

#[test]
fn prompts_are_prompt_invocation() {
    let home = Home::with_sample();
    home.run(&["prompts", "get", "sample.introduce", "name=Ada"]).ok();
    let entries = group(&home, "prompt_invocation");
    assert_eq!((entries.len(), &entries[0]["server"]), (1, &"sample".into()), "{entries:#?}");
    assert!(!entries[0].to_string().contains("Ada"), "no arguments in the audit log: {entries:#?}");
    assert_eq!(group(&home, "tool_call"), Vec::<Value>::new());
}

#[test]
fn reads_of_resources_are_resource_access() {
    let home = Home::with_sample();
    home.run(&["resources", "read", "memo://today", "--server", "sample"]).ok();
    let entries = group(&home, "resource_access");
    assert_eq!(subjects(&entries), ["memo://today"], "{entries:#?}");
    assert_eq!(group(&home, "tool_call"), Vec::<Value>::new());
}

#[test]
fn connections_that_are_made_and_that_fail_are_connection() {
    let home = Home::new();
    home.configure(
        r#"{ "mcpServers": { "sample": { "command": "toolway", "args": ["sample"] }, "gone": { "command": "no-such-program" } } }"#,
    );
    home.run(&["call", "sample.add", "a=1", "b=2"]).ok();
    assert_ne!(home.run(&["call", "gone.add"]).code, 0);
    let entries = group(&home, "connection");
    for (server, state) in [("sample", "ready"), ("gone", "failed")] {
        let of_server = |entry: &&Value| entry["server"] == server && entry["details"].to_string().contains(state);
        assert!(entries.iter().any(|entry| of_server(&entry)), "{server} {state}: {entries:#?}");
    }
}

#[test]
fn sign_ins_and_keys_are_auth_event() {
    let fixture = SignInFixture::new();
    fixture.sign_in("ada", &[]);
    fixture.home.run(&["clients", "add", "editor"]).ok();
    fixture.home.run(&["clients", "revoke", "editor"]).ok();
    fixture.home.run(&["logout", "api"]).ok();
    let entries = group(&fixture.home, "auth_event");
    let kinds: Vec<_> = entries.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    // A sign-in without a terminal is started by one command and finished by another.
    assert_eq!(kinds, ["sign-in", "key", "key", "sign-in", "sign-in"], "{entries:#?}");
    assert_eq!(entries[3]["details"]["change"], "signed in", "{entries:#?}");
}

#[test]
fn until_ends_a_query_and_refuses_what_is_no_time() {
    let home = Home::with_sample();
    home.run(&["call", "sample.add", "a=1", "b=2"]).ok();
    let first = group(&home, "tool_call");
    let at = first[0]["at"].as_str().unwrap().to_owned();
    home.run(&["call", "sample.echo", "text=later"]).ok();
    let query = |words: &[&str]| {
        let words = [&["audit", "query", "--group", "tool_call", "-o", "json"], words].concat();
        home.run(&words).json().as_array().unwrap().clone()
    };
    // Times in JSON have milliseconds, entries microseconds.
    let [before, after] = [time_of(&at) - 1_000, time_of(&at) + 1_000].map(toolway_host::time::rfc3339);
    assert_eq!(subjects(&query(&["--until", &after])), ["sample__add"]);
    assert_eq!(query(&["--until", &before]), Vec::<Value>::new());
    assert_eq!(subjects(&query(&["--since", &after])), ["sample__echo"]);
    assert_eq!(query(&["--since", "1h"]).len(), 2);
    let error = home.run(&["audit", "query", "--until", "yesterday"]);
    assert_eq!(error.code, 2, "{error:?}");
}

fn time_of(at: &str) -> i64 {
    toolway_host::time::parse_rfc3339(at).unwrap()
}
