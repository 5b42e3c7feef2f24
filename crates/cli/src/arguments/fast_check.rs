//! Arguments that certainly fit their schema, seen without preparing for all that a schema can say: that takes longer
//! than most calls. What is not seen to fit is no mistake yet; the whole check says what is.

use serde_json::{Map, Value};

/// The dialects in which the words below mean the same.
const DIALECTS: [&str; 4] = [
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
];

/// Whether these arguments certainly fit this schema. A schema that says anything unusual is not looked into.
pub(super) fn fit(schema: &Value, arguments: &Value) -> bool {
    let (Some(schema), Some(_)) = (schema.as_object(), arguments.as_object()) else { return false };
    let dialect = schema.get("$schema").is_none_or(|dialect| DIALECTS.iter().any(|known| dialect == known));
    dialect && schema.iter().all(|(word, said)| word == "$schema" || holds(schema, word, said, Some(arguments)))
}

/// Whether a value fits; where there is none, whether it could be seen.
fn fits(schema: &Value, value: Option<&Value>) -> bool {
    schema.as_object().is_some_and(|schema| schema.iter().all(|(word, said)| holds(schema, word, said, value)))
}

/// Whether what a schema says with this word is well-formed and holds for a value.
fn holds(schema: &Map<String, Value>, word: &str, said: &Value, value: Option<&Value>) -> bool {
    match word {
        "title" | "description" | "$comment" => said.is_string(),
        "default" => true,
        "examples" => said.is_array(),
        "type" => said.as_str().is_some_and(|kind| is_of(kind, value)),
        "enum" => said.as_array().is_some_and(|allowed| value.is_none_or(|value| allowed.contains(value))),
        "properties" => said.as_object().is_some_and(|properties| are_fit(properties, value)),
        "required" => said.as_array().is_some_and(|names| are_there(names, value)),
        "additionalProperties" => said.as_bool().is_some_and(|others| others || are_known(schema, value)),
        "items" => match value {
            Some(Value::Array(items)) => fits(said, None) && items.iter().all(|item| fits(said, Some(item))),
            Some(_) | None => fits(said, None),
        },
        _ => false,
    }
}

/// Whether a value is of this kind. What floats cannot tell apart is left to the whole check.
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

/// Whether all of these names are there, each of them named once.
fn are_there(names: &[Value], value: Option<&Value>) -> bool {
    let there = |name: &str| value.is_none_or(|value| value.get(name).is_some());
    let named_before = |index: usize, name: &Value| names[..index].contains(name);
    names.iter().enumerate().all(|(index, name)| name.as_str().is_some_and(there) && !named_before(index, name))
}

/// Whether nothing is there but what the schema names.
fn are_known(schema: &Map<String, Value>, value: Option<&Value>) -> bool {
    let Some(value) = value else { return true };
    let properties = schema.get("properties").and_then(Value::as_object);
    let known = |name: &String| properties.is_some_and(|properties| properties.contains_key(name));
    value.as_object().is_some_and(|value| value.keys().all(known))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::fit;

    fn whole_check(schema: &Value, arguments: &Value) -> bool {
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
    fn what_is_seen_to_fit_passes_the_whole_check_and_what_does_not_pass_is_never_seen_to_fit() {
        let schema = schema();
        let fitting = [
            json!({ "path": "x" }),
            json!({ "path": "x", "limit": 3, "ratio": 0.5, "deep": true, "mode": "fast", "tags": ["a"], "in": { "a": null } }),
            json!({ "path": "x", "ratio": 3, "tags": [], "in": { "b": 1 } }),
        ];
        for arguments in fitting {
            assert!(fit(&schema, &arguments) && whole_check(&schema, &arguments), "{arguments}");
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
            assert!(!fit(&schema, &arguments) && !whole_check(&schema, &arguments), "{arguments}");
        }
    }

    #[test]
    fn a_schema_that_says_anything_unusual_or_is_none_is_left_to_the_whole_check() {
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
            assert!(!fit(&schema, &json!({ "b": 1 })), "{schema}");
        }
        assert!(fit(&json!({}), &json!({ "b": 1 })));
    }
}
