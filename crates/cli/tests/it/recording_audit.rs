//! What people and operators do is in the audit log: sign-ins, approvals, changed configuration, keys.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    gateway::{Answer, Serving},
    home::{Home, TOOLWAY},
    sign_in_fixture::SignInFixture,
};

/// Longest wait for an event.
const PATIENCE: Duration = Duration::from_secs(60);

/// The events of a kind, oldest first.
fn events(home: &Home, kind: &str) -> Vec<Value> {
    let exported = home.run(&["audit", "export"]).ok().to_owned();
    let entries = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries.filter(|entry| entry["kind"] == kind).collect()
}

/// The words under `details/change` of a kind, oldest first.
fn changes(home: &Home, kind: &str) -> Vec<String> {
    let events = events(home, kind);
    events.iter().map(|event| event["details"]["change"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Waits until the events of a kind are as wanted; returns them.
fn until(home: &Home, kind: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let found = events(home, kind);
        if wanted(&found) {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{found:?}");
    }
}

#[test]
fn a_sign_in_and_a_sign_out_are_events_without_tokens() {
    let fixture = SignInFixture::new();
    fixture.sign_in("ada", &[]);
    fixture.home.run(&["logout", "api"]).ok();
    assert_eq!(changes(&fixture.home, "sign-in"), ["started", "signed in", "signed out"]);
    let events = events(&fixture.home, "sign-in");
    assert!(events.iter().all(|event| event["server"] == "api" && event["caller"] == "terminal"), "{events:?}");
    assert!(events[1]["details"]["issuer"].as_str().unwrap().starts_with("http"), "{events:?}");
    let text = serde_json::to_string(&events).unwrap();
    for secret in ["access_token", "refresh_token", "code="] {
        assert!(!text.contains(secret), "{text}");
    }
    fixture.home.run(&["audit", "verify"]).ok();
}

#[test]
fn an_approval_its_scope_and_its_removal_are_events_of_the_call() {
    let home = Home::new();
    let servers = json!({ "shop": { "command": TOOLWAY, "args": ["sample"] } });
    let rules = json!([{ "match": { "server": "shop" }, "then": "ask" }]);
    home.configure(&json!({ "mcpServers": servers, "policy": { "rules": rules } }).to_string());
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "shop", "ready");
    let params = json!({ "name": "shop__write_memo", "arguments": { "text": "/tmp/a" } });
    let stream = serving.call("tools/call", params);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let called = thread::spawn(move || Answer::of(stream));
    let began = Instant::now();
    let item = loop {
        if let Some(item) = home.run(&["inbox", "list", "-o", "json"]).json().get(0) {
            break item.clone();
        }
        assert!(began.elapsed() < PATIENCE);
    };
    assert_eq!(item["approval"]["covers"], json!("text = \"/tmp/a\""), "{item}");
    let answered = home.run(&["inbox", "answer", item["id"].as_str().unwrap(), "--for", "always", "-o", "human"]);
    assert!(answered.ok().contains("It covers: text = \"/tmp/a\"\n"), "{answered:?}");
    called.join().unwrap();
    let approval = &until(&home, "approval", |events| events.len() == 1)[0];
    assert_eq!(approval["call"], item["callId"], "{approval}");
    let details = &approval["details"];
    assert_eq!((&details["answer"], &details["term"]), (&json!("approved"), &json!("always")), "{approval}");
    assert_eq!(details["approvedBy"], "inbox", "{approval}");

    let saved = home.run(&["trust", "list", "-o", "json"]).json()[0].clone();
    assert_eq!((&saved["covers"], &details["saved"]), (&json!("text = \"/tmp/a\""), &saved["id"]), "{saved}");
    assert!(!approval.to_string().contains("/tmp/a"), "no arguments in the audit log: {approval}");
    let listed = home.run(&["trust", "list", "-o", "human"]);
    assert!(listed.ok().lines().next().unwrap_or_default().ends_with("COVERS"), "the last column is never cut");
    assert!(listed.ok().contains("text = \"/tmp/a\""), "{listed:?}");
    home.run(&["trust", "remove", saved["id"].as_str().unwrap()]).ok();
    assert_eq!(events(&home, "approval")[1]["details"]["change"], "removed");
    home.run(&["audit", "verify"]).ok();
}

#[test]
fn a_reloaded_configuration_is_an_event_with_what_changed() {
    let home = Home::new();
    let sample = json!({ "command": TOOLWAY, "args": ["sample"] });
    home.configure(&json!({ "mcpServers": { "shop": sample } }).to_string());
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "shop", "ready");
    home.configure(&json!({ "mcpServers": { "shop": sample, "more": sample } }).to_string());
    home.run(&["config", "reload"]).ok();
    let reloaded = |event: &Value| event["details"]["change"] == "reloaded";
    let events = until(&home, "configuration", |events| events.iter().any(reloaded));
    let event = events.iter().find(|event| reloaded(event)).unwrap();
    assert!(event["details"]["servers"]["more"].is_string(), "{event}");
    assert_eq!(event["details"]["servers"]["shop"], Value::Null, "it stayed as it was: {event}");
}

#[test]
fn a_key_that_is_added_revoked_or_expires_is_an_event_with_its_name() {
    let home = Home::with_sample();
    let serving = Serving::start(&home, &[]);
    home.run(&["clients", "add", "editor"]).ok();
    home.run(&["clients", "add", "guest", "--expires", "1s"]).ok();
    home.run(&["clients", "revoke", "editor"]).ok();
    let is = |event: &Value, change: &str, name: &str| event["details"]["change"] == change && event["subject"] == name;
    let expected = [("created", "editor"), ("created", "guest"), ("revoked", "editor"), ("expired", "guest")]
        .map(|(change, name)| move |events: &[Value]| events.iter().any(|event| is(event, change, name)));
    let events = until(&home, "key", |events| expected.iter().all(|wanted| wanted(events)));
    let first = events.iter().find(|event| event["details"]["validFor"] == "this run").unwrap();
    assert_eq!(first["details"]["change"], "created", "the key of this run is one, too");
    let text = serde_json::to_string(&events).unwrap();
    assert!(!text.contains("tw_"), "no key is in the log: {text}");
    serving.stop();
}
