//! Adapts the JSON Schema of a whole answer to what a vendor enforces. `None` means that the vendor cannot: then the model
//! is told the schema in words, and its answer is checked all the same.

use serde_json::{Map, Value};

use super::{check_names, children, gemini, references, walk};
use crate::Vendor;

type Object = Map<String, Value>;

/// Keywords that Anthropic enforces or ignores; it refuses requests with others.
const ANTHROPIC: &[&str] = &[
    "$defs",
    "$ref",
    "type",
    "title",
    "description",
    "enum",
    "const",
    "default",
    "format",
    "items",
    "minItems",
    "anyOf",
    "allOf",
    "properties",
    "additionalProperties",
    "required",
];
/// Formats that Anthropic enforces.
const FORMATS: &[&str] = &["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

/// The schema as Gemini takes it. It may be wider than the original.
pub(crate) fn for_gemini(schema: &Value) -> Option<Value> {
    let mut schema = gathered(Vendor::Gemini, schema)?;
    gemini::restrict(&mut schema);
    references::gather(schema.as_object_mut()?).ok()?;
    Some(schema)
}

/// The schema as Anthropic takes it. Objects have no properties beside those that are listed, which is narrower than the
/// original: what matches it matches the original's properties too. Dropped keywords are checked afterwards.
pub(crate) fn for_anthropic(schema: &Value) -> Option<Value> {
    let mut schema = gathered(Vendor::Anthropic, schema)?;
    if is_recursive(&schema) || schema["type"] != "object" {
        return None;
    }
    restrict(&mut schema)?;
    Some(schema)
}

fn gathered(vendor: Vendor, schema: &Value) -> Option<Value> {
    let mut object = schema.as_object()?.clone();
    references::gather(&mut object).ok()?;
    let mut schema = Value::Object(object);
    walk(&mut schema, 0).ok()?;
    check_names(vendor, schema.as_object()?).ok()?;
    Some(schema)
}

/// Restricts a schema at every level; `None` if it allows something that Anthropic cannot express.
fn restrict(schema: &mut Value) -> Option<()> {
    let object = schema.as_object_mut()?;
    if let Some(alternatives) = object.remove("oneOf") {
        object.entry("anyOf").or_insert(alternatives);
    }
    object.retain(|key, _| ANTHROPIC.contains(&key.as_str()));
    if object.get("format").is_some_and(|format| !FORMATS.iter().any(|known| format == known)) {
        object.remove("format");
    }
    if object.get("minItems").and_then(Value::as_u64).is_some_and(|least| least > 1) {
        object.remove("minItems");
    }
    close(object)?;
    // Any value at all cannot be expressed.
    let says_something =
        ["type", "enum", "const", "$ref", "anyOf", "allOf"].iter().any(|key| object.contains_key(*key));
    let inner: Option<Vec<()>> = children(object).filter(|inner| !inner.is_boolean()).map(restrict).collect();
    inner.filter(|_| says_something).map(drop)
}

/// Closes an object against further properties; `None` if it is meant to have them.
fn close(object: &mut Object) -> Option<()> {
    let kinds = object.get("type");
    let is_object = kinds.is_some_and(|kinds| {
        *kinds == "object" || kinds.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "object"))
    });
    if !is_object && !object.contains_key("properties") {
        return Some(());
    }
    let additional = object.get("additionalProperties");
    let is_closed = additional == Some(&Value::Bool(false));
    let properties = object.get("properties").and_then(Value::as_object);
    let is_listed =
        |name: &Value| name.as_str().is_some_and(|name| properties.is_some_and(|all| all.contains_key(name)));
    let required = object.get("required").and_then(Value::as_array);
    let is_map = additional.is_some_and(Value::is_object) || (!is_closed && properties.is_none_or(Map::is_empty));
    if is_map || !required.is_none_or(|required| required.iter().all(is_listed)) {
        return None;
    }
    object.insert("additionalProperties".to_owned(), false.into());
    Some(())
}

/// Whether a definition leads back to itself: those without references are taken away until none is left.
fn is_recursive(schema: &Value) -> bool {
    let definitions = schema["$defs"].as_object().into_iter().flatten();
    let mut open: Vec<(&str, Vec<String>)> =
        definitions.map(|(name, schema)| (name.as_str(), gemini::references(schema).into_iter().collect())).collect();
    loop {
        let before = open.len();
        let names: Vec<&str> = open.iter().map(|(name, _)| *name).collect();
        open.retain(|(_, references)| references.iter().any(|name| names.contains(&name.as_str())));
        if open.len() == before {
            return before > 0;
        }
    }
}
