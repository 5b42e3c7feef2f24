//! Text of others in what the API sends: hidden characters as marks, which pages draw and do not look for themselves.
//!
//! Every string of every response and event is marked here, in the JSON text: order and numbers stay as they are. What a
//! page sends back is unmarked.

use std::borrow::Cow;

use toolway_host::visible;

/// JSON with the hidden characters of its strings marked.
pub(crate) fn outgoing(json: String) -> String {
    edited(json, |text| match visible::marked(text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(marked) => Some(marked),
    })
}

/// JSON with the marks of its strings replaced by the characters that they stand for.
pub(crate) fn incoming(json: &str) -> Cow<'_, str> {
    if !json.contains(visible::MARKS.0) {
        return Cow::Borrowed(json);
    }
    Cow::Owned(edited(json.to_owned(), |text| text.contains(visible::MARKS.0).then(|| visible::unmarked(text))))
}

/// Replaces strings of a JSON text. What is no JSON stays as it is.
fn edited(json: String, edit: impl Fn(&str) -> Option<String>) -> String {
    // Characters that can be hidden are not ASCII, or are escaped.
    if json.is_ascii() && !json.contains('\\') {
        return json;
    }
    let mut out = String::with_capacity(json.len());
    let mut rest = json.as_str();
    while let Some((before, after)) = rest.split_once('"') {
        out.push_str(before);
        let Some(end) = end_of_string(after) else {
            rest = &rest[before.len()..];
            break;
        };
        let token = &rest[before.len()..before.len() + end + 2];
        let is_plain = token.is_ascii() && !token.contains('\\');
        let decoded = if is_plain { None } else { serde_json::from_str::<String>(token).ok() };
        match decoded.and_then(|text| edit(&text)) {
            Some(text) => out.push_str(&serde_json::Value::from(text).to_string()),
            None => out.push_str(token),
        }
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    out
}

/// Where the closing quote of a string stands.
fn end_of_string(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

#[cfg(test)]
mod tests {
    use super::{incoming, outgoing};

    #[test]
    fn hidden_characters_of_all_strings_are_marked_and_come_back() {
        let json =
            r#"{"b\u001b":["ls \u001b]; rm\u0007","x\r\ny\ud83d\ude00","\\\"\u0041"],"a":12345678901234567890123}"#;
        let marked = outgoing(json.to_owned());
        let expected = "{\"b\u{fdd0}1b\u{fdd1}\":[\"ls \u{fdd0}1b\u{fdd1}]; rm\u{fdd0}7\u{fdd1}\",\"x\\r\\ny\\ud83d\\ude00\",\
                        \"\\\\\\\"\\u0041\"],\"a\":12345678901234567890123}";
        assert_eq!(marked, expected);
        let back: serde_json::Value = serde_json::from_str(&incoming(&marked)).unwrap();
        assert_eq!(back["b\u{1b}"][0], "ls \u{1b}]; rm\u{7}");
        for same in ["{}", r#"{"a":"\"\\"}"#, "\"open\\", "\"\u{e9}\"", r#""\ud800""#] {
            assert_eq!(outgoing(same.to_owned()), same);
        }
        assert_eq!(outgoing("\"\u{202e}\u{fdd0}\"".to_owned()), "\"\u{fdd0}202e\u{fdd1}\u{fdd0}fdd0\u{fdd1}\"");
    }
}
