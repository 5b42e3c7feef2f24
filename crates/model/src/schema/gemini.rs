//! Gemini accepts a subset of JSON Schema (`parametersJsonSchema`); other keywords are dropped.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{children, references::name_of};
use crate::vendor::{GEMINI_FORMATS, GEMINI_KEYWORDS, is_plain_enum};

type Object = Map<String, Value>;

/// Keywords of one type only, which go with it where several types become alternatives.
const OF_TYPE: &[(&str, &[&str])] = &[
    ("object", &["properties", "additionalProperties", "required"]),
    ("array", &["items", "prefixItems", "minItems", "maxItems"]),
    ("number", &["minimum", "maximum"]),
    ("integer", &["minimum", "maximum"]),
    ("string", &["format"]),
];
/// Definitions inside each other that `allOf` may name.
const MAX_LEVELS: usize = 8;

/// Restricts a schema to the subset, at every level.
pub(super) fn restrict(schema: &mut Value) {
    let definitions = schema["$defs"].as_object().cloned().unwrap_or_default();
    restrict_one(schema, &definitions);
    if let Some(Value::Object(definitions)) = schema.get_mut("$defs") {
        break_cycles(definitions);
    }
}

fn restrict_one(schema: &mut Value, definitions: &Object) {
    let Value::Object(object) = schema else { return };
    inline_all(object, definitions, 0);
    // Nothing may stand beside a reference.
    if let Some(reference) = object.get("$ref").cloned() {
        object.clear();
        object.insert("$ref".to_owned(), reference);
        return;
    }
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(value) = object.remove(exclusive) {
            object.entry(bound).or_insert(value);
        }
    }
    // Without `patternProperties`, their values would count as additional ones.
    if object.contains_key("patternProperties") {
        object.remove("additionalProperties");
    }
    object.retain(|key, _| GEMINI_KEYWORDS.contains(&key.as_str()));
    restrict_values(object);
    split_types(object);
    let additional = object.get("additionalProperties").and_then(Value::as_bool);
    children(object).for_each(|inner| restrict_one(inner, definitions));
    if let Some(additional) = additional {
        object.insert("additionalProperties".to_owned(), additional.into());
    }
}

/// Takes over the members of `allOf` that are not set yet. A single reference stays one.
fn inline_all(object: &mut Object, definitions: &Object, level: usize) {
    let Some(Value::Array(branches)) = object.remove("allOf") else { return };
    if let ([only], true) = (branches.as_slice(), !object.contains_key("properties"))
        && let Some(reference) = only.get("$ref")
    {
        object.insert("$ref".to_owned(), reference.clone());
        return;
    }
    for branch in branches.into_iter().filter(|_| level < MAX_LEVELS) {
        let Value::Object(mut branch) = branch else { continue };
        if let Some(reference) = branch.remove("$ref") {
            let target = name_of(&reference).and_then(|name| definitions.get(name)?.as_object());
            let target = target.cloned().unwrap_or_default();
            target.into_iter().for_each(|(key, value)| add(&mut branch, key, value));
        }
        inline_all(&mut branch, definitions, level + 1);
        let others = branch.into_iter().filter(|(key, _)| key != "additionalProperties" && key != "$ref");
        others.for_each(|(key, value)| add(object, key, value));
    }
}

fn add(object: &mut Object, key: String, value: Value) {
    match (object.get_mut(&key), value) {
        (Some(Value::Object(mine)), Value::Object(theirs)) if key == "properties" => {
            for (name, schema) in theirs {
                mine.entry(name).or_insert(schema);
            }
        }
        (Some(Value::Array(mine)), Value::Array(theirs)) if key == "required" => {
            theirs.into_iter().for_each(|name| {
                if !mine.contains(&name) {
                    mine.push(name)
                }
            });
        }
        (Some(_), _) => {}
        (None, value) => drop(object.insert(key, value)),
    }
}

/// Values of `enum` are strings that are not empty, or numbers; required names belong to a property; formats are known.
fn restrict_values(object: &mut Object) {
    if object.get("enum").and_then(Value::as_array).is_some_and(|values| !is_plain_enum(values)) {
        object.remove("enum");
    }
    if object.get("format").is_some_and(|format| !GEMINI_FORMATS.iter().any(|known| format == known)) {
        object.remove("format");
    }
    let known: BTreeSet<String> =
        object.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys).cloned().collect();
    if let Some(Value::Array(required)) = object.get_mut("required") {
        required.retain(|name| name.as_str().is_some_and(|name| known.contains(name)));
        if required.is_empty() {
            object.remove("required");
        }
    }
}

/// A list of types may only add `null` to one; others become alternatives.
fn split_types(object: &mut Object) {
    let Some(Value::Array(types)) = object.get("type").cloned() else { return };
    if types.iter().filter(|kind| **kind != "null").count() < 2 {
        return;
    }
    object.remove("type");
    // Values that are listed, or other alternatives, say enough.
    if object.contains_key("enum") || object.contains_key("anyOf") || object.contains_key("oneOf") {
        return;
    }
    let mut alternatives = Vec::new();
    for kind in types {
        let mut alternative = Object::from_iter([("type".to_owned(), kind.clone())]);
        for key in OF_TYPE.iter().filter(|(name, _)| kind == *name).flat_map(|(_, keys)| *keys) {
            alternative.extend(object.get(*key).map(|value| ((*key).to_owned(), value.clone())));
        }
        alternatives.push(Value::Object(alternative));
    }
    object.retain(|key, _| !OF_TYPE.iter().any(|(_, keys)| keys.contains(&key.as_str())));
    object.insert("anyOf".to_owned(), alternatives.into());
}

/// A cycle of references must go through a property that is not required.
fn break_cycles(definitions: &mut Object) {
    let direct: BTreeMap<String, BTreeSet<String>> =
        definitions.iter().map(|(name, schema)| (name.clone(), references(schema))).collect();
    for (name, schema) in definitions.iter_mut() {
        let back: BTreeSet<String> = direct.keys().filter(|other| reaches(&direct, other, name)).cloned().collect();
        if back.contains(name) {
            loosen(schema, &back, false);
        }
    }
}

/// Names of definitions that a schema refers to.
pub(super) fn references(schema: &Value) -> BTreeSet<String> {
    let (mut found, mut copy) = (BTreeSet::new(), schema.clone());
    let mut waiting = vec![&mut copy];
    while let Some(schema) = waiting.pop() {
        let Value::Object(object) = schema else { continue };
        found.extend(object.get("$ref").and_then(name_of).map(str::to_owned));
        waiting.extend(children(object));
    }
    found
}

/// Whether one definition leads to another, possibly itself.
fn reaches(direct: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> bool {
    let (mut seen, mut waiting) = (BTreeSet::new(), vec![from]);
    while let Some(name) = waiting.pop() {
        for next in direct.get(name).into_iter().flatten() {
            if next == to {
                return true;
            }
            if seen.insert(next) {
                waiting.push(next);
            }
        }
    }
    false
}

/// Makes properties optional that lead back, and drops references back that stand in no property.
fn loosen(schema: &mut Value, back: &BTreeSet<String>, in_property: bool) {
    let Value::Object(object) = schema else { return };
    if object.get("$ref").and_then(name_of).is_some_and(|name| back.contains(name)) && !in_property {
        *schema = json!({});
        return;
    }
    let properties = object.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(Value::Array(required)) = object.get_mut("required") {
        let leads_back = |name: &Value| {
            let property = name.as_str().and_then(|name| properties.get(name));
            property.is_some_and(|property| !references(property).is_disjoint(back))
        };
        required.retain(|name| !leads_back(name));
        if required.is_empty() {
            object.remove("required");
        }
    }
    for (key, value) in object.iter_mut() {
        match value {
            Value::Object(named) if key == "properties" => {
                named.values_mut().for_each(|property| loosen(property, back, true));
            }
            Value::Array(list) => list.iter_mut().for_each(|inner| loosen(inner, back, in_property)),
            Value::Object(_) if key == "items" || key == "additionalProperties" => loosen(value, back, in_property),
            _ => {}
        }
    }
}
