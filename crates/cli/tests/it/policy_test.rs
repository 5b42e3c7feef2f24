//! `policy test`: recorded calls, decided again with other rules.

use std::time::{Duration, Instant};

use serde_json::json;
use toolway_host::{
    record::{CallBody, CallRow, CallState, Delivery},
    time,
};
use toolway_store::{Store, StoreOptions};
use uuid::Uuid;

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

#[test]
fn a_file_that_is_no_configuration_is_an_error_and_one_without_rules_is_said() {
    let home = Home::with_sample();
    home.run(&["call", "sample.echo", "text=x"]).ok();
    for (text, word) in [
        ("{", "config"),
        (r#"{"policy": {"rules": [{"match": {}, "then": "perhaps"}]}}"#, "config"),
        (r#"{"policy": {"rules": [{"match": {"tols": "x"}, "then": "deny"}]}}"#, "config"),
    ] {
        let file = home.write("broken.json", text).display().to_string();
        let error = home.run(&["policy", "test", &file]).failed(2, word);
        assert!(error["message"].as_str().unwrap().contains("broken.json"), "{error}");
    }
    let missing = home.path("missing.json").display().to_string();
    home.run(&["policy", "test", &missing]).failed(2, "config");
    let empty = home.write("empty.json", "{}").display().to_string();
    let ran = home.run(&["policy", "test", &empty]);
    assert!(ran.talk.contains("has neither `policy.rules` nor `policy.mode`"), "{ran:?}");
}

#[test]
fn refusals_are_known_by_their_code_and_not_by_their_words() {
    let home = Home::with_sample();
    let denied = json!({
        "mcpServers": { "sample": { "command": TOOLWAY, "args": ["sample"] } },
        "policy": { "rules": [
            { "match": { "tool": "echo" }, "then": "deny", "reason": "requires approval" },
            { "match": { "tool": "add" }, "then": "ask", "reason": "denied by policy" },
        ] },
    });
    home.configure(&denied.to_string());
    home.run(&["call", "sample.echo", "text=x"]).failed(7, "denied");
    home.run(&["call", "sample.add", "a=1", "b=2"]).failed(7, "no_approver");
    let calls = home.run(&["calls", "list"]).json();
    let id = calls[0]["id"].as_str().unwrap();
    assert_eq!(home.run(&["calls", "show", id]).json()["code"], "no_approver");
    let found = home.run(&["policy", "test"]).json();
    assert_eq!((&found["calls"], &found["changed"]), (&json!(2), &json!(0)), "{found}");
}

#[test]
fn paths_inside_the_configured_roots_are_no_change() {
    let home = Home::new();
    home.configure(&format!(
        r#"{{"mcpServers":{{"sample":{{"command":"{TOOLWAY}","args":["sample"],"allowFileAccess":false,"roots":[{{"path":"/srv"}}]}}}}}}"#
    ));
    home.run(&["call", "sample.echo", "text=/srv/a"]).ok();
    let found = home.run(&["policy", "test"]).json();
    assert_eq!((&found["calls"], &found["changed"]), (&json!(1), &json!(0)), "{found}");
}

/// How many recorded calls are decided again, and how long that may take on a busy machine. The long number takes 3.5 s of the
/// processor in this build, which is not optimised.
fn size() -> (u64, Duration) {
    let is_long = std::env::var_os("TOOLWAY_TEST_LONG").is_some();
    if is_long { (100_000, Duration::from_secs(60)) } else { (6_000, Duration::from_secs(60)) }
}

/// The nth generated call: of 40 tools, three callers, with arguments of different sizes.
fn generated(number: u64) -> (CallRow, CallBody) {
    let started_at = time::now() - i64::try_from(number).unwrap() * 1_000;
    let caller = ["terminal", "agent", "client:editor"][(number % 3) as usize];
    let surface = ["call", "chat", "gateway"][(number % 3) as usize];
    let tool = format!("sample__tool_{}", number % 40);
    let is_refused = number.is_multiple_of(50);
    // Every thousandth call has a large argument.
    let text = "x".repeat(if number.is_multiple_of(1_000) { 512 * 1024 } else { 200 });
    let arguments = json!({ "path": format!("/srv/{}", number % 7), "text": text, "url": "https://example.org/a" });
    let row = CallRow {
        id: Uuid::from_u128(
            (u128::try_from(started_at / 1_000).unwrap() << 80) | (0x7 << 76) | (0x8 << 60) | u128::from(number),
        ),
        started_at,
        duration: Some(1_000),
        waited: 0,
        prepared: Some(10),
        caller: caller.to_owned(),
        surface: surface.to_owned(),
        kind: "tool".to_owned(),
        name: tool.clone(),
        server: Some("sample".to_owned()),
        tool: Some(tool),
        state: if is_refused { CallState::Refused } else { CallState::Succeeded },
        outcome: Some(if is_refused { Delivery::NotSent } else { Delivery::Answered }),
        idempotent: false,
        rule: None,
        approved_by: None,
        error: None,
        code: is_refused.then(|| "denied".to_owned()),
        from_cache: false,
        conversation: None,
        argument_bytes: i64::try_from(text.len()).unwrap(),
        result_bytes: 2,
        server_requests: 0,
        task: None,
    };
    (row, CallBody { arguments: Some(arguments.to_string()), result: None })
}

#[test]
fn many_generated_calls_are_decided_again_in_time() {
    let home = Home::with_sample();
    let (calls, limit) = size();
    let database = home.path(".local/state/toolway/toolway.db");
    std::fs::create_dir_all(database.parent().unwrap()).unwrap();
    let (store, _) = Store::open(&StoreOptions { path: Some(database), ..StoreOptions::default() }).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        for batch in (0..calls).collect::<Vec<_>>().chunks(500) {
            let writes: Vec<_> = batch
                .iter()
                .map(|number| {
                    let (row, body) = generated(*number);
                    store.end_call(row, body)
                })
                .collect();
            for written in writes {
                written.await.unwrap();
            }
        }
    });
    drop(store);
    let rules = r#"{"policy":{"mode":"allow","rules":[
        {"match":{"arguments":{"/path":"/srv/3"}},"then":"deny"},
        {"match":{"caller":"agent","tool":"tool_1*"},"then":"ask"}]}}"#;
    let file = home.write("stricter.json", rules).display().to_string();
    let began = Instant::now();
    let found = home.run(&["policy", "test", &file, "--since", "1d"]).json();
    let took = began.elapsed();
    assert_eq!(found["calls"], json!(calls));
    let denied: u64 = found["changes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|change| change["after"] == "deny")
        .map(|change| change["calls"].as_u64().unwrap())
        .sum();
    assert_eq!(denied, (0..calls).filter(|number| number % 7 == 3).count() as u64);
    assert!(took < limit, "{took:?}");
}
