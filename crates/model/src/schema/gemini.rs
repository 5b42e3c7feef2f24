//! Gemini accepts a subset of JSON Schema; other keywords are dropped.

use serde_json::{Map, Value, json};

/// Keywords of `parametersJsonSchema`.
const KEYWORDS: &[&str] = &[
    "$defs",
    "$ref",
    "$anchor",
    "type",
    "format",
    "title",
    "description",
    "enum",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "anyOf",
    "oneOf",
    "properties",
    "additionalProperties",
    "required",
];

/// Restricts a schema to the subset, at every level.
pub(super) fn restrict(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    if let Some(definitions) = object.remove("definitions") {
        object.entry("$defs").or_insert(definitions);
    }
    // Nothing may stand beside a reference.
    if let Some(reference) = object.get("$ref").cloned() {
        let reference = reference.as_str().map(|text| text.replace("#/definitions/", "#/$defs/")).unwrap_or_default();
        let definitions = object.remove("$defs");
        object.retain(|key, _| key == "type" && definitions.is_some());
        object.insert("$ref".to_owned(), reference.into());
        if let Some(definitions) = definitions {
            object.insert("$defs".to_owned(), definitions);
        }
    }
    if let Some(Value::Array(branches)) = object.remove("allOf") {
        branches.into_iter().for_each(|branch| merge(object, branch));
    }
    object.retain(|key, _| KEYWORDS.contains(&key.as_str()));
    restrict_enum(object);
    for key in ["items", "additionalProperties"] {
        object.get_mut(key).into_iter().for_each(restrict);
    }
    for key in ["properties", "$defs"] {
        if let Some(Value::Object(named)) = object.get_mut(key) {
            named.values_mut().for_each(restrict);
        }
    }
    for key in ["anyOf", "oneOf", "prefixItems"] {
        if let Some(Value::Array(list)) = object.get_mut(key) {
            list.iter_mut().for_each(restrict);
        }
    }
}

/// Members that are not set yet are taken over.
fn merge(object: &mut Map<String, Value>, branch: Value) {
    let Value::Object(branch) = branch else { return };
    for (key, value) in branch {
        match (object.get_mut(&key), value) {
            (Some(Value::Object(mine)), Value::Object(theirs)) if key == "properties" => {
                for (name, schema) in theirs {
                    mine.entry(name).or_insert(schema);
                }
            }
            (Some(Value::Array(mine)), Value::Array(theirs)) if key == "required" => mine.extend(theirs),
            (Some(_), _) => {}
            (None, value) => {
                object.insert(key, value);
            }
        }
    }
}

/// Values of `enum` are strings that are not empty, or numbers; another list is dropped.
fn restrict_enum(object: &mut Map<String, Value>) {
    let Some(Value::Array(values)) = object.get_mut("enum") else { return };
    values.retain(|value| *value != json!(""));
    let usable = values.iter().all(Value::is_string) || values.iter().all(Value::is_number);
    if values.is_empty() || !usable {
        object.remove("enum");
    }
}
