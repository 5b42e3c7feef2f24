//! Masks the values of members whose names look like a secret, in a text that may be JSON: everything else keeps every byte.

use toolway_config::is_secret_name;

/// Replacement of a secret.
pub(super) const MASK: &str = "•••";
/// Texts with JSON within texts with JSON. What is deeper is masked as a whole.
const MAX_DEPTH: usize = 8;
/// Members of the protocol that are schemas.
const SCHEMAS: [&str; 3] = ["inputSchema", "outputSchema", "requestedSchema"];
/// Members of a schema whose values are values of what it describes.
const SCHEMA_VALUES: [&str; 5] = ["default", "const", "enum", "example", "examples"];

/// The text with masked values. Also looks into texts that contain JSON.
pub(super) fn mask_members(text: &str) -> String {
    mask_at(text, MAX_DEPTH)
}

/// An array or object that is open.
struct Container {
    /// Whether it is a schema of the protocol, or within one.
    is_schema: bool,
    /// Whether it has the schemas of members by their names.
    has_schemas: bool,
    /// Whether it is the schema of a member whose name looks like a secret.
    is_of_secret: bool,
}

fn mask_at(text: &str, depth: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut open: Vec<Container> = Vec::new();
    // The name of the member whose value comes next.
    let mut name: Option<String> = None;
    while let Some(at) = rest.find(['"', '{', '[', '}', ']', ',']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let sign = &rest[..1];
        if sign != "\"" {
            match sign {
                "{" | "[" => open.push(Container::of(name.take(), open.last())),
                "," => name = None,
                _ => drop(open.pop()),
            }
            out.push_str(sign);
            rest = &rest[1..];
            continue;
        }
        let literal = &rest[..literal_length(rest)];
        let after = &rest[literal.len()..];
        rest = after;
        if !after.trim_start().starts_with(':') {
            out.push_str(&mask_within(literal, depth));
            continue;
        }
        out.push_str(literal);
        let key = unescaped(literal);
        let value = &after[after.len() - after.trim_start()[1..].trim_start().len()..];
        if is_masked(&key, value, open.last()) {
            out.push_str(&after[..after.len() - value.len()]);
            out.push('"');
            out.push_str(MASK);
            out.push('"');
            rest = &value[value_length(value)..];
        } else {
            name = Some(key);
        }
    }
    out.push_str(rest);
    out
}

impl Container {
    /// The value of a member of this name; `None` for an element of an array.
    fn of(name: Option<String>, within: Option<&Self>) -> Self {
        let is_member = within.is_some_and(|within| within.has_schemas);
        let name = name.unwrap_or_default();
        let is_schema = within.is_some_and(|within| within.is_schema) || SCHEMAS.contains(&name.as_str());
        Self {
            is_schema,
            has_schemas: is_schema && !is_member && matches!(name.as_str(), "properties" | "$defs" | "definitions"),
            is_of_secret: is_member && is_secret_name(&name),
        }
    }
}

/// Whether the value of a member is masked.
fn is_masked(name: &str, value: &str, within: Option<&Container>) -> bool {
    if within.is_some_and(|schema| schema.is_of_secret && SCHEMA_VALUES.contains(&name)) {
        return true;
    }
    // The protocol's name of a progress, and numbers of tokens of models.
    let is_number = value.starts_with(|first: char| first.is_ascii_digit() || first == '-');
    let is_count = is_number && name.to_ascii_lowercase().ends_with("tokens");
    let is_plain = ["true", "false", "null"].iter().any(|plain| value.starts_with(plain));
    let is_schema = value.starts_with('{') && within.is_some_and(|within| within.has_schemas);
    is_secret_name(name) && name != "progressToken" && !is_count && !is_plain && !is_schema
}

/// A text, with masked values of the JSON in it.
fn mask_within(literal: &str, depth: usize) -> String {
    let unescaped = unescaped(literal);
    let Some(at) = unescaped.find(['{', '[']).filter(|_| unescaped.contains('"')) else { return literal.to_owned() };
    if depth == 0 {
        return format!("\"{MASK}\"");
    }
    let masked = mask_at(&unescaped[at..], depth - 1);
    if masked == unescaped[at..] {
        return literal.to_owned();
    }
    serde_json::Value::from(format!("{}{masked}", &unescaped[..at])).to_string()
}

/// What a literal stands for; its own text if it is invalid.
fn unescaped(literal: &str) -> String {
    serde_json::from_str(literal).unwrap_or_else(|_| literal.trim_matches('"').to_owned())
}

/// The length of the string literal at the beginning of `text`, quotes included.
fn literal_length(text: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !escaped => return index + 1,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// The length of the value at the beginning of `text`; the whole length if it has no end.
fn value_length(text: &str) -> usize {
    match text.as_bytes().first() {
        Some(b'"') => literal_length(text),
        Some(b'{' | b'[') => container_length(text),
        _ => text.find([',', '}', ']']).unwrap_or(text.len()),
    }
}

fn container_length(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(found) = text[at..].find(['"', '{', '[', '}', ']']) {
        at += found;
        match text.as_bytes()[at] {
            b'"' => at += literal_length(&text[at..]),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            _ => {
                depth = depth.saturating_sub(1);
                at += 1;
                if depth == 0 {
                    return at;
                }
            }
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::mask_members;

    #[test]
    fn every_value_of_a_member_with_a_secret_name_is_masked() {
        for (text, shown) in [
            (r#"{"password" : "hunter2","x":"y"}"#, r#"{"password" : "•••","x":"y"}"#),
            (r#"{"apiKey":"a\"b","n":1}"#, r#"{"apiKey":"•••","n":1}"#),
            (
                r#"{"accessToken":"a","refresh_token":"b","id_token":"c"}"#,
                r#"{"accessToken":"•••","refresh_token":"•••","id_token":"•••"}"#,
            ),
            (r#"{"password":1234,"privateKey":[1,{"a":"]"}],"n":1}"#, r#"{"password":"•••","privateKey":"•••","n":1}"#),
            (r#"{"passwords":["a"],"cookie":{"a":"}"},"b":[2]}"#, r#"{"passwords":"•••","cookie":"•••","b":[2]}"#),
            (r#"{"pass\u0077ord":"a"}"#, r#"{"pass\u0077ord":"•••"}"#),
            (r#"{"secret":{"inner":"plain"}}"#, r#"{"secret":"•••"}"#),
            (r#"{"token":"cut of"#, r#"{"token":"•••""#),
            (r#"{"token":{"cut":["of""#, r#"{"token":"•••""#),
        ] {
            assert_eq!(mask_members(text), shown);
        }
    }

    #[test]
    fn what_is_no_secret_keeps_every_byte() {
        for text in [
            r#"{"progressToken":7,"cut":"of"#,
            r#"{"maxTokens":20,"usage":{"inputTokens":5},"private":true,"token":null}"#,
            r#"{"inputSchema":{"properties":{"token":{"type":"string"},"monkey":{"type":"number"}}}}"#,
            r#"{"text":"a {\"n\": 1.0e3,  \"s\": \"\u00e9\"}","numbers":[1.50,2]}"#,
            r#"["a","b:c",{"x" : [ ] }] and 5" of "prose": yes"#,
            "502 Bad Gateway",
            "\"",
            "",
        ] {
            assert_eq!(mask_members(text), text);
        }
    }

    #[test]
    fn json_within_texts_is_masked_like_any_other() {
        let inner = r#"{"n": 1, "accessToken": "hunter2"}"#;
        for text in [inner.to_owned(), format!("Created 5\" wide: {inner}"), format!("```json\n[{inner}]\n```")] {
            let deeper = serde_json::json!({ "text": text }).to_string();
            for content in [text, deeper] {
                let message = serde_json::json!({ "result": { "content": [{ "type": "text", "text": content }] } });
                let masked = mask_members(&message.to_string());
                assert!(!masked.contains("hunter2") && masked.contains("•••"), "{masked}");
                serde_json::from_str::<serde_json::Value>(&masked).unwrap();
            }
        }
        let mut nested = inner.to_owned();
        for _ in 0..12 {
            nested = serde_json::json!([nested]).to_string();
        }
        assert!(!mask_members(&nested).contains("hunter2"));
    }

    #[test]
    fn the_schema_of_a_secret_is_shown_without_the_values_in_it() {
        let schema =
            r#"{"inputSchema":{"properties":{"token":{"type":"string","default":"hunter2","enum":["hunter3"]}}}}"#;
        let shown = r#"{"inputSchema":{"properties":{"token":{"type":"string","default":"•••","enum":"•••"}}}}"#;
        assert_eq!(mask_members(schema), shown);
        // A result may look like a schema.
        let result = r#"{"properties":{"token":{"type":"text","value":"hunter2"}}}"#;
        assert_eq!(mask_members(result), r#"{"properties":{"token":"•••"}}"#);
    }
}
