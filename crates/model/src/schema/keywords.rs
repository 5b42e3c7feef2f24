//! Values of keywords: what the meta-schema (2020-12) does not allow is translated from older drafts and OpenAPI, or
//! dropped; what vendors require besides is added.

use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// The types of JSON Schema.
const TYPES: &[&str] = &["null", "boolean", "object", "array", "number", "integer", "string"];
/// Keywords that no vendor needs, or that only make sense with others that are dropped.
const DROPPED: &[&str] =
    &["$schema", "$id", "id", "$comment", "$vocabulary", "$anchor", "additionalItems", "dependencies", "nullable"];

/// Corrects the keywords of one schema; not of those inside it.
pub(super) fn correct(object: &mut Object) {
    let nullable = object.get("nullable") == Some(&json!(true));
    DROPPED.iter().for_each(|key| drop(object.remove(*key)));
    translate_bounds(object);
    object.retain(|key, value| is_valid(key, value));
    translate_enum(object);
    correct_type(object, nullable);
    complete(object);
    correct_required(object);
}

/// Whether the meta-schema allows the value. Unknown keywords are allowed.
fn is_valid(key: &str, value: &Value) -> bool {
    let is_list = |such: fn(&Value) -> bool| value.as_array().is_some_and(|list| list.iter().all(such));
    let is_named = |such: fn(&Value) -> bool| value.as_object().is_some_and(|named| named.values().all(such));
    match key {
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minContains"
        | "maxContains" => value.is_u64(),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "multipleOf" => value.as_f64().is_some_and(|number| number > 0.0),
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        "title" | "description" | "format" | "pattern" | "$ref" | "contentEncoding" | "contentMediaType" => {
            value.is_string()
        }
        "enum" => value.as_array().is_some_and(|values| !values.is_empty()),
        "examples" => value.is_array(),
        "required" => value.is_array(),
        "properties" | "$defs" | "patternProperties" | "dependentSchemas" => is_named(is_schema),
        "dependentRequired" => {
            is_named(|names| names.as_array().is_some_and(|names| names.iter().all(Value::is_string)))
        }
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
            is_list(is_schema) && value.as_array().is_some_and(|list| !list.is_empty())
        }
        "items" => is_schema(value) || is_list(is_schema),
        key if super::ONE.contains(&key) => is_schema(value),
        _ => true,
    }
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

/// Draft 4 has `exclusiveMinimum: true` beside `minimum`.
fn translate_bounds(object: &mut Object) {
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(Value::Bool(is_exclusive)) = object.get(exclusive).cloned() {
            object.remove(exclusive);
            if let (true, Some(value)) = (is_exclusive, object.remove(bound)) {
                object.insert(exclusive.to_owned(), value);
            }
        }
    }
}

/// `const` becomes `enum`, which all vendors know; values are listed once.
fn translate_enum(object: &mut Object) {
    if let Some(value) = object.remove("const") {
        object.entry("enum").or_insert_with(|| json!([value]));
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        unique(values);
    }
}

/// Unknown types are dropped. Without a type, the one of all values in `enum` is added.
fn correct_type(object: &mut Object, nullable: bool) {
    let mut types: Vec<Value> = match object.remove("type") {
        Some(Value::Array(types)) => types,
        Some(kind) => vec![kind],
        None => object.get("enum").and_then(type_of_values).into_iter().collect(),
    };
    types.retain(|kind| kind.as_str().is_some_and(|kind| TYPES.contains(&kind)));
    unique(&mut types);
    // OpenAPI's `nullable`.
    if nullable && !types.is_empty() && !types.contains(&json!("null")) && !object.contains_key("enum") {
        types.push(json!("null"));
    }
    match types.as_slice() {
        [] => {}
        [only] => drop(object.insert("type".to_owned(), only.clone())),
        _ => drop(object.insert("type".to_owned(), types.into())),
    }
}

fn type_of_values(values: &Value) -> Option<Value> {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let kinds: Vec<&str> = values.as_array()?.iter().map(kind).collect();
    let first = *kinds.first()?;
    kinds.iter().all(|kind| *kind == first).then(|| first.into())
}

/// Adds what vendors require: `properties` of objects and `items` of arrays, as a schema.
fn complete(object: &mut Object) {
    let may_be = |object: &Object, name: &str| match object.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == name),
        Some(kind) => kind == name,
        None => false,
    };
    if may_be(object, "object") {
        object.entry("properties").or_insert_with(|| json!({}));
    }
    if may_be(object, "array") {
        object.entry("items").or_insert_with(|| json!({}));
    }
    match object.get("items") {
        // The old form of tuples becomes a list of any of them.
        Some(Value::Array(list)) => {
            let any = if list.is_empty() { json!({}) } else { json!({ "anyOf": list }) };
            object.insert("items".to_owned(), any);
        }
        // Closed tuples.
        Some(Value::Bool(_)) => drop(object.insert("items".to_owned(), json!({}))),
        _ => {}
    }
}

/// Names in `required` are listed once and, where properties are known, belong to one.
fn correct_required(object: &mut Object) {
    let known = object.get("properties").and_then(Value::as_object).cloned();
    let Some(Value::Array(required)) = object.get_mut("required") else { return };
    let all = std::mem::take(required);
    for name in all {
        let is_known = name.as_str().is_some_and(|name| known.as_ref().is_none_or(|known| known.contains_key(name)));
        if is_known && !required.contains(&name) {
            required.push(name);
        }
    }
}

/// Keeps the first of equal values.
fn unique(values: &mut Vec<Value>) {
    for value in std::mem::take(values) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
}
