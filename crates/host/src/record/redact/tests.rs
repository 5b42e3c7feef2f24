//! Secrets in every spelling.

use proptest::prelude::*;
use serde_json::json;
use toolway_config::Secret;
use toolway_wire::message::RpcError;

use super::{Found, LETTERS, MAX_BODY, Redactor, uri};

#[test]
fn secrets_are_replaced_completely_and_short_values_stay() {
    let redactor = Redactor::new(["s3cret", "s3cret-and-more", "a"].map(Secret::new));
    assert_eq!(redactor.text("bad key s3cret-and-more\u{1b}[31m, or s3cret?"), "bad key [hidden][31m, or [hidden]?");
    assert_eq!(format!("{redactor:?}"), "Redactor { secrets: 2 }");
    assert_eq!(redactor.text("s3\u{1b}cret"), "[hidden]", "a control character hides no secret");
}

#[test]
fn messages_keep_control_characters_that_stand_in_no_secret() {
    let redactor = Redactor::new([Secret::new("s3cret")]);
    assert_eq!(redactor.message("\u{1b}[31mred\u{7} s3cret"), "\u{1b}[31mred\u{7} [hidden]");
    assert_eq!(redactor.message("s3\u{1b}cret\u{7}"), "[hidden]", "a control character hides no secret");
    let long = redactor.message(&"ä".repeat(10_000));
    assert!(long.chars().count() == LETTERS + 1 && long.ends_with('…'));
}

#[test]
fn secrets_that_overlap_leave_nothing_of_either() {
    let redactor = Redactor::new(["abcdef", "defghi"].map(Secret::new));
    assert_eq!(redactor.plain("xabcdefghix"), "x[hidden]x");
}

#[test]
fn long_text_is_truncated() {
    let long = Redactor::default().text(&"x".repeat(10_000));
    assert_eq!(long.chars().count(), LETTERS + 1);
    assert!(long.ends_with('…'));
}

#[test]
fn error_is_unchanged_unless_it_contains_a_secret_or_is_too_long() {
    let redactor = Redactor::new([Secret::new("s3\"cret")]);
    let plain = RpcError::with_data(-32000, "no licence", [1]);
    assert_eq!(redactor.error(&plain), plain);
    let telling = RpcError::with_data(-32000, "the key s3\"cret is old", ["s3\"cret"]);
    assert_eq!(redactor.error(&telling), RpcError::new(-32000, "the key [hidden] is old"));
    let long = redactor.error(&RpcError::with_data(-32000, "x", "y".repeat(20_000)));
    assert_eq!(long, RpcError::new(-32000, "x"));
}

#[test]
fn credentials_are_removed_from_uris() {
    for (said, kept) in [
        ("https://ada:key@example.org/a?token=1#x", "https://example.org/a?…"),
        ("file:///home/ada/x.txt", "file:///home/ada/x.txt"),
        ("memo://today", "memo://today"),
        ("not a uri?key=1", "not a uri"),
    ] {
        assert_eq!(uri(said), kept);
    }
}

#[test]
fn a_secret_is_found_in_json_escapes_url_encoding_and_base64() {
    let redactor = Redactor::new([Secret::new(r#"pa"ss/w-örd ß+%😀"#)]);
    for spelling in [
        r#"pa\"ss\/w\u002d\u00f6rd ß+%\uD83D\uDE00"#,
        r#"pa\u0022ss/w-örd \u00DF+%😀"#,
        r#"pa\\\"ss\\\/w-\\u00f6rd ß+%😀"#,
        "pa%22ss%2Fw-%C3%B6rd%20%c3%9f%2B%25%F0%9F%98%80",
        "pa%22ss%2fw-%c3%b6rd+ß%2b%25😀",
        "pa%2522ss%252Fw-örd ß+%25😀",
        r"pa\x22ss/w-örd ß+%😀",
        r"pa%5Cu0022ss%5C/w-örd ß+%😀",
    ] {
        assert_eq!(redactor.plain(spelling), "[hidden]", "{spelling}");
    }
    let redactor = Redactor::new([Secret::new("hunter2-hunter2")]);
    for header in ["Basic aHVudGVyMi1odW50ZXIy", "Basic YWRhOmh1bnRlcjItaHVudGVyMg==", "Basic OmFodW50ZXIyLWh1bnRlcjI"]
    {
        assert!(redactor.plain(header).contains("[hidden]"), "{header}");
    }
}

#[test]
fn a_secret_that_ends_as_an_escape_of_the_other_kind_begins_is_found() {
    let redactor = Redactor::new([Secret::new("my\"key%4")]);
    assert_eq!(redactor.plain(r#"my\"key%41"#), "[hidden]1");
    let redactor = Redactor::new([Secret::new("my/key\\")]);
    assert_eq!(redactor.plain(r"my%2Fkey\n"), "[hidden]n");
}

#[test]
fn a_secret_at_the_end_of_a_cut_body_leaves_no_part() {
    let redactor = Redactor::new([Secret::new("0123456789abcdef")]);
    let body = redactor.body(&format!("{}0123456789abcdef{}", "x".repeat(MAX_BODY - 8), "y".repeat(100)));
    assert!(body.ends_with("x[hidden]"), "{}", &body[body.len() - 30..]);
}

#[test]
fn texts_names_and_numbers_of_a_value_are_redacted() {
    let redactor = Redactor::new(["tok\"en", "90210777"].map(Secret::new));
    let mut value = json!({"a": ["x tok\"en", 5], "tok\"en": {"pin": 90_210_777, "json": "{\"t\":\"tok\\\"en\"}"}});
    assert_eq!(redactor.value(&mut value), Found::Secret);
    assert_eq!(value, json!({"a": ["x [hidden]", 5], "[hidden]": {"pin": "[hidden]", "json": "{\"t\":\"[hidden]\"}"}}));
    assert_eq!(redactor.value(&mut value), Found::Nothing);
}

/// One layer of encoding.
#[derive(Clone, Copy, Debug)]
enum Layer {
    Json,
    Url,
}

/// Encodes a text, characters that need no escape at random too.
fn encode(text: &str, layer: Layer, choices: &[u8]) -> String {
    let mut encoded = String::new();
    for (character, choice) in text.chars().zip(choices.iter().cycle()) {
        let units = |encoded: &mut String, upper: bool| {
            for unit in character.encode_utf16(&mut [0; 2]) {
                encoded.push_str(&if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") });
            }
        };
        match (layer, character, choice % 4) {
            (Layer::Json, _, 0) => units(&mut encoded, false),
            (Layer::Json, _, 1) => units(&mut encoded, true),
            (Layer::Json, '"' | '\\', _) | (Layer::Json, '/', 2) => encoded.extend(['\\', character]),
            (Layer::Json, '\u{0}'..'\u{20}', _) => units(&mut encoded, false),
            (Layer::Url, ' ', 0) => encoded.push('+'),
            (Layer::Url, _, 0 | 1) | (Layer::Url, '%' | '+' | ' ', _) => {
                let lower = choice % 8 < 4;
                for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                    encoded.push_str(&if lower { format!("%{byte:02x}") } else { format!("%{byte:02X}") });
                }
            }
            _ => encoded.push(character),
        }
    }
    encoded
}

/// Decodes as a reader of that layer would; independent of the code under test.
fn decode(text: &str, layer: Layer) -> String {
    match layer {
        Layer::Json => serde_json::from_str(&format!("\"{text}\"")).unwrap_or_else(|error| panic!("{error}: {text}")),
        Layer::Url => {
            let decoded: Vec<(String, String)> =
                url::form_urlencoded::parse(format!("v={}", text.replace('&', "%26")).as_bytes())
                    .into_owned()
                    .collect();
            decoded[0].1.clone()
        }
    }
}

#[test]
fn shown_text_keeps_control_characters_unless_a_secret_appears_without_them() {
    let redactor = Redactor::new([Secret::new("hunter22")]);
    assert_eq!(redactor.message("half\u{1b}[31m way\u{7}"), "half\u{1b}[31m way\u{7}");
    assert_eq!(redactor.message("with hunter22"), "with [hidden]");
    assert_eq!(redactor.message("hun\u{1b}ter22 \u{7}"), "[hidden] ");
    let long = redactor.message(&"\u{7}x".repeat(2_000));
    assert!(long.ends_with('…') && long.chars().count() < 1_000);
}

proptest! {
    #[test]
    fn a_secret_in_any_spelling_is_never_in_the_output(
        secret in r#"[a-zA-Z0-9"\\/%+ =&;äß😀n.-]{4,24}"#,
        before in r#"[a-z"\\/%+ {}:,]{0,12}"#,
        after in r#"[a-z0-9"\\/%+ {}:,]{0,12}"#,
        layers in prop::collection::vec(prop_oneof![Just(Layer::Json), Just(Layer::Url)], 0..=3),
        choices in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let mut text = format!("{before}{secret}{after}");
        for layer in &layers {
            text = encode(&text, *layer, &choices);
        }
        let redactor = Redactor::new([Secret::new(secret.clone())]);
        let clean = redactor.body(&text);
        prop_assert!(clean.contains("[hidden]"), "{layers:?}: {text}");
        let mut read = clean.clone();
        for layer in layers.iter().rev() {
            // What was replaced may have been a part of an escape; such a text is no JSON any more.
            let is_json = serde_json::from_str::<String>(&format!("\"{read}\"")).is_ok();
            if matches!(layer, Layer::Json) && !is_json {
                break;
            }
            read = decode(&read, *layer);
            prop_assert!(!read.contains(&secret), "{layers:?}: {text} became {clean}");
        }
        prop_assert!(!clean.contains(&secret));
    }
}
