//! Checks an input schema against the rules of a vendor.

use toolway_wire::json::{JsonKind, Member, Raw};

use super::{Severity, ToolReport, provider::Rules, shown};

/// Maximum number of subschemas that are checked. The schema comes from a remote party.
const LOOKED_AT: usize = 5_000;

/// Keywords whose value is one schema.
const ONE: [&str; 9] = [
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

/// Reports what one vendor rejects in the input schema of a tool.
pub(super) fn check(report: &mut ToolReport<'_>, rules: &Rules) {
    let schema = report.entry.item.input_schema.clone();
    top(report, rules, &schema);
    walk(&schema, &mut |place| {
        if place.schema.kind() == JsonKind::Boolean {
            // `additionalProperties: false` is the usual way to close an object; the keyword is checked elsewhere.
            if let Some(severity) = rules.boolean_schemas.filter(|_| !place.path.ends_with("additionalProperties")) {
                let sentence =
                    format!("`{}` is a boolean instead of a schema, which {} rejects.", place.path, rules.provider);
                report.report(severity, "boolean-schema", sentence);
            }
            return;
        }
        keywords(report, rules, place);
        kinds(report, rules, place);
        parameters(report, rules, place);
    });
}

/// Checks the top level of the schema.
fn top(report: &mut ToolReport<'_>, rules: &Rules, schema: &Raw) {
    let kind = schema.get("type");
    if kind.as_ref().and_then(Raw::as_str).as_deref() != Some("object") {
        let sentence = "Its input schema lacks `\"type\": \"object\"` at the top level, which all vendors require.";
        report.report(Severity::Error, "no-object", sentence);
    }
    for keyword in rules.not_at_the_top.iter().filter(|keyword| schema.get(keyword).is_some()) {
        let sentence = format!("Its input schema has `{keyword}` at the top level, which {} rejects.", rules.provider);
        report.report(Severity::Error, "composed-top", sentence);
    }
}

fn keywords(report: &mut ToolReport<'_>, rules: &Rules, place: &SchemaPlace) {
    for member in &place.members {
        if let Some((keyword, severity)) = rules.nowhere.iter().find(|(keyword, _)| *keyword == member.key) {
            let sentence =
                format!("`{}` has `{keyword}`, which {} does not fully support.", place.path, rules.provider);
            report.report(*severity, "keyword", sentence);
        }
    }
}

fn kinds(report: &mut ToolReport<'_>, rules: &Rules, place: &SchemaPlace) {
    let [kind, items, prefix, values, format] = place.schema.fields(["type", "items", "prefixItems", "enum", "format"]);
    if let (Some(severity), Some(JsonKind::Array)) = (rules.type_lists, kind.as_ref().map(Raw::kind)) {
        let sentence = format!("`{}` has a list of types, which {} rejects.", place.path, rules.provider);
        report.report(severity, "type-list", sentence);
    }
    let kind = kind.as_ref().and_then(Raw::as_str);
    let is_array = kind.as_deref() == Some("array");
    if let Some(severity) = rules.arrays_without_items.filter(|_| is_array && items.is_none() && prefix.is_none()) {
        let sentence = format!("`{}` is an array without `items`, which {} rejects.", place.path, rules.provider);
        report.report(severity, "array-without-items", sentence);
    }
    let values = values.map(|values| values.elements_within(LOOKED_AT)).unwrap_or_default();
    if let Some(severity) = rules.other_enums.filter(|_| values.iter().any(|value| value.kind() != JsonKind::String)) {
        let sentence =
            format!("`{}` has `enum` values that are not strings, which {} rejects.", place.path, rules.provider);
        report.report(severity, "enum", sentence);
    }
    let format = format.as_ref().and_then(Raw::as_str).filter(|_| kind.as_deref() == Some("string"));
    if let (Some(known), Some(format)) = (rules.formats, format)
        && !known.contains(&format.as_ref())
    {
        let format = shown(&format);
        let sentence =
            format!("`{}` has the format `{format}`, which {} does not fully support.", place.path, rules.provider);
        report.report(Severity::Warning, "format", sentence);
    }
}

fn parameters(report: &mut ToolReport<'_>, rules: &Rules, place: &SchemaPlace) {
    let [properties, required] = place.schema.fields(["properties", "required"]);
    let names: Vec<String> = properties
        .map(|properties| properties.members())
        .unwrap_or_default()
        .into_iter()
        .map(|member| member.key)
        .collect();
    // Vendors were observed to check the names of top-level parameters only.
    let rule = rules.provider.tool_rules().and_then(|limits| limits.parameter.as_ref());
    if let Some(rule) = rule.filter(|_| place.depth == 1) {
        for name in &names {
            if let Some(problem) = rule.problem(name) {
                let sentence =
                    format!("The name of its parameter `{}` {problem}, which {} rejects.", shown(name), rules.provider);
                report.report(Severity::Error, "parameter-name", sentence);
            }
        }
    }
    let required = required.map(|required| required.elements_within(LOOKED_AT)).unwrap_or_default();
    let missing = required.iter().filter_map(Raw::as_str).find(|name| !names.iter().any(|known| known == name));
    if let (Some(severity), Some(missing)) = (rules.undescribed_required, missing) {
        let sentence = format!(
            "`{}` requires `{}` without defining it in `properties`, which {} rejects.",
            place.path,
            shown(&missing),
            rules.provider
        );
        report.report(severity, "undescribed", sentence);
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
