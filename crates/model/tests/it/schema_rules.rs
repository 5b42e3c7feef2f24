//! What each vendor documents about tool schemas, or answers with 400 to.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toolway_model::{ToolDefinition, Vendor};

type Object = Map<String, Value>;

/// Checks a definition as the vendor does.
pub(crate) fn check(vendor: Vendor, tool: &ToolDefinition) -> Result<(), String> {
    let schema = &tool.input_schema;
    let root = schema.as_object().ok_or("not an object")?;
    if root.get("type") != Some(&json!("object")) || !root.get("properties").is_some_and(Value::is_object) {
        return Err("the root is not an object".to_owned());
    }
    if let Some(key) =
        ["anyOf", "oneOf", "allOf", "enum", "not", "const", "$ref"].iter().find(|key| root.contains_key(**key))
    {
        return Err(format!("`{key}` at the top"));
    }
    jsonschema::draft202012::meta::validate(schema).map_err(|error| format!("{error} at {}", error.instance_path()))?;
    every(schema, &mut |schema| references(tool, schema))?;
    match vendor {
        Vendor::Anthropic => anthropic(root),
        Vendor::Openai | Vendor::OpenaiChat if tool.description.chars().count() > 1_024 => {
            Err("long description".to_owned())
        }
        Vendor::Openai | Vendor::OpenaiChat => every(schema, &mut arrays),
        Vendor::Gemini => {
            every(schema, &mut arrays)?;
            every(schema, &mut gemini)?;
            cycles(schema)
        }
        Vendor::Scripted => Ok(()),
    }
}

/// Calls `rule` with every schema inside a schema, and with itself.
fn every(schema: &Value, rule: &mut dyn FnMut(&Object) -> Result<(), String>) -> Result<(), String> {
    let Value::Object(object) = schema else { return Ok(()) };
    rule(object)?;
    inner(object).iter().try_for_each(|(_, inner)| every(inner, rule))
}

/// Schemas directly inside a schema, with the keyword.
fn inner(object: &Object) -> Vec<(&str, &Value)> {
    let mut found = Vec::new();
    for (key, value) in object {
        match (key.as_str(), value) {
            ("properties" | "$defs" | "patternProperties" | "dependentSchemas", Value::Object(named)) => {
                found.extend(named.values().map(|value| (key.as_str(), value)));
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(list)) => {
                found.extend(list.iter().map(|value| (key.as_str(), value)));
            }
            (
                "items" | "additionalProperties" | "not" | "if" | "then" | "else" | "contains" | "propertyNames",
                value,
            ) => found.push((key.as_str(), value)),
            _ => {}
        }
    }
    found
}

fn references(tool: &ToolDefinition, schema: &Object) -> Result<(), String> {
    let Some(reference) = schema.get("$ref") else { return Ok(()) };
    let name = reference.as_str().and_then(|text| text.strip_prefix("#/$defs/"));
    match name.and_then(|name| tool.input_schema["$defs"].get(name)) {
        Some(_) => Ok(()),
        None => Err(format!("{reference} points to nothing")),
    }
}

/// "tools.0.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
fn anthropic(schema: &Object) -> Result<(), String> {
    let valid = |key: &str| {
        (1..=64).contains(&key.len()) && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
    };
    let keys = schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    keys.into_iter().find(|key| !valid(key)).map_or(Ok(()), |key| Err(format!("property key `{key}`")))
}

/// "array schema missing items"
fn arrays(schema: &Object) -> Result<(), String> {
    let is_array = match schema.get("type") {
        Some(Value::Array(types)) => types.contains(&json!("array")),
        kind => kind == Some(&json!("array")),
    };
    if is_array && !schema.get("items").is_some_and(Value::is_object) {
        return Err("array schema missing items".to_owned());
    }
    Ok(())
}

/// The subset of `parametersJsonSchema`.
fn gemini(schema: &Object) -> Result<(), String> {
    const KEYWORDS: &str = "$defs $ref $anchor type format title description enum items prefixItems minItems maxItems \
                            minimum maximum anyOf oneOf properties additionalProperties required propertyOrdering";
    if let Some(key) = schema.keys().find(|key| !KEYWORDS.split_whitespace().any(|known| known == *key)) {
        return Err(format!("unknown keyword `{key}`"));
    }
    if schema.contains_key("$ref") && schema.keys().any(|key| !key.starts_with('$')) {
        return Err("something beside `$ref`".to_owned());
    }
    if let Some(Value::Array(values)) = schema.get("enum")
        && !(values.iter().all(Value::is_number)
            || values.iter().all(|value| value.as_str().is_some_and(|t| !t.is_empty())))
    {
        return Err("`enum` is for strings and numbers".to_owned());
    }
    if let Some(Value::Array(types)) = schema.get("type")
        && types.iter().filter(|kind| **kind != "null").count() > 1
    {
        return Err("several types".to_owned());
    }
    let required = schema.get("required").and_then(Value::as_array);
    let known = schema.get("properties").and_then(Value::as_object);
    let is_known = |name: &Value| known.is_some_and(|known| name.as_str().is_some_and(|name| known.contains_key(name)));
    match required.into_iter().flatten().find(|name| !is_known(name)) {
        Some(name) => Err(format!("required {name} is not defined")),
        None => Ok(()),
    }
}

/// "Cyclic references may only be used within non-required properties": no definition leads back to itself otherwise.
fn cycles(schema: &Value) -> Result<(), String> {
    let Some(definitions) = schema["$defs"].as_object() else { return Ok(()) };
    for name in definitions.keys() {
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![name.as_str()]);
        while let Some(next) = waiting.pop() {
            let mut reached = Vec::new();
            tight_references(&definitions[next], &mut reached);
            if reached.contains(&name.as_str()) {
                return Err(format!("`{name}` leads to itself without an optional property"));
            }
            waiting.extend(reached.into_iter().filter(|reached| seen.insert(*reached)));
        }
    }
    Ok(())
}

/// References that stand in no optional property.
fn tight_references<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    let Value::Object(object) = schema else { return };
    found.extend(object.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix("#/$defs/")));
    let required = object.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|required| required.iter().any(|known| known == name));
    let properties = object.get("properties").and_then(Value::as_object);
    for (_, property) in properties.into_iter().flatten().filter(|(name, _)| is_required(name)) {
        tight_references(property, found);
    }
    for (key, inner) in inner(object) {
        if key != "properties" && key != "$defs" {
            tight_references(inner, found);
        }
    }
}
