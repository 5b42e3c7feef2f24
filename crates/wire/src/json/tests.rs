//! Raw JSON: accepted texts, lookups, and unchanged bytes.

use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};

use super::{JsonError, JsonKind, MAX_DEPTH, Raw, one_line};
use crate::property;

fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned()).unwrap()
}

#[test]
fn value_keeps_every_byte_except_surrounding_space() {
    let text = r#"{"n":123456789012345678901234567890, "e":"\u0041\/", "z":[1e400,-0]}"#;
    assert_eq!(raw(&format!(" \n{text}\t")).as_bytes(), text.as_bytes());
}

#[test]
fn members_are_found_in_any_spelling() {
    let object = raw(r#"{"\u0061": 1, "b" :{"a":2}, "a": 3}"#);
    assert_eq!(object.get("a").unwrap().as_u64(), Some(1));
    assert_eq!(object.get("b").unwrap().get("a").unwrap().as_u64(), Some(2));
    let keys: Vec<String> = object.members().into_iter().map(|member| member.key).collect();
    assert_eq!(keys, ["a", "b", "a"]);
    assert_eq!(raw("[1, [2] ,{}]").elements().len(), 3);
    let backslash = raw(r#"{"\u0062":1,"\\u0062":2}"#);
    assert_eq!(backslash.get(r"\u0062").unwrap().as_u64(), Some(2));
    assert_eq!(backslash.get("b").unwrap().as_u64(), Some(1));
    assert!(raw("7").get("a").is_none());
}

#[test]
fn invalid_json_is_reported() {
    let error = |text: &[u8]| Raw::parse(text.to_vec()).unwrap_err();
    assert_eq!(error(b"{\"a\":"), JsonError::Truncated);
    assert_eq!(error(b"\"abc"), JsonError::Truncated);
    assert_eq!(error(b"\"a\x01\""), JsonError::Unexpected { at: 2 });
    assert_eq!(error(b"\xff"), JsonError::NotUtf8 { at: 0 });
    assert_eq!(error(b"{} {}"), JsonError::Unexpected { at: 3 });
    for text in ["01", "1.", "-", "1e", "[1,]", "{\"a\":1,}", "{a:1}", "nul", "\"\\x\"", "\"\\u12g4\"", "", "]", "+1"] {
        assert!(Raw::parse(text.to_owned()).is_err(), "{text} was accepted");
    }
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Raw::parse_within(nested(8), 8).is_ok());
    assert_eq!(Raw::parse_within(nested(9), 8).unwrap_err(), JsonError::TooDeep { limit: 8 });
    assert_eq!(Raw::parse_within(r#"{"a":{"b":{}}}"#, 2).unwrap_err(), JsonError::TooDeep { limit: 2 });
    assert!(Raw::parse(nested(MAX_DEPTH)).is_ok());
    assert!(Raw::parse(nested(MAX_DEPTH + 1)).is_err());
    assert!(Raw::parse(nested(1_000_000)).is_err());
}

#[test]
fn scalars_are_read() {
    for (text, number) in [("7.0", Some(7)), ("6.0e4", Some(60_000)), ("7.5", None), ("1e300", None)] {
        assert_eq!(raw(text).as_u64(), number, "{text}");
    }
    assert_eq!(raw("-1").as_u64(), None);
    assert_eq!(raw("true").as_bool(), Some(true));
    assert_eq!(raw("1.5").as_f64(), Some(1.5));
    assert_eq!(raw(r#""a\nb""#).as_str().unwrap(), "a\nb");
    assert_eq!(raw(r#""\ud800""#).as_str(), None);
    assert_eq!(raw("null").kind(), JsonKind::Null);
}

#[test]
fn message_becomes_one_line_with_the_same_value() {
    let message = bytes::Bytes::from_static(b"{\"a\":\r\n [1,\n2],\"b\":\"x\\n\"}");
    let line = one_line(message.clone());
    assert_eq!(&line[..], b"{\"a\":   [1, 2],\"b\":\"x\\n\"}");
    let value = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).unwrap();
    assert_eq!(value(&line), value(&message));
}

/// Texts that are nearly JSON, so that both results occur.
fn nearly_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<f64>().prop_map(|number| number.to_string()),
        "-?[0-9]{1,3}(\\.[0-9]{0,2})?([eE][+-]?[0-9]{0,2})?",
        "\"([a-z ]|\\\\[\"\\\\/bfnrtux]|\\\\u[0-9a-f]{4}|[\\x00-\\x1f])*\"",
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[ {} ]", items.join(" ,"))),
            prop::collection::vec(("\"[a-z]{0,3}\"", inner), 0..4).prop_map(|members| {
                let members: Vec<String> = members.iter().map(|(key, value)| format!("{key} :{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(property::cases())]
    #[test]
    fn scanner_agrees_with_serde_json(text in nearly_json()) {
        let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
        assert_eq!(Raw::parse(text.clone()).is_ok(), theirs, "{text}");
    }

    #[test]
    fn scanner_agrees_with_serde_json_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let theirs = serde_json::from_slice::<&serde_json::value::RawValue>(&bytes).is_ok();
        assert_eq!(Raw::parse(bytes).is_ok(), theirs);
    }
}
