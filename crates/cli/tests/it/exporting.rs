//! `--export FILE`: the messages of a command, compared with what its server saw.

use std::{os::unix::fs::PermissionsExt, path::Path};

use serde_json::{Value, json};

use crate::{
    gateway::{Answer, Serving},
    home::{Home, TOOLWAY},
};

/// A home whose server copies every line that it reads and writes into files.
fn home() -> Home {
    let home = Home::new();
    let copying = format!("tee -a seen.in | {TOOLWAY} sample | tee -a seen.out");
    let server = json!({
        "command": "sh", "args": ["-c", copying], "cwd": home.path(""), "env": { "API_KEY": "t0k3n-of-ada" },
    });
    home.configure(&json!({ "mcpServers": { "sample": server } }).to_string());
    home
}

/// The lines of an export: its messages, and its summary.
fn export(path: &Path) -> (Vec<Value>, Value) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = lines.pop().unwrap();
    let head = lines.remove(0);
    assert_eq!((&head["type"], &head["version"]), (&json!("export"), &json!(1)), "{head}");
    assert_eq!(summary["type"], "summary", "{summary}");
    assert_eq!(summary["messages"], json!(lines.len()), "{summary}");
    (lines, summary)
}

fn going<'a>(messages: &'a [Value], direction: &str) -> Vec<&'a Value> {
    messages.iter().filter(|line| line["direction"] == direction).collect()
}

/// The messages that the server saw.
fn seen(home: &Home, file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(home.path(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn counts<'a>(summary: &'a Value, method: &str) -> &'a Value {
    let methods = summary["methods"].as_array().unwrap();
    methods.iter().find(|counts| counts["method"] == method).unwrap_or_else(|| panic!("no {method} in {summary:#}"))
}

#[test]
fn export_of_a_call_has_exactly_the_messages_that_its_server_saw() {
    for era in ["legacy", "modern"] {
        let home = home();
        let file = home.path("messages.jsonl");
        let ran = home.run(&["call", "sample.fail", "--era", era, "--export", "messages.jsonl"]);
        assert_eq!(ran.code, 5, "{ran:?}");
        assert!(ran.talk.contains("exported ") && !ran.talk.contains("tools/call"), "without -v nothing more: {ran:?}");
        let (messages, summary) = export(&file);
        for (direction, copy) in [("out", "seen.in"), ("in", "seen.out")] {
            let exported = going(&messages, direction);
            let bodies: Vec<_> = exported.iter().map(|line| line["message"].clone()).collect();
            assert_eq!(bodies, seen(&home, copy), "{era} {direction}");
            let bytes: u64 = exported.iter().map(|line| line["bytes"].as_u64().unwrap()).sum();
            let lines = std::fs::read_to_string(home.path(copy)).unwrap();
            assert_eq!(bytes, lines.lines().map(|line| line.len() as u64).sum::<u64>(), "{era} {direction}");
        }
        let answer = messages.iter().find(|line| line["kind"] == "tool-error").unwrap();
        assert_eq!((&answer["method"], &answer["server"]), (&json!("tools/call"), &json!("sample")));
        let calls = counts(&summary, "tools/call");
        assert_eq!([&calls["requests"], &calls["answered"], &calls["toolErrors"]], [1, 1, 1]);
        assert_eq!((&calls["errorRate"], &calls["unanswered"]), (&json!(1.0), &json!(0)));
        assert_eq!(calls["maxMs"], answer["tookMs"]);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn export_has_no_secret_and_replaces_no_file() {
    let home = home();
    home.run(&["call", "sample.echo", "text=my t0k3n-of-ada", "--export", "x.jsonl"]).ok();
    assert!(std::fs::read_to_string(home.path("seen.in")).unwrap().contains("t0k3n-of-ada"), "the server gets it");
    let text = std::fs::read_to_string(home.path("x.jsonl")).unwrap();
    assert!(text.contains("tools/call") && !text.contains("t0k3n"), "{text}");
    let again = home.run(&["tools", "--export", "x.jsonl"]).failed(2, "usage");
    assert_eq!(again["message"], "cannot export to `x.jsonl`: the file exists");
    assert_eq!(std::fs::read_to_string(home.path("x.jsonl")).unwrap(), text);
    let nowhere = home.run(&["tools", "--export", "missing/x.jsonl"]).failed(2, "usage");
    assert!(nowhere["message"].as_str().unwrap().starts_with("cannot export to `missing/x.jsonl`: "), "{nowhere}");
    home.run(&["demo", "--export", "demo.jsonl"]).failed(2, "usage");
    // A link to a file of another program is not followed.
    std::os::unix::fs::symlink(home.path("seen.in"), home.path("link.jsonl")).unwrap();
    home.run(&["tools", "--export", "link.jsonl"]).failed(2, "usage");
}

#[test]
fn tools_doctor_and_run_export_their_messages_too() {
    let home = home();
    home.write(
        "script.json",
        r#"{"turns": [{"calls": [{"tool": "sample__add", "arguments": {"a": 1, "b": 2}}]}, {"text": "3"}]}"#,
    );
    let mut sent = 0;
    for (name, words, method) in [
        ("tools.jsonl", &["tools", "sample", "-v"][..], "tools/list"),
        ("doctor.jsonl", &["doctor", "sample"], "tools/list"),
        ("run.jsonl", &["run", "add", "--model", "scripted:script.json"], "tools/call"),
    ] {
        home.run(&[words, &["--export", name]].concat()).ok();
        let (messages, summary) = export(&home.path(name));
        assert!(messages.iter().any(|line| line["method"] == method && line["direction"] == "in"), "{name}");
        let counts = counts(&summary, method);
        assert_eq!((&counts["answered"], &counts["unanswered"]), (&counts["requests"], &json!(0)), "{name}: {counts}");
        sent += going(&messages, "out").len();
    }
    assert_eq!(sent, seen(&home, "seen.in").len(), "of all connections");
}

#[test]
fn a_gateway_exports_until_it_is_stopped() {
    let home = home();
    let serving = Serving::start(&home, &["--export", "gateway.jsonl"]);
    home.settled(&serving, "sample", "ready");
    for text in ["one", "two"] {
        let params = json!({ "name": "sample__echo", "arguments": { "text": text } });
        assert!(Answer::of(serving.call("tools/call", params)).body.contains(text));
    }
    serving.stop();
    let (messages, summary) = export(&home.path("gateway.jsonl"));
    assert_eq!(counts(&summary, "tools/call")["requests"], json!(2));
    let sent: Vec<_> = going(&messages, "out").iter().map(|line| line["message"].clone()).collect();
    assert_eq!(sent, seen(&home, "seen.in"));
}
