//! Messages: accepted as by `serde_json`, correct depth, no panic in a view, bodies kept byte for byte.
#![no_main]

#[path = "../../crates/wire/tests/it/oracle.rs"]
mod oracle;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use toolway_fuzz::Input;
use toolway_fuzz::{
    json::{self, JsonError, Raw},
    limit::Limits,
    message::{
        BadMessage, ClientCapabilities, Envelope, Id, MessageKind, Problem, ServerCapabilities, compose, item, meta,
        refuse_ambiguity,
        result::{CacheHint, CallResult, ResultType},
    },
};

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let depth = 1 + input.parameter(127) % 200;
    let text = Bytes::copy_from_slice(input.text);
    let limits = Limits { depth, ..Limits::default() };
    match Envelope::read(text.clone(), &limits) {
        Ok(message) => {
            assert!(oracle::members(std::str::from_utf8(&text).expect("UTF-8")).is_some());
            assert!(oracle::depth(&text) <= depth);
            assert_eq!(message.text(), &text);
            bodies_are_unchanged(&message);
            composed_message_keeps_the_body(&message);
            views(&message);
        }
        Err(bad) => refusal_is_justified(&text, depth, &bad),
    }
    batch(&text, &limits);
    let line = json::one_line(text.clone());
    assert!(!line.iter().any(|byte| matches!(byte, b'\r' | b'\n')));
    if oracle::is_json(&text) {
        assert_eq!(oracle::compact(&line), oracle::compact(&text));
    }
});

fn refusal_is_justified(text: &[u8], depth: usize, bad: &BadMessage) {
    match bad.problem {
        Problem::Json(JsonError::TooDeep { limit }) => {
            assert_eq!(limit, depth);
            assert!(depth < oracle::depth(text));
        }
        Problem::Json(_) => assert!(!oracle::is_json(text)),
        Problem::Batch => assert_eq!(text.trim_ascii_start().first(), Some(&b'[')),
        Problem::TooLarge { .. } | Problem::Crowded { .. } => panic!("nothing here is that large"),
        Problem::NotAnObject | Problem::NoKind | Problem::BadId | Problem::BadMethod | Problem::Ambiguous(_) => {
            assert!(oracle::is_json(text));
        }
    }
}

fn body(message: &Envelope) -> Option<Raw> {
    let error = message.error();
    message.params().or(message.result()).or(error.map(|error| error.raw().clone()))
}

fn bodies_are_unchanged(message: &Envelope) {
    let text = std::str::from_utf8(message.text()).expect("UTF-8");
    let member = match message.kind() {
        MessageKind::Request | MessageKind::Notification => "\"params\"",
        MessageKind::Result => "\"result\"",
        MessageKind::Error => "\"error\"",
    };
    let places = oracle::members(text).expect("an object");
    let place = places.into_iter().find(|place| &text[place.key.clone()] == member);
    assert_eq!(body(message).as_ref().map(|body| body.text()), place.map(|place| text[place.value].into()));
}

fn composed_message_keeps_the_body(message: &Envelope) {
    let id = Id::string("ours");
    let body = body(message);
    let again = match message.kind() {
        MessageKind::Request => compose::request(&id, message.method(), body.as_ref(), &[]),
        MessageKind::Notification => compose::notification(message.method(), body.as_ref(), &[]),
        MessageKind::Result => compose::result(&id, body.as_ref().expect("a result"), &[]),
        MessageKind::Error => compose::error(Some(&id), &message.error().expect("an error")),
    };
    let again = Envelope::read(again, &Limits::default()).expect("a message");
    assert_eq!(again.kind(), message.kind());
    assert_eq!(again.method(), message.method());
    assert_eq!(self::body(&again), body);
}

/// No input makes a view panic; an accepted request has unique keys.
fn views(message: &Envelope) {
    if let Some(error) = message.error() {
        drop((error.code(), error.message(), error.data()));
    }
    if let Some(params) = message.params() {
        if refuse_ambiguity(&params).is_ok() {
            each_key_once(&params.text());
            if let Some(arguments) = params.get("arguments") {
                each_key_once(&arguments.text());
            }
        }
        drop(ClientCapabilities(params.clone()).lacks(message.method(), Some(&params)));
        assert!(meta::HOP_KEYS.iter().all(|key| meta::value(Some(&meta::without_hop_keys(&params)), key).is_none()));
    }
    let Some(result) = message.result() else { return };
    drop(item::read_items::<item::Tool>(&result));
    drop(item::read_items::<item::Resource>(&result));
    drop(item::read_items::<item::Template>(&result));
    drop(item::read_items::<item::Prompt>(&result));
    drop((CallResult::view(&result), CacheHint::view(&result), ResultType::view(&result)));
    let server = ServerCapabilities(result.get("capabilities").unwrap_or_else(Raw::empty_object));
    let _ = (server.has("tools"), server.flag("resources", "subscribe"), server.extension("a/b"));
}

fn each_key_once(object: &str) {
    let mut keys: Vec<_> = oracle::members(object).unwrap_or_default().into_iter().map(|place| place.key).collect();
    let count = keys.len();
    keys.sort_by_key(|key| oracle::said(&object[key.clone()]));
    keys.dedup_by_key(|key| oracle::said(&object[key.clone()]));
    assert_eq!(keys.len(), count, "{object}");
}

fn batch(text: &Bytes, limits: &Limits) {
    match Envelope::split_batch(text, limits) {
        None => assert_ne!(text.trim_ascii_start().first(), Some(&b'[')),
        Some(Ok(messages)) if std::str::from_utf8(text).is_ok() => {
            assert!(oracle::is_json(text) && oracle::depth(text) <= limits.depth + 1);
            assert!(messages.iter().all(|message| oracle::is_json(message)));
        }
        Some(Ok(_)) => {}
        Some(Err(Problem::Crowded { limit })) => assert!(limit * 2 < text.len()),
        Some(Err(Problem::Json(JsonError::TooDeep { .. }))) => assert!(limits.depth + 1 < oracle::depth(text)),
        Some(Err(_)) => assert!(!oracle::is_json(text)),
    }
}
