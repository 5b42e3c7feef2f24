//! Adapts listed tools, resources and prompts to a revision.

use super::{MissingFeatures, Structure, each, present};
use crate::{
    json::{JsonKind, Raw},
    message::splice::{self, Edit},
};

/// Edit for the tools of a list.
pub(super) fn tools(missing: &MissingFeatures, result: &Raw) -> Option<Edit<'static>> {
    if missing.structure == Structure::Anything && !mentions(missing.tool, result) {
        return None;
    }
    let tools = each(&result.get("tools")?, |tool| self::tool(missing, tool))?;
    Some(Edit::Set("tools", tools))
}

/// Edit for the items of any other list.
pub(super) fn items(missing: &MissingFeatures, result: &Raw, list: &'static str) -> Option<Edit<'static>> {
    if !mentions(missing.item, result) {
        return None;
    }
    let items = each(&result.get(list)?, |item| self::item(missing, item))?;
    Some(Edit::Set(list, items))
}

/// Edit for the prompts of a list and their arguments.
pub(super) fn prompts(missing: &MissingFeatures, result: &Raw) -> Option<Edit<'static>> {
    if !mentions(missing.item, result) {
        return None;
    }
    let prompts = each(&result.get("prompts")?, |prompt| self::prompt(missing, prompt))?;
    Some(Edit::Set("prompts", prompts))
}

/// A listed item that is neither a tool nor a prompt; `None` if it need not change.
pub(super) fn item(missing: &MissingFeatures, item: &Raw) -> Option<Raw> {
    without(item, &removals(missing.item, item))
}

/// A listed prompt; `None` if it need not change.
pub(super) fn prompt(missing: &MissingFeatures, prompt: &Raw) -> Option<Raw> {
    let mut edits = removals(missing.item, prompt);
    edits.extend(items(missing, prompt, "arguments"));
    without(prompt, &edits)
}

/// A listed tool; `None` if it need not change.
pub(super) fn tool(missing: &MissingFeatures, tool: &Raw) -> Option<Raw> {
    let mut edits = Vec::new();
    for (key, value) in present(tool, &["inputSchema", "outputSchema"], &[]) {
        match (key, missing.structure) {
            (_, Structure::Anything) => {}
            ("outputSchema", Structure::Objects) if !describes_an_object(&value) => edits.push(Edit::Remove(key)),
            ("outputSchema", Structure::None) => {}
            _ => edits.extend(object_properties(&value).map(|schema| Edit::Set(key, schema))),
        }
    }
    edits.extend(removals(missing.item, tool));
    edits.extend(removals(missing.tool, tool));
    without(tool, &edits)
}

/// Whether the text may contain one of these keys; a substring search is cheaper than a scan.
pub(super) fn mentions(keys: &[&str], result: &Raw) -> bool {
    keys.iter().any(|key| result.may_mention(key))
}

fn describes_an_object(schema: &Raw) -> bool {
    schema.get("type").is_some_and(|kind| kind.as_str().as_deref() == Some("object"))
}

/// The schema with an object for each property schema: older revisions do not have `true` and `false`.
fn object_properties(schema: &Raw) -> Option<Raw> {
    let properties = schema.get("properties")?;
    let members = properties.members();
    let plain: Vec<Edit<'_>> = members
        .iter()
        .filter_map(|member| member.value.as_bool().map(|anything| (&member.key, anything)))
        .map(|(key, anything)| Edit::Set(key, if anything { Raw::empty_object() } else { nothing() }))
        .collect();
    (!plain.is_empty()).then(|| splice::edited(schema, &[Edit::Set("properties", splice::edited(&properties, &plain))]))
}

/// The schema that matches no value.
fn nothing() -> Raw {
    Raw::of(&serde_json::json!({ "not": {} }))
}

pub(super) fn removals(keys: &[&'static str], object: &Raw) -> Vec<Edit<'static>> {
    present(object, &[], keys).into_iter().map(|(key, _)| Edit::Remove(key)).collect()
}

pub(super) fn without(object: &Raw, edits: &[Edit<'_>]) -> Option<Raw> {
    (!edits.is_empty() && object.kind() == JsonKind::Object).then(|| splice::edited(object, edits))
}
