//! Edits: only the named members change, the result is JSON, every other byte is kept; and reading finds every member.
#![no_main]

#[path = "../../crates/wire/tests/it/oracle.rs"]
mod oracle;

use std::collections::BTreeSet;

use bytes::Bytes;
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::value::RawValue;
use toolway_fuzz::Input;
use toolway_fuzz::{
    json::{MAX_DEPTH, Raw},
    message::splice::{Edit, edited},
};

const NAMES: [&str; 8] = ["_meta", "progressToken", "resultType", "id", "a\"b\\", "\u{0}é\u{2028}", "", "params"];
const VALUES: [&str; 8] =
    ["7", "-0.0e1", "\"x\\u0041\"", "{\"a\" : [ ]}", "[\n1]", "null", "123456789012345678901234567890", "{}"];

fuzz_target!(|data: &[u8]| -> Corpus {
    let mut input = Input::new(data);
    let Ok(object) = Raw::parse_within(Bytes::copy_from_slice(input.text), MAX_DEPTH - 2) else {
        return Corpus::Reject;
    };
    members_and_elements_are_found(&object);
    let keys: Vec<String> = object.members().into_iter().map(|member| member.key).collect();
    let changes: Vec<Change> = (0..3).map(|index| Change::new(&mut input, index, &keys)).collect();
    let mut named = BTreeSet::new();
    let changes: Vec<&Change> = changes.iter().filter(|change| named.insert(&change.key)).collect();
    let edits: Vec<Edit<'_>> = changes.iter().map(|change| change.edit()).collect();

    let after = edited(&object, &edits);
    let (before, after) = (object.text(), after.text());
    assert!(oracle::is_json(after.as_bytes()), "{after}");
    match oracle::members(&before) {
        Some(_) => check(&before, &after, &changes),
        None => assert_eq!(before, after),
    }
    Corpus::Keep
});

/// Members and elements are those that `serde_json` finds, byte for byte.
fn members_and_elements_are_found(value: &Raw) {
    let text = value.text();
    let places = oracle::members(&text).unwrap_or_default();
    let said = |place: &oracle::Place| oracle::said(&text[place.key.clone()]);
    for place in &places {
        let Some(key) = said(place) else { continue };
        let first = places.iter().find(|place| said(place).as_ref() == Some(&key)).expect("this one at least");
        assert_eq!(value.get(&key).expect("a member").text(), text[first.value.clone()]);
        assert_eq!(value.fields([&key, "no such key"])[0], value.get(&key));
    }
    let values: Vec<&str> = places.iter().map(|place| &text[place.value.clone()]).collect();
    assert!(value.members().iter().map(|member| member.value.text()).eq(values));
    let elements: Vec<&RawValue> = serde_json::from_str(&text).unwrap_or_default();
    assert!(value.elements().iter().map(|element| element.text()).eq(elements.into_iter().map(RawValue::get)));
}

/// One edit: a key and its new value; `None` removes it.
struct Change {
    key: String,
    value: Option<&'static str>,
}

impl Change {
    fn new(input: &mut Input<'_>, index: u8, keys: &[String]) -> Self {
        let (key, value) = (input.parameter(index), input.parameter(index));
        let key = match keys.get(key) {
            Some(key) => key.clone(),
            None => NAMES[key % NAMES.len()].to_owned(),
        };
        Self { key, value: VALUES.get(value % (VALUES.len() + 4)).copied() }
    }

    fn edit(&self) -> Edit<'_> {
        match self.value {
            Some(value) => Edit::Set(&self.key, Raw::parse(value).expect("JSON")),
            None => Edit::Remove(&self.key),
        }
    }
}

/// Compares the result with one assembled from what `serde_json` finds in the object.
fn check(before: &str, after: &str, changes: &[&Change]) {
    let mut expected = Vec::new();
    let mut done = BTreeSet::new();
    for place in oracle::members(before).unwrap_or_default() {
        let key = &before[place.key.clone()];
        let change = changes.iter().find(|change| oracle::said(key).as_ref() == Some(&change.key));
        match change {
            None => expected.push(before[place.key.start..place.value.end].to_owned()),
            Some(Change { key: name, value: Some(value) }) if done.insert(name) => {
                expected.push(format!("{}{value}", &before[place.key.start..place.value.start]));
            }
            Some(_) => {}
        }
    }
    for change in changes.iter().filter(|change| !done.contains(&change.key)) {
        let Some(value) = change.value else { continue };
        expected.push(format!("{}:{value}", serde_json::to_string(&change.key).expect("a string")));
    }
    let places = oracle::members(after).expect("an object");
    let found: Vec<&str> = places.iter().map(|place| &after[place.key.start..place.value.end]).collect();
    assert_eq!(found, expected, "from {before}");
    whitespace_around(before, after);
    semantics(before, after, changes);
}

/// Whitespace before the first member and after the last is unchanged.
fn whitespace_around(before: &str, after: &str) {
    let inside = |text: &str| text[1..].len() - text[1..].trim_start().len();
    if !oracle::members(before).unwrap_or_default().is_empty() {
        assert_eq!(before[..=inside(before)], after[..=inside(before)]);
    }
    let closing = |text: &str| text[text[..text.len() - 1].trim_end().len()..].to_owned();
    assert!(closing(after).ends_with(&closing(before)) || oracle::members(before) == Some(vec![]));
}

/// If `serde_json` can parse the object as a map, `insert` and `remove` give the same result.
fn semantics(before: &str, after: &str, changes: &[&Change]) {
    let read = |text: &str| serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text);
    let (Ok(mut map), Ok(after)) = (read(before), read(after)) else { return };
    for Change { key, value } in changes {
        match value {
            Some(value) => drop(map.insert(key.clone(), serde_json::from_str(value).expect("JSON"))),
            None => drop(map.remove(key)),
        }
    }
    assert_eq!(after, map);
}
