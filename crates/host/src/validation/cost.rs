//! Bounds the work of a check before it is done. Schemas come from servers: references that meet again and again make a
//! small schema expand without end, when it is compiled and when a value is checked.
//!
//! Both walks follow what a validator follows, count each step, and give up at a limit.

use serde_json::{Map, Value};

/// Schemas that a definition may have, with every reference followed.
const EXPANDED: usize = 20_000;
/// Values in `enum`, `const`, `required` and the like that a definition may have, with every reference followed. A compiled
/// schema copies them.
const PLAIN: usize = 200_000;
/// Steps of one check. A value of `enum` is one.
const STEPS: usize = 500_000;
/// Bytes of all texts and names that are matched with patterns in one check. A match takes time in proportion to the text
/// and to the compiled pattern, which may be large.
const MATCHED: usize = 16 * 1024;
/// Depth of schemas within schemas, and of values.
const DEPTH: usize = 96;

/// Keywords with one schema for the same value.
const IN_PLACE: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords with a list of schemas for the same value.
const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with a schema for every member or element.
const OF_CHILDREN: [&str; 7] = [
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
];
/// Keywords with schemas by name.
const BY_NAME: [&str; 4] = ["properties", "patternProperties", "dependentSchemas", "dependencies"];
/// Keywords whose content is not a schema and is not looked at by a validator.
const NOTES: [&str; 6] = ["title", "description", "$comment", "default", "examples", "$schema"];
/// References whose target depends on more than a pointer.
const DYNAMIC: [&str; 2] = ["$dynamicRef", "$recursiveRef"];

/// Why a schema or a value is not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooCostly {
    /// A reference leaves the document, or depends on the place where it is used.
    #[error("it refers to another document or to a place that cannot be followed")]
    Reference,
    /// It expands beyond a limit.
    #[error("it is too complex")]
    Complex,
}

/// Walks a schema, and a value with it.
struct Walk<'a> {
    root: &'a Value,
    left: usize,
    /// Values outside of schemas that may still be copied.
    plain: usize,
    /// Patterns that are compiled.
    patterns: usize,
    /// Bytes that may still be matched with patterns.
    matched: usize,
    /// References that are being followed, with the value they are followed for.
    open: Vec<(*const Value, *const Value)>,
}

/// Whether a schema can be compiled within bounds; returns the number of its patterns, with every reference followed.
pub(super) fn check_schema(root: &Value) -> Result<usize, TooCostly> {
    let mut walk = Walk { root, left: EXPANDED, plain: PLAIN, patterns: 0, matched: MATCHED, open: Vec::new() };
    walk.schema(root, None, 0)?;
    Ok(walk.patterns)
}

/// Whether a value can be checked within bounds.
pub(super) fn check_value(root: &Value, value: &Value) -> Result<(), TooCostly> {
    Walk { root, left: STEPS, plain: PLAIN, patterns: 0, matched: MATCHED, open: Vec::new() }.schema(
        root,
        Some(value),
        0,
    )
}

impl<'a> Walk<'a> {
    /// Follows a schema for a value; without a value, for any.
    fn schema(&mut self, schema: &'a Value, value: Option<&Value>, depth: usize) -> Result<(), TooCostly> {
        self.left = self.left.checked_sub(1).ok_or(TooCostly::Complex)?;
        if DEPTH < depth {
            return Err(TooCostly::Complex);
        }
        let Some(schema) = schema.as_object() else { return Ok(()) };
        if DYNAMIC.iter().any(|keyword| schema.contains_key(*keyword)) {
            return Err(TooCostly::Reference);
        }
        match value {
            None => self.copies(schema)?,
            Some(value) => self.compares(schema, value)?,
        }
        self.reference(schema, value, depth)?;
        for inner in IN_PLACE.iter().filter_map(|keyword| schema.get(*keyword)) {
            self.schema(inner, value, depth + 1)?;
        }
        let lists = IN_PLACE_LISTS.iter().filter_map(|keyword| schema.get(*keyword)?.as_array());
        for inner in lists.flatten() {
            self.schema(inner, value, depth + 1)?;
        }
        self.children(schema, value, depth)
    }

    /// Counts what a compiled schema has besides other schemas.
    fn copies(&mut self, schema: &Map<String, Value>) -> Result<(), TooCostly> {
        let named = schema.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
        self.patterns += named + usize::from(schema.contains_key("pattern"));
        let is_schema = |keyword: &str| {
            let lists: [&[&str]; 4] = [&IN_PLACE, &IN_PLACE_LISTS, &OF_CHILDREN, &BY_NAME];
            lists.iter().any(|list| list.contains(&keyword))
                || ["$defs", "definitions", "prefixItems"].contains(&keyword)
        };
        let mut plain = schema.iter().filter(|(keyword, _)| !is_schema(keyword) && !NOTES.contains(&keyword.as_str()));
        plain.try_for_each(|(_, content)| self.count(content))
    }

    fn count(&mut self, content: &Value) -> Result<(), TooCostly> {
        let text = content.as_str().map_or(0, |text| text.len() / 64);
        self.plain = self.plain.checked_sub(1 + text).ok_or(TooCostly::Complex)?;
        match content {
            Value::Array(elements) => elements.iter().try_for_each(|element| self.count(element)),
            Value::Object(members) => members.values().try_for_each(|member| self.count(member)),
            _ => Ok(()),
        }
    }

    /// Counts the comparisons of a value with what is not a schema.
    fn compares(&mut self, schema: &Map<String, Value>, value: &Value) -> Result<(), TooCostly> {
        let length = |keyword: &str| schema.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
        let named = schema.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
        let names = || value.as_object().into_iter().flatten().map(|(name, _)| name.len() + 1).sum::<usize>();
        let of_names = match named + usize::from(schema.contains_key("propertyNames")) {
            0 => 0,
            patterns => names().saturating_mul(patterns),
        };
        let text = schema.get("pattern").and(value.as_str()).map_or(0, str::len);
        self.matched = self.matched.checked_sub(text.saturating_add(of_names)).ok_or(TooCostly::Complex)?;
        let unique = schema.get("uniqueItems").and(value.as_array()).map_or(0, Vec::len);
        let steps = length("enum") + length("required") + unique;
        self.left = self.left.checked_sub(steps).ok_or(TooCostly::Complex)?;
        Ok(())
    }

    fn reference(
        &mut self,
        schema: &'a Map<String, Value>,
        value: Option<&Value>,
        depth: usize,
    ) -> Result<(), TooCostly> {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { return Ok(()) };
        let pointer = reference.strip_prefix('#').ok_or(TooCostly::Reference)?;
        let target = self.root.pointer(&decoded(pointer)).ok_or(TooCostly::Reference)?;
        let step = (std::ptr::from_ref(target), value.map_or(std::ptr::null(), std::ptr::from_ref));
        // The same schema for the same value again: a validator stops here too.
        if self.open.contains(&step) {
            return Ok(());
        }
        self.open.push(step);
        self.schema(target, value, depth + 1)?;
        self.open.pop();
        Ok(())
    }

    /// Follows the schemas of members and elements. Which of them a member has is not decided: all are counted.
    fn children(
        &mut self,
        schema: &'a Map<String, Value>,
        value: Option<&Value>,
        depth: usize,
    ) -> Result<(), TooCostly> {
        for keyword in BY_NAME {
            for (name, inner) in schema.get(keyword).and_then(Value::as_object).into_iter().flatten() {
                match (keyword, value) {
                    (_, None) => self.schema(inner, None, depth + 1)?,
                    ("properties", Some(value)) => {
                        if let Some(member) = value.get(name) {
                            self.schema(inner, Some(member), depth + 1)?;
                        }
                    }
                    ("patternProperties", Some(value)) => self.each(inner, value, depth)?,
                    (_, Some(value)) => self.schema(inner, Some(value), depth + 1)?,
                }
            }
        }
        let single = OF_CHILDREN.iter().filter_map(|keyword| schema.get(*keyword)).filter(|inner| inner.is_object());
        let lists = ["prefixItems", "items"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
        for inner in single.chain(lists.flatten()) {
            match value {
                None => self.schema(inner, None, depth + 1)?,
                Some(value) => self.each(inner, value, depth)?,
            }
        }
        // Compiled only where something refers to them.
        Ok(())
    }

    /// Follows a schema for every member or element of a value.
    fn each(&mut self, schema: &'a Value, value: &Value, depth: usize) -> Result<(), TooCostly> {
        match value {
            Value::Array(elements) => {
                elements.iter().try_for_each(|element| self.schema(schema, Some(element), depth + 1))
            }
            Value::Object(members) => {
                members.values().try_for_each(|member| self.schema(schema, Some(member), depth + 1))
            }
            _ => Ok(()),
        }
    }
}

/// The pointer of a fragment with `%XX` decoded.
fn decoded(pointer: &str) -> String {
    if !pointer.contains('%') {
        return pointer.to_owned();
    }
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes().iter();
    while let Some(byte) = rest.next() {
        let code = (*byte == b'%').then(|| rest.as_slice().get(..2)).flatten();
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest.nth(1);
            }
            None => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{TooCostly, check_schema, check_value};

    /// Each of `depth` schemas refers twice to the next.
    fn doubling(depth: usize) -> Value {
        let mut schemas = serde_json::Map::new();
        for number in 0..depth {
            let next = format!("#/$defs/s{}", number + 1);
            schemas.insert(format!("s{number}"), json!({ "allOf": [{ "$ref": next }, { "$ref": next }] }));
        }
        schemas.insert(format!("s{depth}"), json!({ "type": "object" }));
        json!({ "$ref": "#/$defs/s0", "$defs": schemas })
    }

    #[test]
    fn a_schema_that_doubles_is_refused_before_it_is_compiled() {
        assert_eq!(check_schema(&doubling(5)), Ok(0));
        assert_eq!(check_schema(&doubling(40)), Err(TooCostly::Complex));
    }

    #[test]
    fn a_value_that_doubles_the_work_at_each_level_is_refused() {
        let schema = json!({ "properties": { "x": { "allOf": [{ "$ref": "#" }, { "$ref": "#" }] } } });
        assert_eq!(check_schema(&schema), Ok(0));
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({ "x": inner }));
        assert_eq!(check_value(&schema, &nested(5)), Ok(()));
        assert_eq!(check_value(&schema, &nested(40)), Err(TooCostly::Complex));
    }

    #[test]
    fn large_lists_of_values_count_where_they_are_copied_and_compared() {
        let numbers: Vec<usize> = (0..5_000).collect();
        let properties = |count: usize| {
            let refs = (0..count).map(|n| (format!("p{n}"), json!({ "$ref": "#/$defs/e" })));
            let refs: serde_json::Map<String, Value> = refs.collect();
            json!({ "properties": refs, "$defs": { "e": { "enum": numbers } } })
        };
        assert_eq!(check_schema(&properties(5)), Ok(0));
        assert_eq!(check_schema(&properties(500)), Err(TooCostly::Complex));
        let schema = json!({ "items": { "enum": numbers } });
        assert_eq!(check_value(&schema, &json!([1, 2, 3])), Ok(()));
        assert_eq!(check_value(&schema, &json!(numbers)), Err(TooCostly::Complex));
        let schema = json!({ "patternProperties": { "a": {}, "b": {} }, "properties": { "x": { "pattern": "c" } } });
        assert_eq!(check_schema(&schema), Ok(3));
        assert_eq!(check_value(&schema, &json!({ "x": "c".repeat(10_000) })), Ok(()));
        assert_eq!(check_value(&schema, &json!({ "x": "c".repeat(50_000) })), Err(TooCostly::Complex));
    }

    #[test]
    fn references_that_cannot_be_followed_are_refused() {
        for schema in [
            json!({ "$ref": "https://example.com/schema.json" }),
            json!({ "properties": { "a": { "$ref": "file:///etc/passwd" } } }),
            json!({ "$ref": "#/$defs/missing" }),
            json!({ "$ref": "#anchor", "$defs": { "a": { "$anchor": "anchor" } } }),
            json!({ "$dynamicRef": "#a" }),
        ] {
            assert_eq!(check_schema(&schema), Err(TooCostly::Reference), "{schema}");
        }
        for schema in [json!({ "$ref": "#" }), json!({ "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] })] {
            assert_eq!(check_schema(&schema), Ok(0), "{schema}");
            assert_eq!(check_value(&schema, &json!({ "a": 1 })), Ok(()), "{schema}");
        }
        assert_eq!(check_schema(&json!({ "$ref": "#/$defs/a%20b", "$defs": { "a b": {} } })), Ok(0));
    }
}
