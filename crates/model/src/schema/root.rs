//! The root of a tool's schema: vendors require an object without `anyOf`, `oneOf`, `allOf` or `enum` at the top.

use serde_json::{Map, Value, json};

/// Makes the root a plain object schema. Alternatives become one object with the properties of all of them, of which
/// none is required unless all require it.
pub(super) fn resolve(root: &mut Map<String, Value>) -> Result<(), String> {
    follow_reference(root)?;
    match root.get("type") {
        None => {}
        Some(Value::String(kind)) if kind == "object" => {}
        Some(Value::Array(kinds)) if kinds.contains(&json!("object")) => {}
        Some(_) => return Err("its arguments are not an object".to_owned()),
    }
    root.insert("type".to_owned(), json!("object"));
    root.remove("enum");
    root.remove("not");
    for key in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(branches)) = root.remove(key) {
            merge(root, key, &branches)?;
        }
    }
    root.entry("properties").or_insert_with(|| json!({}));
    Ok(())
}

/// A root that is only a `$ref` is replaced by its target, once.
fn follow_reference(root: &mut Map<String, Value>) -> Result<(), String> {
    let Some(Value::String(reference)) = root.get("$ref").cloned() else { return Ok(()) };
    let whole = Value::Object(root.clone());
    let target = reference.strip_prefix('#').and_then(|pointer| whole.pointer(pointer)).and_then(Value::as_object);
    let target = target.filter(|target| !target.contains_key("$ref")).cloned();
    let Some(target) = target else { return Err(format!("`$ref` `{reference}` at the top cannot be resolved")) };
    root.remove("$ref");
    for (key, value) in target {
        root.entry(key).or_insert(value);
    }
    Ok(())
}

fn merge(root: &mut Map<String, Value>, key: &str, branches: &[Value]) -> Result<(), String> {
    let whole = Value::Object(root.clone());
    let mut required: Option<Vec<Value>> = None;
    for branch in branches {
        let branch = match branch.get("$ref").and_then(Value::as_str) {
            Some(reference) => reference.strip_prefix('#').and_then(|pointer| whole.pointer(pointer)).unwrap_or(branch),
            None => branch,
        };
        if branch.get("$ref").is_some() {
            return Err(format!("`{key}` at the top contains a `$ref` that cannot be resolved"));
        }
        if let Some(Value::Object(properties)) = branch.get("properties") {
            let mine = root.entry("properties").or_insert_with(|| json!({}));
            if let Value::Object(mine) = mine {
                for (name, schema) in properties {
                    mine.entry(name.clone()).or_insert_with(|| schema.clone());
                }
            }
        }
        let names = branch.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        required = Some(match required {
            None => names,
            Some(before) if key == "allOf" => before.into_iter().chain(names).collect(),
            Some(before) => before.into_iter().filter(|name| names.contains(name)).collect(),
        });
    }
    let mine = root.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let all: Vec<Value> = mine.into_iter().chain(required.unwrap_or_default()).fold(Vec::new(), |mut all, name| {
        if !all.contains(&name) {
            all.push(name);
        }
        all
    });
    if !all.is_empty() {
        root.insert("required".to_owned(), all.into());
    }
    Ok(())
}
