//! Hostile servers: whatever they send, standard output is JSON or empty, and the last line of standard error is a JSON
//! object.

use std::thread;

use serde_json::Value;

use crate::home::{Home, odd};

/// Odd servers and the arguments that keep them within the time of a test.
const ODD: [&str; 27] = [
    "asks-anyway",
    "asks-undeclared",
    "batch",
    "cut",
    "deep:200",
    "double",
    "ends-at-once",
    "flood:2000",
    "float-id",
    "gives-up",
    "half-closed",
    "long-line:100000",
    "long-question:100000",
    "neither",
    "not-utf8",
    "paints",
    "ping-flood:500",
    "progress-flood:2000",
    "questions:3",
    "retries",
    "rounds",
    "stray",
    "string-id",
    "truncated",
    "unknown-type",
    "wants-nothing",
    "wants-undeclared",
];

#[test]
fn standard_output_is_always_json_or_empty() {
    let home = Home::new();
    // Most of the time is spent waiting for servers that never answer.
    thread::scope(|scope| {
        for what in ODD {
            let home = &home;
            scope.spawn(move || meet(home, what));
        }
    });
}

fn meet(home: &Home, what: &str) {
    for words in [&["call", "odd"][..], &["tools"], &["rpc", "tools/call", "{\"name\":\"odd\"}"]] {
        let server = odd(what);
        let words = [words, &["--stdio", &server, "--timeout", "2", "--output", "json"]].concat();
        let ran = home.run(&words);
        assert!([0, 4, 5, 6, 8].contains(&ran.code), "{what}: {ran:?}");
        assert!(ran.out.is_empty() || serde_json::from_str::<Value>(&ran.out).is_ok(), "{what}: {ran:?}");
        if ran.code != 0 {
            let last: Value = serde_json::from_str(ran.talk.lines().last().unwrap()).unwrap();
            assert_eq!(last["error"]["exit"], ran.code, "{what}: {ran:?}");
        }
    }
}

#[test]
fn each_line_of_ndjson_is_always_json() {
    let home = Home::new();
    for what in ["flood:100", "progress-flood:1000", "paints", "stray"] {
        let ran = home.run(&["call", "--stdio", &odd(what), "odd", "--timeout", "5", "-o", "ndjson"]);
        assert!(ran.out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{what}: {ran:?}");
    }
}

#[test]
fn schema_that_expands_without_end_is_not_checked() {
    let ran = Home::new().run(&["call", "--stdio", &odd("maze"), "odd", "-o", "human"]);
    assert_eq!(ran.ok(), "hello\n");
    assert_eq!(ran.talk, "toolway: arguments sent without a check: the schema cannot be checked: it is too complex\n");
}
