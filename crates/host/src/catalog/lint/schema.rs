//! A walk through an input schema, for what a vendor refuses in it.

use toolway_wire::json::{Kind, Member, Raw};

use super::{About, Severity, provider::Rules, shown};

/// Schemas within one schema that are looked at; a stranger can write more.
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

/// How many levels of schemas there are.
pub(super) fn depth(schema: &Raw) -> usize {
    let mut deepest = 0;
    walk(schema, &mut |place| deepest = deepest.max(place.depth));
    deepest
}

/// Says what one vendor has against the input schema of a tool.
pub(super) fn check(about: &mut About<'_>, rules: &Rules) {
    let schema = about.entry.item.input_schema.clone();
    top(about, rules, &schema);
    walk(&schema, &mut |place| {
        if place.schema.kind() == Kind::Boolean {
            // `additionalProperties: false` is how everyone closes an object; the keyword itself is judged elsewhere.
            if let Some(severity) = rules.boolean_schemas.filter(|_| !place.path.ends_with("additionalProperties")) {
                let sentence = format!(
                    "`{}` is a boolean in the place of a schema, which {} refuses.",
                    place.path, rules.provider
                );
                about.say(severity, "boolean-schema", sentence);
            }
            return;
        }
        keywords(about, rules, place);
        kinds(about, rules, place);
        parameters(about, rules, place);
    });
}

/// What may not stand at the top, and has to.
fn top(about: &mut About<'_>, rules: &Rules, schema: &Raw) {
    let kind = schema.get("type");
    if kind.as_ref().and_then(Raw::as_str).as_deref() != Some("object") {
        let sentence = "Its input schema does not say `\"type\": \"object\"` at the top; every vendor wants it there.";
        about.say(Severity::Error, "no-object", sentence);
    }
    for keyword in rules.not_at_the_top.iter().filter(|keyword| schema.get(keyword).is_some()) {
        let sentence =
            format!("`{keyword}` stands at the top of its input schema, where {} refuses it.", rules.provider);
        about.say(Severity::Error, "composed-top", sentence);
    }
}

fn keywords(about: &mut About<'_>, rules: &Rules, place: &Place) {
    for member in &place.members {
        if let Some((keyword, severity)) = rules.nowhere.iter().find(|(keyword, _)| *keyword == member.key) {
            let sentence =
                format!("`{}` has `{keyword}`, which {} does not understand everywhere.", place.path, rules.provider);
            about.say(*severity, "keyword", sentence);
        }
    }
}

fn kinds(about: &mut About<'_>, rules: &Rules, place: &Place) {
    let [kind, items, prefix, values, format] = place.schema.fields(["type", "items", "prefixItems", "enum", "format"]);
    if let (Some(severity), Some(Kind::Array)) = (rules.type_lists, kind.as_ref().map(Raw::kind)) {
        let sentence = format!("`{}` has several types at once, which {} refuses.", place.path, rules.provider);
        about.say(severity, "type-list", sentence);
    }
    let kind = kind.as_ref().and_then(Raw::as_str);
    let is_array = kind.as_deref() == Some("array");
    if let Some(severity) = rules.arrays_without_items.filter(|_| is_array && items.is_none() && prefix.is_none()) {
        let sentence =
            format!("`{}` is an array that does not say of what, which {} refuses.", place.path, rules.provider);
        about.say(severity, "array-without-items", sentence);
    }
    let values = values.map(|values| values.elements_within(LOOKED_AT)).unwrap_or_default();
    if let Some(severity) = rules.other_enums.filter(|_| values.iter().any(|value| value.kind() != Kind::String)) {
        let sentence = format!("`{}` lists values that are no strings, which {} refuses.", place.path, rules.provider);
        about.say(severity, "enum", sentence);
    }
    let format = format.as_ref().and_then(Raw::as_str).filter(|_| kind.as_deref() == Some("string"));
    if let (Some(known), Some(format)) = (rules.formats, format)
        && !known.contains(&format.as_ref())
    {
        let format = shown(&format);
        let sentence = format!(
            "`{}` has the format `{format}`, which {} does not understand everywhere.",
            place.path, rules.provider
        );
        about.say(Severity::Warning, "format", sentence);
    }
}

fn parameters(about: &mut About<'_>, rules: &Rules, place: &Place) {
    let [properties, required] = place.schema.fields(["properties", "required"]);
    let names: Vec<String> = properties
        .map(|properties| properties.members())
        .unwrap_or_default()
        .into_iter()
        .map(|member| member.key)
        .collect();
    // Only the parameters themselves have been seen to be refused for their names.
    if let Some(rule) = rules.parameter.as_ref().filter(|_| place.depth == 1) {
        for name in &names {
            let problem = if name.is_empty() { Some("is empty".to_owned()) } else { rule.problem(name) };
            if let Some(problem) = problem {
                let sentence =
                    format!("The name of its parameter `{}` {problem}, which {} refuses.", shown(name), rules.provider);
                about.say(Severity::Error, "parameter-name", sentence);
            }
        }
    }
    let required = required.map(|required| required.elements_within(LOOKED_AT)).unwrap_or_default();
    let missing = required.iter().filter_map(Raw::as_str).find(|name| !names.iter().any(|known| known == name));
    if let (Some(severity), Some(missing)) = (rules.undescribed_required, missing) {
        let sentence = format!(
            "`{}` requires `{}` without describing it, which {} refuses.",
            place.path,
            shown(&missing),
            rules.provider
        );
        about.say(severity, "undescribed", sentence);
    }
}

/// One schema within another.
struct Place {
    path: String,
    depth: usize,
    schema: Raw,
    members: Vec<Member>,
}

impl Place {
    fn new(path: String, depth: usize, schema: Raw) -> Self {
        let members = schema.members();
        Self { path, depth, schema, members }
    }
}

/// Calls `visit` with each schema, the outermost first and then in the order they are written in.
fn walk(schema: &Raw, visit: &mut impl FnMut(&Place)) {
    let mut waiting = vec![Place::new("inputSchema".to_owned(), 1, schema.clone())];
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

fn inner(place: &Place, keyword: &str, value: &Raw, found: &mut Vec<Place>) {
    let mut add = |step: &str, schema: Raw| {
        if matches!(schema.kind(), Kind::Object | Kind::Boolean) {
            // A path is for people: one that is very long helps nobody.
            let path = if place.path.len() < 200 { format!("{}.{step}", place.path) } else { place.path.clone() };
            found.push(Place::new(path, place.depth + 1, schema));
        }
    };
    if EACH.contains(&keyword) {
        value.members().into_iter().for_each(|member| add(&shown(&member.key), member.value));
    } else if ONE.contains(&keyword) && value.kind() != Kind::Array {
        add(keyword, value.clone());
    } else if LIST.contains(&keyword) || keyword == "items" {
        value.elements_within(LOOKED_AT).into_iter().for_each(|schema| add(keyword, schema));
    }
}
