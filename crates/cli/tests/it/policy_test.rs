//! `policy test`: recorded calls, decided again with other rules.

use serde_json::json;

use crate::home::{Home, TOOLWAY};

const STRICTER: &str = r#"{"policy":{"rules":[
    {"match":{"tool":"echo","arguments":{"/text":"secret*"}},"then":"deny"},
    {"match":{"risk":"critical"},"then":"ask"}]}}"#;

#[test]
fn a_stricter_file_shows_the_calls_that_it_would_change() {
    let home = Home::with_sample();
    for words in
        [&["sample.echo", "text=hello"][..], &["sample.echo", "text=secret one"], &["sample.write_memo", "text=x"]]
    {
        home.run(&[&["call"], words].concat()).ok();
    }
    let same = home.run(&["policy", "test"]).json();
    assert_eq!((&same["calls"], &same["changed"]), (&json!(3), &json!(0)), "{same}");
    let file = home.write("stricter.json", STRICTER).display().to_string();
    let found = home.run(&["policy", "test", &file, "--since", "1h"]).json();
    assert_eq!((&found["calls"], &found["changed"]), (&json!(3), &json!(2)), "{found}");
    let changes: Vec<_> = found["changes"].as_array().unwrap().iter().collect();
    let of = |tool: &str| changes.iter().find(|change| change["tool"] == tool).unwrap();
    assert_eq!((&of("echo")["before"], &of("echo")["after"]), (&json!("allow"), &json!("deny")), "{found}");
    assert_eq!(
        (&of("write_memo")["after"], &of("write_memo")["caller"]),
        (&json!("ask"), &json!("terminal")),
        "{found}"
    );
    assert!(of("echo")["rule"].as_str().unwrap().ends_with("stricter.json:2"), "{found}");
    assert_eq!(of("echo")["examples"].as_array().unwrap().len(), 1);
    home.run(&["policy", "test", &file, "--fail-on-change"]).failed(7, "policy_change");
    home.run(&["policy", "test", "--fail-on-change"]).ok();
    home.run(&["policy", "test", &file, "--since", "1ms", "--fail-on-change"]).ok();
}

#[test]
fn a_refusal_that_was_recorded_is_compared_with_the_policy_in_effect() {
    let home = Home::with_sample();
    home.run(&["call", "sample.echo", "text=x"]).ok();
    let changed = json!({
        "mcpServers": { "sample": { "command": TOOLWAY, "args": ["sample"] } },
        "policy": { "rules": [{ "match": { "tool": "echo" }, "then": "deny" }] },
    });
    home.configure(&changed.to_string());
    home.run(&["call", "sample.echo", "text=x"]).failed(7, "denied");
    let found = home.run(&["policy", "test"]).json();
    assert_eq!((&found["calls"], &found["changed"]), (&json!(2), &json!(1)), "{found}");
    let human = home.run(&["policy", "test", "-o", "human"]);
    assert!(human.out.contains("1 × allow → deny: `echo` of `sample` for terminal"), "{human:?}");
}
