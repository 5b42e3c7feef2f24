//! Adapts a tool's JSON Schema to what a vendor accepts. A tool that cannot be adapted is left out with a reason, so that
//! it does not make every request fail.
//!
//! An adapted schema may be wider than the original (a keyword is dropped), never narrower. The server checks the
//! arguments itself.

mod gemini;
mod root;

use serde_json::{Map, Value, json};

use crate::{ToolDefinition, Wire};

/// Levels of nesting that a schema may have.
const MAX_DEPTH: usize = 32;
/// Bytes that a schema may have.
const MAX_BYTES: usize = 256 * 1024;
/// Characters of a description on OpenAI's wires.
const MAX_DESCRIPTION: usize = 1_024;

/// Why a tool is not offered to a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tool `{name}` is not offered to {vendor}: {reason}", vendor = wire.as_str())]
pub struct LeftOut {
    /// Name of the tool.
    pub name: String,
    /// The wire it was to be adapted for.
    pub wire: Wire,
    /// What the vendor would refuse.
    pub reason: String,
}

/// Adapts one tool.
pub fn adapt(wire: Wire, name: &str, description: &str, schema: &Value) -> Result<ToolDefinition, LeftOut> {
    let left_out = |reason: String| LeftOut { name: name.to_owned(), wire, reason };
    if !is_valid_name(name) {
        return Err(left_out("its name is not valid for the vendor".to_owned()));
    }
    let input_schema = adapt_schema(wire, schema).map_err(left_out)?;
    let description = match wire {
        Wire::Openai | Wire::OpenaiChat => shortened(description),
        _ => description.to_owned(),
    };
    Ok(ToolDefinition { name: name.to_owned(), description, input_schema })
}

/// The names that all vendors accept.
pub fn is_valid_name(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    first && name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn shortened(description: &str) -> String {
    if description.chars().count() <= MAX_DESCRIPTION {
        return description.to_owned();
    }
    description.chars().take(MAX_DESCRIPTION - 1).chain(['…']).collect()
}

fn adapt_schema(wire: Wire, schema: &Value) -> Result<Value, String> {
    if schema.to_string().len() > MAX_BYTES {
        return Err(format!("its schema is larger than {MAX_BYTES} bytes"));
    }
    let mut object = match schema {
        Value::Object(object) => object.clone(),
        Value::Bool(true) | Value::Null => Map::new(),
        _ => return Err("its schema is not an object".to_owned()),
    };
    root::resolve(&mut object)?;
    check_references(schema, &Value::Object(object.clone()))?;
    let mut schema = Value::Object(object);
    walk(wire, &mut schema, 0)?;
    if wire == Wire::Gemini {
        gemini::restrict(&mut schema);
    }
    Ok(schema)
}

/// Every `$ref` must point into the schema itself: vendors fetch nothing.
fn check_references(original: &Value, adapted: &Value) -> Result<(), String> {
    let mut waiting = vec![adapted];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(reference)) = object.get("$ref") {
                    let target = reference.strip_prefix('#').map(|pointer| original.pointer(pointer));
                    match target {
                        Some(Some(_)) => {}
                        Some(None) => return Err(format!("`$ref` `{reference}` points to nothing")),
                        None => return Err(format!("`$ref` `{reference}` points outside the schema")),
                    }
                }
                waiting.extend(object.values());
            }
            Value::Array(list) => waiting.extend(list),
            _ => {}
        }
    }
    Ok(())
}

/// Keywords whose value is a schema.
const ONE: &[&str] = &[
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
];
/// Keywords whose value is an object of schemas.
const NAMED: &[&str] = &["properties", "$defs", "definitions", "patternProperties", "dependentSchemas"];
/// Keywords whose value is a list of schemas.
const MANY: &[&str] = &["anyOf", "oneOf", "allOf", "prefixItems"];

fn walk(wire: Wire, schema: &mut Value, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("its schema is nested deeper than {MAX_DEPTH} levels"));
    }
    // `true` and `false` as schemas are refused by some vendors.
    match schema {
        Value::Bool(true) => *schema = json!({}),
        Value::Bool(false) => *schema = json!({ "not": {} }),
        _ => {}
    }
    let Value::Object(object) = schema else { return Ok(()) };
    for key in ["$schema", "$id", "$comment"] {
        object.remove(key);
    }
    if let Some(value) = object.remove("const") {
        object.entry("enum").or_insert_with(|| json!([value]));
    }
    complete(object);
    check_names(wire, object)?;
    // `additionalProperties: false` is understood by all; other booleans stay as they are.
    for key in ONE {
        if let Some(inner) =
            object.get_mut(*key).filter(|inner| !(*key == "additionalProperties" && inner.is_boolean()))
        {
            match inner {
                // The old form of tuples.
                Value::Array(list) => list.iter_mut().try_for_each(|inner| walk(wire, inner, depth + 1))?,
                inner => walk(wire, inner, depth + 1)?,
            }
        }
    }
    for key in NAMED {
        if let Some(Value::Object(named)) = object.get_mut(*key) {
            named.values_mut().try_for_each(|inner| walk(wire, inner, depth + 1))?;
        }
    }
    for key in MANY {
        if let Some(Value::Array(list)) = object.get_mut(*key) {
            list.iter_mut().try_for_each(|inner| walk(wire, inner, depth + 1))?;
        }
    }
    Ok(())
}

/// Adds what vendors require: `properties` of objects, `items` of arrays; and drops names in `required` without a property.
fn complete(object: &mut Map<String, Value>) {
    let is = |object: &Map<String, Value>, name: &str| object.get("type").is_some_and(|kind| kind == name);
    if is(object, "object") {
        object.entry("properties").or_insert_with(|| json!({}));
    }
    if is(object, "array") && !object.contains_key("prefixItems") {
        object.entry("items").or_insert_with(|| json!({}));
    }
    // Tuples in the old form become a list of any of them.
    if let Some(Value::Array(list)) = object.get("items") {
        let any = list.clone();
        object.insert("items".to_owned(), if any.is_empty() { json!({}) } else { json!({ "anyOf": any }) });
    }
    let known = object.get("properties").and_then(Value::as_object).cloned();
    if let (Some(known), Some(Value::Array(required))) = (known, object.get_mut("required")) {
        required.retain(|name| name.as_str().is_some_and(|name| known.contains_key(name)));
    }
}

fn check_names(wire: Wire, object: &Map<String, Value>) -> Result<(), String> {
    if wire != Wire::Anthropic {
        return Ok(());
    }
    let valid = |name: &str| {
        (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
    };
    let properties = object.get("properties").and_then(Value::as_object);
    match properties.into_iter().flat_map(Map::keys).find(|name| !valid(name)) {
        Some(name) => Err(format!("the property name `{name}` is not valid for the vendor")),
        None => Ok(()),
    }
}
