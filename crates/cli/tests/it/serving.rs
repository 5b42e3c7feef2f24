//! `toolway serve`, as an operator runs it.

use std::io::{Read, Write};

use serde_json::json;

use crate::{
    gateway::{Serving, until},
    home::{Home, wait},
};

#[test]
fn what_is_under_way_ends_and_listeners_are_told_before_the_gateway_leaves() {
    let home = Home::new();
    let serving = Serving::start(&home, &[]);
    let mut listening = serving.call("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    until(&mut listening, "subscriptions/acknowledged");
    let mut calling =
        serving.call("tools/call", json!({ "name": "sample__count", "arguments": { "to": 4, "pause": 200 } }));
    until(&mut calling, "1 of 4");

    serving.terminate();

    let mut rest = String::new();
    calling.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("Counted to 4."), "{rest}");
    let mut end = String::new();
    listening.read_to_string(&mut end).unwrap();
    assert!(end.contains(r#""result""#) && end.contains("complete"), "{end}");
    let (code, talk) = serving.ended();
    assert_eq!(code, Some(0), "{talk}");
}

#[test]
fn whoever_started_it_can_speak_to_it_over_its_pipes() {
    let home = Home::new();
    let mut child = home
        .command(&["serve", "--stdio"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-11-25",
            "capabilities": {}, "clientInfo": { "name": "story", "version": "1" } } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": { "name": "sample__echo", "arguments": { "text": "over a pipe" } } }),
    ] {
        writeln!(stdin, "{message}").unwrap();
    }
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut answer = |id: u64| {
        let messages = lines.by_ref().map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap());
        messages.into_iter().find(|message| message["id"] == id).unwrap()
    };
    assert_eq!(answer(1)["result"]["serverInfo"]["name"], "toolway");
    assert_eq!(answer(2)["result"]["content"][0]["text"], "over a pipe");
    drop(stdin);
    assert_eq!(wait(&mut child, std::time::Duration::from_secs(20)).code(), Some(0));
}
