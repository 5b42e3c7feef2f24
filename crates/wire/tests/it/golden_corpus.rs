//! The golden corpus: recorded and handmade messages that are parsed, viewed, edited and relayed.
//!
//! Every test runs over all messages in `tests/corpus`; the expected reading of the handmade ones is in [`expected`].
//! `serde_json` is the reference parser, in [`crate::oracle`].

mod edits;
mod expected;
mod summary;

use std::{collections::BTreeSet, fs, path::Path};

use bytes::Bytes;
use toolway_wire::{
    json::{self, Raw},
    limit::Limits,
    message::{Envelope, Id, MessageKind, compose},
    sse,
};

use crate::oracle;
use summary::summarise;

/// One file of the corpus.
struct Golden {
    /// File name without extension.
    name: String,
    text: Bytes,
}

/// One message of the corpus: a whole file, or one message of a batch.
struct Message {
    name: String,
    text: Bytes,
    envelope: Envelope,
}

#[test]
fn corpus_is_large_and_mostly_recorded_from_published_servers() {
    let recorded = golden("recorded");
    // Published servers only, without those that we wrote on a framework.
    let servers = ["everything", "filesystem", "memory", "time"];
    let is_published = |file: &&Golden| {
        let server = file.name.split('-').nth(1).unwrap();
        servers.contains(&server) && !file.name.contains("-sent-")
    };
    assert!(40 <= recorded.iter().filter(is_published).count());
    assert!(60 <= messages().len());
    assert!(messages().iter().any(|message| 90 < oracle::depth(&message.text)));

    let names: Vec<String> = recorded.into_iter().chain(golden("handmade")).map(|file| file.name).collect();
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        assert!(3 <= names.iter().filter(|name| name.contains(revision)).count(), "{revision}");
    }
    let methods: BTreeSet<String> = messages().iter().map(|message| message.envelope.method().to_owned()).collect();
    let missing: Vec<_> = METHODS.iter().filter(|method| !methods.contains(**method)).collect();
    assert!(missing.is_empty(), "methods without a message: {missing:?}");
}

/// Methods of the requests and notifications in the corpus; responses are identified by their file names.
const METHODS: [&str; 36] = [
    "completion/complete",
    "elicitation/create",
    "initialize",
    "logging/setLevel",
    "notifications/cancelled",
    "notifications/elicitation/complete",
    "notifications/initialized",
    "notifications/message",
    "notifications/progress",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/roots/list_changed",
    "notifications/subscriptions/acknowledged",
    "notifications/tasks",
    "notifications/tasks/status",
    "notifications/tools/list_changed",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "roots/list",
    "sampling/createMessage",
    "server/discover",
    "skills/list",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/result",
    "tasks/update",
    "tools/call",
    "tools/list",
    "notifications/acme/heartbeat",
    "",
];

#[test]
fn every_handmade_message_has_the_expected_summary() {
    let files = golden("handmade");
    for file in &files {
        let expected = expected::of(&file.name);
        assert_eq!(summarise(&file.text), expected, "\n{}", file.name);
    }
    assert_eq!(files.len(), expected::COUNT, "a row for each file, a file for each row");
}

#[test]
fn every_recorded_message_matches_its_file_name() {
    for file in golden("recorded") {
        let parts = expected::by_name(&file.name);
        let summary = summarise(&file.text);
        assert!(parts.iter().all(|part| summary.contains(part)), "{}: {summary} lacks {parts:?}", file.name);
        assert!(!summary.contains("malformed") && !summary.contains("refused"), "{}: {summary}", file.name);
    }
}

#[test]
fn parts_of_a_message_are_kept_byte_for_byte() {
    for Message { name, text, envelope } in messages() {
        assert_eq!(envelope.text(), &text, "{name}");
        let whole = std::str::from_utf8(&text).unwrap();
        let places = oracle::members(whole).unwrap();
        let member = |key: &str| {
            let place = places.iter().find(|place| whole[place.key.clone()] == format!("\"{key}\""));
            place.map(|place| whole[place.value.clone()].to_owned())
        };
        let body = body(&envelope).map(|body| body.to_string());
        assert_eq!(body, member(body_key(&envelope)), "{name}");
        let id = envelope.id().map(ToString::to_string);
        assert_eq!(id, member("id").filter(|id| id != "null"), "{name}");
    }
}

#[test]
fn message_under_a_new_id_keeps_its_body() {
    let id = Id::number(7);
    for Message { name, envelope, .. } in messages() {
        let body = body(&envelope);
        let again = match envelope.kind() {
            MessageKind::Request => compose::request(&id, envelope.method(), body.as_ref(), &[]),
            MessageKind::Notification => compose::notification(envelope.method(), body.as_ref(), &[]),
            MessageKind::Result => compose::result(&id, body.as_ref().unwrap(), &[]),
            MessageKind::Error => compose::error(Some(&id), &envelope.error().unwrap()),
        };
        let again = Envelope::read(again, &Limits::default()).unwrap();
        assert_eq!((again.kind(), again.method()), (envelope.kind(), envelope.method()), "{name}");
        assert_eq!(again.id().is_some(), envelope.kind() != MessageKind::Notification, "{name}");
        assert_eq!(self::body(&again), body, "{name}");
    }
}

#[test]
fn message_is_one_line_on_every_transport_with_the_same_value() {
    let mut changed = 0;
    for Golden { name, text } in golden("recorded").into_iter().chain(golden("handmade")) {
        assert!(oracle::is_json(&text), "{name}");
        let line = json::one_line(text.clone());
        assert!(!line.iter().any(|byte| matches!(byte, b'\r' | b'\n')), "{name}");
        assert_eq!(line.len(), text.len(), "{name}");
        assert_eq!(oracle::compact(&line), oracle::compact(&text), "{name}");
        changed += usize::from(line != text);

        let events = sse::SseDecoder::new(1_000_000).push(sse::encode(text)).unwrap();
        assert_eq!(events.len(), 1, "{name}");
        assert_eq!(events[0].data, line, "{name}");
    }
    assert!((3..10).contains(&changed), "{changed} messages had line breaks");
}

fn golden(folder: &str) -> Vec<Golden> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(folder);
    let mut files: Vec<Golden> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| Golden {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            text: fs::read(&path).unwrap().into(),
        })
        .collect();
    files.sort_by(|one, other| one.name.cmp(&other.name));
    files
}

/// All valid messages; those of a batch one by one.
fn messages() -> Vec<Message> {
    let limits = Limits::default();
    let mut messages = Vec::new();
    for Golden { name, text } in golden("recorded").into_iter().chain(golden("handmade")) {
        let texts = match Envelope::split_batch(&text, &limits) {
            Some(texts) => texts.unwrap(),
            None => vec![text],
        };
        for text in texts {
            match Envelope::read(text.clone(), &limits) {
                Ok(envelope) => messages.push(Message { name: name.clone(), text, envelope }),
                Err(bad) => assert!(name.contains("-refused-"), "{name}: {bad}"),
            }
        }
    }
    messages
}

/// `params`, `result` or `error`, as received.
fn body(message: &Envelope) -> Option<Raw> {
    let error = message.error().map(|error| error.raw().clone());
    message.params().or(message.result()).or(error)
}

fn body_key(message: &Envelope) -> &'static str {
    match message.kind() {
        MessageKind::Request | MessageKind::Notification => "params",
        MessageKind::Result => "result",
        MessageKind::Error => "error",
    }
}
