//! A fast check for simple schemas, because compiling a full validator takes longer than most calls. It only proves that
//! arguments are valid; if it cannot, the full check decides.

use serde_json::{Map, Value};

/// Dialects in which the keywords below have the same meaning.
const DIALECTS: [&str; 4] = [
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
];

/// Whether these arguments are certainly valid. `false` for any schema with a keyword that is not handled here.
pub(super) fn is_certainly_valid(schema: &Value, arguments: &Value) -> bool {
    let (Some(schema), Some(_)) = (schema.as_object(), arguments.as_object()) else { return false };
    schema.get("$schema").is_none_or(is_known_dialect)
        && schema
            .iter()
            .all(|(keyword, content)| keyword == "$schema" || keyword_holds(schema, keyword, content, Some(arguments)))
}

/// Whether the keywords that are handled here mean the same in this dialect.
pub(super) fn is_known_dialect(dialect: &Value) -> bool {
    DIALECTS.iter().any(|known| dialect == known)
}

/// Whether a value is valid; without a value, whether the schema is simple enough to check one.
fn fits(schema: &Value, value: Option<&Value>) -> bool {
    schema
        .as_object()
        .is_some_and(|schema| schema.iter().all(|(keyword, content)| keyword_holds(schema, keyword, content, value)))
}

/// Whether the content of this keyword is well-formed and the value satisfies it.
fn keyword_holds(schema: &Map<String, Value>, keyword: &str, content: &Value, value: Option<&Value>) -> bool {
    match keyword {
        "title" | "description" | "$comment" => content.is_string(),
        "default" => true,
        "examples" => content.is_array(),
        "type" => content.as_str().is_some_and(|kind| is_of(kind, value)),
        "enum" => content.as_array().is_some_and(|allowed| value.is_none_or(|value| allowed.contains(value))),
        "properties" => content.as_object().is_some_and(|properties| are_fit(properties, value)),
        "required" => content.as_array().is_some_and(|names| are_present(names, value)),
        "additionalProperties" => content.as_bool().is_some_and(|others| others || are_known(schema, value)),
        "items" => match value {
            Some(Value::Array(items)) => fits(content, None) && items.iter().all(|item| fits(content, Some(item))),
            Some(_) | None => fits(content, None),
        },
        _ => false,
    }
}

/// Whether a value is of this type. Numbers that need float comparison are left to the full check.
fn is_of(kind: &str, value: Option<&Value>) -> bool {
    match (kind, value) {
        ("string" | "number" | "integer" | "boolean" | "object" | "array" | "null", None)
        | ("string", Some(Value::String(_)))
        | ("number", Some(Value::Number(_)))
        | ("boolean", Some(Value::Bool(_)))
        | ("object", Some(Value::Object(_)))
        | ("array", Some(Value::Array(_)))
        | ("null", Some(Value::Null)) => true,
        ("integer", Some(Value::Number(number))) => number.is_i64() || number.is_u64(),
        _ => false,
    }
}

fn are_fit(properties: &Map<String, Value>, value: Option<&Value>) -> bool {
    properties.iter().all(|(name, schema)| fits(schema, value.and_then(|value| value.get(name))))
}

/// Whether all required names are present, and listed only once.
fn are_present(names: &[Value], value: Option<&Value>) -> bool {
    let there = |name: &str| value.is_none_or(|value| value.get(name).is_some());
    let named_before = |index: usize, name: &Value| names[..index].contains(name);
    names.iter().enumerate().all(|(index, name)| name.as_str().is_some_and(there) && !named_before(index, name))
}

/// Whether the value has no other members than the schema names.
fn are_known(schema: &Map<String, Value>, value: Option<&Value>) -> bool {
    let Some(value) = value else { return true };
    let properties = schema.get("properties").and_then(Value::as_object);
    let known = |name: &String| properties.is_some_and(|properties| properties.contains_key(name));
    value.as_object().is_some_and(|value| value.keys().all(known))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::is_certainly_valid;

    fn full_check(schema: &Value, arguments: &Value) -> bool {
        jsonschema::options().offline().build(schema).is_ok_and(|validator| validator.is_valid(arguments))
    }

    fn schema() -> Value {
        json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "title": "Read",
            "required": ["path"],
            "additionalProperties": false,
            "properties": {
                "path": { "type": "string", "description": "Where", "default": "." },
                "limit": { "type": "integer", "examples": [1] },
                "ratio": { "type": "number" },
                "deep": { "type": "boolean" },
                "mode": { "enum": ["fast", "slow"] },
                "tags": { "type": "array", "items": { "type": "string" } },
                "in": { "type": "object", "properties": { "a": { "type": "null" } } },
            },
        })
    }

    #[test]
    fn fast_check_agrees_with_the_full_check() {
        let schema = schema();
        let fitting = [
            json!({ "path": "x" }),
            json!({ "path": "x", "limit": 3, "ratio": 0.5, "deep": true, "mode": "fast", "tags": ["a"], "in": { "a": null } }),
            json!({ "path": "x", "ratio": 3, "tags": [], "in": { "b": 1 } }),
        ];
        for arguments in fitting {
            assert!(is_certainly_valid(&schema, &arguments) && full_check(&schema, &arguments), "{arguments}");
        }
        let others = [
            json!({}),
            json!([]),
            json!({ "path": 1 }),
            json!({ "path": "x", "limit": 1.5 }),
            json!({ "path": "x", "other": 1 }),
            json!({ "path": "x", "mode": "no" }),
            json!({ "path": "x", "tags": ["a", 1] }),
            json!({ "path": "x", "in": { "a": 1 } }),
        ];
        for arguments in others {
            assert!(!is_certainly_valid(&schema, &arguments) && !full_check(&schema, &arguments), "{arguments}");
        }
    }

    #[test]
    fn unusual_or_invalid_schema_is_left_to_the_full_check() {
        for schema in [
            json!({ "type": "object", "properties": { "a": { "$ref": "#/x" } } }),
            json!({ "type": "object", "properties": { "a": { "type": "string", "format": "date" } } }),
            json!({ "type": ["object", "null"] }),
            json!({ "properties": { "a": true } }),
            json!({ "properties": { "a": { "type": 5 } } }),
            json!({ "required": ["b", "b"] }),
            json!({ "required": "b" }),
            json!({ "$schema": "http://json-schema.org/draft-04/schema#" }),
            json!({ "anyOf": [{}] }),
            json!({ "additionalProperties": {} }),
            json!(true),
        ] {
            assert!(!is_certainly_valid(&schema, &json!({ "b": 1 })), "{schema}");
        }
        assert!(is_certainly_valid(&json!({}), &json!({ "b": 1 })));
    }
}
