//! Checks an input schema against the rules of a vendor.

use serde_json::Value;
use toolway_wire::json::{JsonKind, Member, Raw};

use super::{Severity, ToolReport, shown};
use crate::{
    raw_json::value_of,
    schema::ONE,
    vendor::{SchemaTrait, ToolRules, VendorEntry, is_plain_enum},
};

/// Maximum number of subschemas that are checked. The schema comes from a remote party.
const LOOKED_AT: usize = 5_000;

/// Keywords whose value is a list of schemas.
const LIST: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
/// Keywords whose value is a schema for each of its members.
const EACH: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Number of schema levels.
pub(super) fn depth(schema: &Raw) -> usize {
    let mut deepest = 0;
    walk(schema, &mut |place| deepest = deepest.max(place.depth));
    deepest
}

/// Keywords that limit single values. Without them a model may send a value that the server refuses.
const BOUNDS: &[&str] = &[
    "const",
    "pattern",
    "minLength",
    "maxLength",
    "multipleOf",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
    "nullable",
];
/// Keywords that decide which members a value has.
const STRUCTURE: &[&str] = &[
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "patternProperties",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
    "additionalItems",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Reports what one vendor rejects in the input schema of a tool.
pub(super) fn check(report: &mut ToolReport<'_>, entry: &'static VendorEntry) {
    let Some(rules) = &entry.tools else { return };
    let vendor = Rules { rules, title: entry.title };
    let schema = report.tool.definition.input_schema.clone();
    top(report, &vendor, &schema);
    walk(&schema, &mut |place| {
        if place.schema.kind() == JsonKind::Boolean {
            // `additionalProperties: false` is the usual way to close an object; the keyword is checked elsewhere.
            if rules.rejects(SchemaTrait::BooleanSchema) && !place.path.ends_with("additionalProperties") {
                let sentence =
                    format!("`{}` is a boolean instead of a schema, which {} rejects.", place.path, entry.title);
                report.report(Severity::Error, "boolean-schema", sentence);
            }
            return;
        }
        keywords(report, &vendor, place);
        kinds(report, &vendor, place);
        parameters(report, &vendor, place);
    });
}

/// The rules of one vendor, and its name.
struct Rules {
    rules: &'static ToolRules,
    title: &'static str,
}

/// Checks the top level of the schema.
fn top(report: &mut ToolReport<'_>, vendor: &Rules, schema: &Raw) {
    let kind = schema.get("type");
    if kind.as_ref().and_then(Raw::as_str).as_deref() != Some("object") {
        let sentence = "Its input schema lacks `\"type\": \"object\"` at the top level, which all vendors require.";
        report.report(Severity::Error, "no-object", sentence);
    }
    for keyword in vendor.rules.not_at_the_top.iter().filter(|keyword| schema.get(keyword).is_some()) {
        let sentence = format!("Its input schema has `{keyword}` at the top level, which {} rejects.", vendor.title);
        report.report(Severity::Error, "composed-top", sentence);
    }
}

/// Reports keywords that the vendor ignores.
fn keywords(report: &mut ToolReport<'_>, vendor: &Rules, place: &SchemaPlace) {
    let Some(accepted) = vendor.rules.keywords else { return };
    for Member { key, .. } in &place.members {
        let severity = match key.as_str() {
            key if accepted.contains(&key) => continue,
            key if BOUNDS.contains(&key) => Severity::Note,
            key if STRUCTURE.contains(&key) => Severity::Warning,
            _ => continue,
        };
        let sentence = format!("`{}` has `{key}`, which {} does not support.", place.path, vendor.title);
        report.report(severity, "keyword", sentence);
    }
}

fn kinds(report: &mut ToolReport<'_>, vendor: &Rules, place: &SchemaPlace) {
    let [kind, items, prefix, values, format] = place.schema.fields(["type", "items", "prefixItems", "enum", "format"]);
    let mut error = |found: SchemaTrait, rule: &'static str, what: &str| {
        if vendor.rules.rejects(found) {
            report.report(Severity::Error, rule, format!("`{}` {what}, which {} rejects.", place.path, vendor.title));
        }
    };
    let types = kind.as_ref().map(|kind| kind.elements_within(LOOKED_AT)).unwrap_or_default();
    if 1 < types.iter().filter(|kind| kind.as_str().as_deref() != Some("null")).count() {
        error(SchemaTrait::TypeList, "type-list", "has a list of types");
    }
    let kind = kind.as_ref().and_then(Raw::as_str);
    if kind.as_deref() == Some("array") && items.is_none() && prefix.is_none() {
        error(SchemaTrait::ArrayWithoutItems, "array-without-items", "is an array without `items`");
    }
    let values: Vec<Value> = values.map(|values| value_of(&values)).and_then(into_array).unwrap_or_default();
    if !is_plain_enum(&values) {
        error(
            SchemaTrait::MixedEnum,
            "enum",
            "has `enum` values that are neither all numbers nor all non-empty strings",
        );
    }
    let format = format.as_ref().and_then(Raw::as_str).filter(|_| kind.as_deref() == Some("string"));
    if let (Some(known), Some(format)) = (vendor.rules.formats, format)
        && !known.contains(&format.as_ref())
    {
        let format = shown(&format);
        let sentence = format!("`{}` has the format `{format}`, which {} does not support.", place.path, vendor.title);
        report.report(Severity::Warning, "format", sentence);
    }
}

fn into_array(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

fn parameters(report: &mut ToolReport<'_>, vendor: &Rules, place: &SchemaPlace) {
    let [properties, required] = place.schema.fields(["properties", "required"]);
    let names: Vec<String> = properties
        .map(|properties| properties.members())
        .unwrap_or_default()
        .into_iter()
        .map(|member| member.key)
        .collect();
    // Vendors were observed to check the names of top-level parameters only.
    if let Some(rule) = vendor.rules.parameter.as_ref().filter(|_| place.depth == 1) {
        for name in &names {
            if let Some(problem) = rule.problem(name) {
                let sentence =
                    format!("The name of its parameter `{}` {problem}, which {} rejects.", shown(name), vendor.title);
                report.report(Severity::Error, "parameter-name", sentence);
            }
        }
    }
    let required = required.map(|required| required.elements_within(LOOKED_AT)).unwrap_or_default();
    let missing = required.iter().filter_map(Raw::as_str).find(|name| !names.iter().any(|known| known == name));
    if let Some(missing) = missing.filter(|_| vendor.rules.rejects(SchemaTrait::UndescribedRequired)) {
        let sentence = format!(
            "`{}` requires `{}` without defining it in `properties`, which {} rejects.",
            place.path,
            shown(&missing),
            vendor.title
        );
        report.report(Severity::Error, "undescribed", sentence);
    }
}

/// A subschema and its location.
struct SchemaPlace {
    path: String,
    depth: usize,
    schema: Raw,
    members: Vec<Member>,
}

impl SchemaPlace {
    fn new(path: String, depth: usize, schema: Raw) -> Self {
        let members = schema.members();
        Self { path, depth, schema, members }
    }
}

/// Calls `visit` with each subschema, the outermost first, then in document order.
fn walk(schema: &Raw, visit: &mut impl FnMut(&SchemaPlace)) {
    let mut waiting = vec![SchemaPlace::new("inputSchema".to_owned(), 1, schema.clone())];
    for _ in 0..LOOKED_AT {
        let Some(place) = waiting.pop() else { return };
        visit(&place);
        let from = waiting.len();
        for member in &place.members {
            inner(&place, &member.key, &member.value, &mut waiting);
        }
        waiting[from..].reverse();
    }
}

fn inner(place: &SchemaPlace, keyword: &str, value: &Raw, found: &mut Vec<SchemaPlace>) {
    let mut add = |step: &str, schema: Raw| {
        if matches!(schema.kind(), JsonKind::Object | JsonKind::Boolean) {
            // The path is shown to users, so it is limited in length.
            let path = if place.path.len() < 200 { format!("{}.{step}", place.path) } else { place.path.clone() };
            found.push(SchemaPlace::new(path, place.depth + 1, schema));
        }
    };
    if EACH.contains(&keyword) {
        value.members().into_iter().for_each(|member| add(&shown(&member.key), member.value));
    } else if ONE.contains(&keyword) && value.kind() != JsonKind::Array {
        add(keyword, value.clone());
    } else if LIST.contains(&keyword) || keyword == "items" {
        value.elements_within(LOOKED_AT).into_iter().for_each(|schema| add(keyword, schema));
    }
}
