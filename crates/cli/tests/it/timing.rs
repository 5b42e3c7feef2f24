//! Timeouts of a call from the entry, the environment and the command line.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::{
    gateway::{Answer, Serving},
    home::{Home, Ran, TOOLWAY, odd},
    terminal::Terminal,
};

/// What is said of every call that was sent and not answered.
const UNKNOWN: &str = "; outcome unknown: the server may have acted on the call";

fn home(timeouts: &str) -> Home {
    let home = Home::new();
    home.configure(&format!(r#"{{"mcpServers":{{"sample":{{"command":"{TOOLWAY}","args":["sample"]{timeouts}}}}}}}"#));
    home
}

/// A call that counts with this many milliseconds between steps.
fn count(pause: &str) -> [String; 4] {
    ["call".to_owned(), "sample.count".to_owned(), "to=3".to_owned(), format!("pause={pause}")]
}

fn run(home: &Home, words: &[String], variables: &[(&str, &str)]) -> Ran {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ran::of(&home.command(&words).envs(variables.iter().copied()).output().unwrap())
}

#[test]
fn timeouts_of_an_entry_limit_a_call_and_are_named() {
    let total = home(r#","timeouts":{"total":0.5}"#);
    let error = run(&total, &count("1500"), &[]).failed(4, "timed_out");
    assert_eq!(error["message"], format!("no answer within 500ms (total timeout){UNKNOWN}"));
    let idle = home(r#","timeouts":{"idle":1}"#);
    let error = run(&idle, &count("4000"), &[]).failed(4, "timed_out");
    assert_eq!(error["message"], format!("no answer within 1s (idle timeout){UNKNOWN}"));
    // Each progress notification resets the idle timeout.
    run(&idle, &count("400"), &[]).ok();
}

#[test]
fn environment_timeout_applies_without_an_entry_timeout_and_the_option_overrides_both() {
    let variable = [("TOOLWAY_REQUEST_TIMEOUT", "0.5")];
    let error = run(&home(""), &count("1500"), &variable).failed(4, "timed_out");
    assert_eq!(error["message"], format!("no answer within 500ms (total timeout){UNKNOWN}"));
    run(&home(r#","timeouts":{"total":"20s"}"#), &count("300"), &variable).ok();
    let mut words = count("300").to_vec();
    words.extend(["--timeout".to_owned(), "20".to_owned()]);
    run(&home(""), &words, &variable).ok();

    let sample = format!("{TOOLWAY} sample");
    let one_off = ["call", "--stdio", &sample, "count", "to=3", "pause=1500"].map(str::to_owned);
    run(&Home::new(), &one_off, &variable).failed(4, "timed_out");
    let odd_one = [("TOOLWAY_REQUEST_TIMEOUT", "soon")];
    run(&Home::new(), &one_off, &odd_one).failed(2, "config");
}

#[test]
fn connect_timeout_of_an_entry_is_used() {
    let home = Home::new();
    let (program, what) = odd("mute").split_once(' ').map(|(one, two)| (one.to_owned(), two.to_owned())).unwrap();
    home.configure(&format!(
        r#"{{"mcpServers":{{"mute":{{"command":"{program}","args":["{what}"],"timeouts":{{"connect":0.5}}}}}}}}"#
    ));
    let began = Instant::now();
    let error = home.run(&["call", "mute.odd"]).failed(4, "timed_out");
    assert_eq!(error["message"], "no answer to the handshake within 500ms (connect timeout)");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn record_says_where_a_call_spent_its_time() {
    let home = home("");
    run(&home, &count("200"), &[]).ok();
    let call = home.run(&["calls", "show", "last", "--timing", "-o", "json"]).json();
    let part = |name: &str| call["timing"][name].as_f64().unwrap();
    // Two pauses at the server; it was started before.
    assert!(400.0 <= part("serverMs") && 0.0 < part("preparedMs"), "{call}");
    let (sum, took) = (part("serverMs") + part("preparedMs"), call["durationMs"].as_f64().unwrap());
    assert!((sum - took).abs() < 0.01, "{call}");
    let shown = home.run(&["calls", "show", "last", "--timing", "-o", "human"]);
    for label in ["prepared", "waited", "server"] {
        assert!(shown.ok().lines().any(|line| line.trim_start().starts_with(label)), "{shown:?}");
    }
    // One that was never sent has no time at a server.
    home.run(&["call", "sample.none"]).failed(2, "unknown_tool");
    let call = home.run(&["calls", "show", "last", "-o", "json"]).json();
    assert_eq!(call["timing"]["serverMs"], serde_json::Value::Null, "{call}");
}

/// The parts of the newest call, in milliseconds, checked against its duration.
fn parts(home: &Home) -> [f64; 3] {
    let call = home.run(&["calls", "show", "last", "--timing", "-o", "json"]).json();
    let part = |name: &str| call["timing"][name].as_f64().unwrap_or_else(|| panic!("{name}: {call}"));
    let parts = [part("preparedMs"), part("waitedMs"), part("serverMs")];
    let took = call["durationMs"].as_f64().unwrap();
    assert!((parts[0] + parts[2] - took).abs() < 0.01, "without the person: {call}");
    parts
}

#[test]
fn time_of_an_approval_of_a_connection_and_of_the_server_are_told_apart() {
    let home = Home::new();
    // It starts after half a second, and its tool takes 600 ms.
    let slow = format!("sleep 0.5; exec {TOOLWAY} sample");
    let rule = json!({ "match": { "server": "slow" }, "then": "ask" });
    let config = json!({
        "mcpServers": { "slow": { "command": "sh", "args": ["-c", slow] } }, "policy": { "rules": [rule] },
    });
    home.configure(&config.to_string());
    let mut command = home.command(&["call", "slow.count", "to=2", "pause=300"]);
    command.env("NO_COLOR", "1");
    let mut terminal = Terminal::start(command);
    terminal.until("[y] once");
    let thinking = Instant::now();
    // The person thinks.
    std::thread::sleep(Duration::from_millis(700));
    let thought = thinking.elapsed().as_secs_f64() * 1_000.0;
    terminal.types("y");
    let (status, shown) = terminal.end(Duration::from_secs(60));
    assert!(status.success(), "{shown}");
    let [prepared, waited, server] = parts(&home);
    assert!(thought <= waited, "{waited} ms, of {thought} ms");
    assert!(600.0 <= server && server < waited + 600.0, "{server} ms at the server");
    assert!(prepared < 500.0 + thought, "the person is no part of it: {prepared} ms");

    // A server that starts on first use: the call waits for its connection.
    let lazy = json!({ "command": "sh", "args": ["-c", slow], "lazy": true });
    home.configure(&json!({ "mcpServers": { "slow": lazy } }).to_string());
    home.run(&["tools", "slow"]).ok();
    let serving = Serving::start(&home, &[]);
    let params = json!({ "name": "slow__add", "arguments": { "a": 1, "b": 2 } });
    let answer = Answer::of(serving.call("tools/call", params));
    assert!(answer.body.contains("\"sum\":3"), "{answer:?}");
    serving.stop();
    let [prepared, waited, server] = parts(&home);
    assert!(500.0 <= prepared && waited == 0.0, "{prepared} ms prepared, {waited} ms waited");
    assert!(server < prepared, "{server} ms at the server");
}
