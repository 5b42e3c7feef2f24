//! Adapts a tool's JSON Schema to what a vendor accepts. A tool that cannot be adapted is left out with a reason, so that
//! it does not make every request fail.
//!
//! | step | file |
//! |---|---|
//! | every `$ref` points to `#/$defs/NAME` | `schema/references.rs` |
//! | the root is a plain object | `schema/root.rs` |
//! | keywords have values that the meta-schema (2020-12) allows | `schema/keywords.rs` |
//! | Gemini's subset | `schema/gemini.rs` |
//! | the schema of a whole answer | `schema/answer.rs` |
//!
//! An adapted schema may be wider than the original (a keyword is dropped), never narrower. The server checks the
//! arguments itself.

pub(crate) mod answer;
mod gemini;
mod keywords;
mod references;
mod root;

use serde_json::{Map, Value, json};

use crate::{
    ToolDefinition, Vendor,
    vendor::{self, name_problem},
};

/// Levels of nesting that a schema may have.
const MAX_DEPTH: usize = 32;
/// Bytes that a schema may have.
const MAX_BYTES: usize = 256 * 1024;

/// Why a tool is not offered to a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tool `{name}` is not offered to {vendor}: {reason}", vendor = vendor.as_str())]
pub struct LeftOut {
    /// Name of the tool.
    pub name: String,
    /// The vendor it was to be adapted for.
    pub vendor: Vendor,
    /// What the vendor would refuse.
    pub reason: String,
}

/// What a model is told about a tool in words.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToolWords<'a> {
    /// The server's description; its end is cut if the vendor takes less.
    pub description: &'a str,
    /// Stands after the description on a line of its own and is never cut; empty for none.
    pub hints: &'a str,
}

/// Adapts one tool.
pub fn adapt(vendor: Vendor, name: &str, description: &str, schema: &Value) -> Result<ToolDefinition, LeftOut> {
    adapt_hinted(vendor, name, ToolWords { description, hints: "" }, schema)
}

/// Adapts one tool, with words after its description.
pub fn adapt_hinted(
    vendor: Vendor,
    name: &str,
    words: ToolWords<'_>,
    schema: &Value,
) -> Result<ToolDefinition, LeftOut> {
    let left_out = |reason: String| LeftOut { name: name.to_owned(), vendor, reason };
    if let Some(problem) = name_problem(name) {
        return Err(left_out(format!("its name {problem}")));
    }
    let input_schema = adapt_schema(vendor, schema).map_err(left_out)?;
    let most = vendor::entry(vendor).tools.as_ref().and_then(|rules| rules.description);
    let description = words.joined(most.unwrap_or(usize::MAX));
    Ok(ToolDefinition { name: name.to_owned(), description, input_schema })
}

impl ToolWords<'_> {
    /// The description with the hints after it, in at most so many characters.
    fn joined(&self, most: usize) -> String {
        if self.hints.is_empty() {
            return shortened(self.description, most);
        }
        let after = format!("\n\n{}", self.hints);
        let room = most.saturating_sub(after.chars().count());
        format!("{}{after}", shortened(self.description, room)).trim_start().to_owned()
    }
}

fn shortened(description: &str, most: usize) -> String {
    if description.chars().count() <= most {
        return description.to_owned();
    }
    description.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

fn adapt_schema(vendor: Vendor, schema: &Value) -> Result<Value, String> {
    let check_size = |schema: &Value| match schema.to_string().len() {
        ..=MAX_BYTES => Ok(()),
        _ => Err(format!("its schema is larger than {MAX_BYTES} bytes")),
    };
    check_size(schema)?;
    let mut object = match schema {
        Value::Object(object) => object.clone(),
        Value::Bool(true) | Value::Null => Map::new(),
        _ => return Err("its schema is not an object".to_owned()),
    };
    references::gather(&mut object)?;
    root::resolve(&mut object)?;
    check_names(vendor, &object)?;
    let mut schema = Value::Object(object);
    walk(&mut schema, 0)?;
    if vendor == Vendor::Gemini {
        gemini::restrict(&mut schema);
    }
    // Some definitions are no longer used.
    schema.as_object_mut().map_or(Ok(()), references::gather)?;
    check_size(&schema)?;
    Ok(schema)
}

/// Keywords whose value is a schema.
pub(crate) const ONE: &[&str] = &[
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is an object of schemas.
const NAMED: &[&str] = &["properties", "$defs", "patternProperties", "dependentSchemas"];
/// Keywords whose value is a list of schemas. `items` is one in older drafts.
const MANY: &[&str] = &["anyOf", "oneOf", "allOf", "prefixItems", "items"];

/// The schemas directly inside a schema.
fn children(object: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    object.iter_mut().flat_map(|(key, value)| {
        let key = key.as_str();
        let is_one = ONE.contains(&key) && (value.is_object() || value.is_boolean());
        let inner: Vec<&mut Value> = if is_one {
            vec![value]
        } else {
            match value {
                Value::Object(named) if NAMED.contains(&key) => named.values_mut().collect(),
                Value::Array(list) if MANY.contains(&key) => list.iter_mut().collect(),
                _ => Vec::new(),
            }
        };
        inner
    })
}

fn walk(schema: &mut Value, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("its schema is nested deeper than {MAX_DEPTH} levels"));
    }
    // `true` and `false` as schemas are refused by some vendors.
    match schema {
        Value::Object(_) => {}
        Value::Bool(false) => *schema = json!({ "not": {} }),
        _ => *schema = json!({}),
    }
    let Value::Object(object) = schema else { return Ok(()) };
    keywords::correct(object);
    // `additionalProperties` is understood by all as a boolean.
    let additional = object.get("additionalProperties").and_then(Value::as_bool);
    children(object).try_for_each(|inner| walk(inner, depth + 1))?;
    if let Some(additional) = additional {
        object.insert("additionalProperties".to_owned(), additional.into());
    }
    Ok(())
}

/// Checks the names of parameters. Vendors accept every name further inside.
fn check_names(vendor: Vendor, object: &Map<String, Value>) -> Result<(), String> {
    let Some(rule) = vendor::entry(vendor).tools.as_ref().and_then(|rules| rules.parameter.as_ref()) else {
        return Ok(());
    };
    let mut names = object.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    let problem = names.find_map(|name| Some((name, rule.problem(name)?)));
    problem.map_or(Ok(()), |(name, problem)| Err(format!("the name of its parameter `{name}` {problem}")))
}
