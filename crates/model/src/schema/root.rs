//! The root of a tool's schema: vendors require an object without `anyOf`, `oneOf`, `allOf`, `enum` or `not` at the top.

use serde_json::{Map, Value, json};

use super::references::name_of;

/// References and alternatives inside each other at the top.
const MAX_LEVELS: usize = 8;

type Object = Map<String, Value>;

/// Makes the root a plain object schema. Alternatives become one object with the properties of all of them, of which
/// none is required unless all require it.
pub(super) fn resolve(root: &mut Object) -> Result<(), String> {
    let definitions = root.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    flatten(root, &definitions, 0)?;
    if !may_be_object(root) {
        return Err("its arguments are not an object".to_owned());
    }
    for key in ["enum", "const", "not"] {
        root.remove(key);
    }
    root.insert("type".to_owned(), json!("object"));
    root.entry("properties").or_insert_with(|| json!({}));
    Ok(())
}

fn may_be_object(schema: &Object) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.contains(&json!("object")),
        _ => true,
    }
}

/// Replaces a reference and alternatives by what they say about properties.
fn flatten(object: &mut Object, definitions: &Object, level: usize) -> Result<(), String> {
    if level > MAX_LEVELS {
        return Err("its references or alternatives at the top do not end".to_owned());
    }
    if let Some(reference) = object.remove("$ref") {
        let target = name_of(&reference).and_then(|name| definitions.get(name)).cloned().unwrap_or_default();
        let target = flat(target, definitions, level)?;
        target.into_iter().for_each(|(key, value)| add(object, key, value));
    }
    for branch in branches(object, "allOf", definitions, level)? {
        // In a branch these concern its own properties only.
        let others = branch
            .into_iter()
            .filter(|(key, _)| !["additionalProperties", "unevaluatedProperties"].contains(&key.as_str()));
        others.for_each(|(key, value)| add(object, key, value));
    }
    for key in ["anyOf", "oneOf"] {
        let is_given = object.get(key).is_some_and(Value::is_array);
        let alternatives = branches(object, key, definitions, level)?;
        let alternatives: Vec<Object> = alternatives.into_iter().filter(may_be_object).collect();
        if is_given && alternatives.is_empty() {
            return Err("its arguments are not an object".to_owned());
        }
        merge_alternatives(object, &alternatives);
    }
    Ok(())
}

fn branches(object: &mut Object, key: &str, definitions: &Object, level: usize) -> Result<Vec<Object>, String> {
    let Some(Value::Array(branches)) = object.remove(key) else { return Ok(Vec::new()) };
    branches.into_iter().map(|branch| flat(branch, definitions, level)).collect()
}

fn flat(schema: Value, definitions: &Object, level: usize) -> Result<Object, String> {
    let mut object = match schema {
        Value::Object(object) => object,
        Value::Bool(false) => json_object(json!({ "type": "null" })),
        _ => Object::new(),
    };
    flatten(&mut object, definitions, level + 1)?;
    Ok(object)
}

fn json_object(value: Value) -> Object {
    if let Value::Object(object) = value { object } else { Object::new() }
}

/// Adds a keyword that must hold as well. Where both cannot be expressed, the first one stays.
fn add(object: &mut Object, key: String, value: Value) {
    match (object.get_mut(&key), value) {
        (Some(Value::Object(mine)), Value::Object(theirs)) if key == "properties" || key == "$defs" => {
            for (name, schema) in theirs {
                mine.entry(name).or_insert(schema);
            }
        }
        (Some(Value::Array(mine)), Value::Array(theirs)) if key == "required" => union(mine, theirs),
        (Some(_), _) => {}
        (None, value) => {
            object.insert(key, value);
        }
    }
}

fn merge_alternatives(object: &mut Object, alternatives: &[Object]) {
    let mut properties: Map<String, Value> = Map::new();
    for (name, schema) in alternatives.iter().filter_map(|branch| branch.get("properties")?.as_object()).flatten() {
        match properties.get_mut(name) {
            None => {
                properties.insert(name.clone(), json!([schema]));
            }
            Some(Value::Array(before)) => union(before, vec![schema.clone()]),
            Some(_) => {}
        }
    }
    for schemas in properties.values_mut() {
        // Different alternatives may want different values.
        *schemas = if schemas[1].is_null() { schemas[0].clone() } else { json!({ "anyOf": schemas }) };
    }
    if !properties.is_empty() {
        add(object, "properties".to_owned(), properties.into());
    }
    let required = |branch: &Object| branch.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut lists = alternatives.iter().map(required);
    let first = lists.next().unwrap_or_default();
    let common = lists.fold(first, |common, list| common.into_iter().filter(|name| list.contains(name)).collect());
    if !common.is_empty() {
        add(object, "required".to_owned(), common.into());
    }
}

fn union(mine: &mut Vec<Value>, theirs: Vec<Value>) {
    for value in theirs {
        if !mine.contains(&value) {
            mine.push(value);
        }
    }
}
