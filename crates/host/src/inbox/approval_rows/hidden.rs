//! Hidden characters in the arguments of a call.

use toolway_config::visible;

use super::ArgumentRow;

/// Arguments that a warning names one by one.
const MOST_NAMED: usize = 5;

/// Whether a JSON text contains hidden characters, as they are or as escapes of JSON. One pass, without recursion.
pub(super) fn in_json(text: &str) -> bool {
    visible::has_hidden(text) || text.contains('\\') && visible::has_hidden(&decoded(text))
}

/// How [`toolway_wire::json::Raw::members`] names a member whose name is not Unicode.
const NOT_UNICODE: char = char::REPLACEMENT_CHARACTER;
/// Stands for half of a character, which no text contains: a hidden character.
const HALF: char = '\u{fdd0}';

/// Whether a label contains hidden characters, or the name of a member that cannot be shown.
pub(super) fn in_label(label: &str) -> bool {
    label.contains(NOT_UNICODE) || visible::has_hidden(label)
}

/// The text with the escapes of JSON resolved. Quotes and what stands between strings stay.
fn decoded(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    // Code units of escapes in a row: two may be one character.
    let mut units = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let unit = rest.strip_prefix("\\u").and_then(|hex| u16::from_str_radix(hex.get(..4)?, 16).ok());
        if let Some(unit) = unit {
            units.push(unit);
            rest = &rest[6..];
            continue;
        }
        plain.extend(char::decode_utf16(units.drain(..)).map(|unit| unit.unwrap_or(HALF)));
        rest = &rest[letter.len_utf8()..];
        match (letter, rest.chars().next()) {
            ('\\', Some(escaped)) => {
                plain.push(match escaped {
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                });
                rest = &rest[escaped.len_utf8()..];
            }
            _ => plain.push(letter),
        }
    }
    plain.extend(char::decode_utf16(units).map(|unit| unit.unwrap_or(HALF)));
    plain
}

/// Warnings that name the arguments with hidden characters.
pub(crate) fn warnings(rows: &[ArgumentRow]) -> Vec<String> {
    let hidden: Vec<&ArgumentRow> = rows.iter().filter(|row| row.has_hidden).collect();
    let named = hidden.iter().take(MOST_NAMED).map(|row| match &row.whole {
        Some(_) => "the arguments contain hidden characters".to_owned(),
        None => format!("argument `{}` contains hidden characters", visible::name(&row.label)),
    });
    let more = hidden.len().saturating_sub(MOST_NAMED);
    named.chain((0 < more).then(|| format!("{more} more arguments contain hidden characters"))).collect()
}

#[cfg(test)]
mod tests {
    use super::{decoded, in_json};

    #[test]
    fn escapes_of_json_are_seen_through() {
        for text in [
            r#"{"a":"\u001b[2J"}"#,
            r#""\b""#,
            r#""\ud83d\ude00\u202e""#,
            r#""\udb40\udc41""#,
            "\"\u{202e}\"",
            r#""\r""#,
            r#"{"a":"x\ud800"}"#,
            r#""\udc00\ud83d""#,
        ] {
            assert!(in_json(text), "{text}");
        }
        for text in [r#"{"a":"\\u001b"}"#, r#""\n\t\r\n""#, r#""\ud83d\ude00""#, r#"{"a":"\u0041"}"#, "{\n\t\"a\": 1}"]
        {
            assert!(!in_json(text), "{text}");
        }
        assert_eq!(decoded(r#""\\\u0041\/\"\ud800""#), "\"\\A/\"\u{fdd0}\"");
        assert_eq!(decoded(r"\u00"), "u00");
    }
}
