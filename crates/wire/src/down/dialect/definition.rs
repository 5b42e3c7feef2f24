//! Tools, resources and prompts, as a revision lists them.

use super::{Lacks, Structure, each, present};
use crate::{
    json::{Kind, Raw},
    message::splice::{self, Edit},
};

/// The tools of a list.
pub(super) fn tools(lacks: &Lacks, result: &Raw) -> Option<Edit<'static>> {
    if lacks.structure == Structure::Anything && !mentions(lacks.tool, result) {
        return None;
    }
    let tools = each(&result.get("tools")?, |tool| self::tool(lacks, tool))?;
    Some(Edit::Set("tools", tools))
}

/// The members of another list.
pub(super) fn items(lacks: &Lacks, result: &Raw, list: &'static str) -> Option<Edit<'static>> {
    if !mentions(lacks.item, result) {
        return None;
    }
    let items = each(&result.get(list)?, |item| without(item, &removals(lacks.item, item)))?;
    Some(Edit::Set(list, items))
}

/// The prompts of a list, and what they take.
pub(super) fn prompts(lacks: &Lacks, result: &Raw) -> Option<Edit<'static>> {
    if !mentions(lacks.item, result) {
        return None;
    }
    let prompts = each(&result.get("prompts")?, |prompt| {
        let mut edits = removals(lacks.item, prompt);
        edits.extend(items(lacks, prompt, "arguments"));
        without(prompt, &edits)
    })?;
    Some(Edit::Set("prompts", prompts))
}

fn tool(lacks: &Lacks, tool: &Raw) -> Option<Raw> {
    let mut edits = Vec::new();
    for (key, value) in present(tool, &["inputSchema", "outputSchema"], &[]) {
        match (key, lacks.structure) {
            (_, Structure::Anything) => {}
            ("outputSchema", Structure::Objects) if !describes_an_object(&value) => edits.push(Edit::Remove(key)),
            ("outputSchema", Structure::None) => {}
            _ => edits.extend(object_properties(&value).map(|schema| Edit::Set(key, schema))),
        }
    }
    edits.extend(removals(lacks.item, tool));
    edits.extend(removals(lacks.tool, tool));
    without(tool, &edits)
}

/// Whether any of these may be in there: a look for the words is cheaper than crossing it.
pub(super) fn mentions(keys: &[&str], result: &Raw) -> bool {
    keys.iter().any(|key| result.may_mention(key))
}

fn describes_an_object(schema: &Raw) -> bool {
    schema.get("type").is_some_and(|kind| kind.as_str().as_deref() == Some("object"))
}

/// The schema with an object for each property: a bare `true` or `false` is not known everywhere.
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

/// The schema that nothing fits.
fn nothing() -> Raw {
    Raw::of(&serde_json::json!({ "not": {} }))
}

pub(super) fn removals(keys: &[&'static str], object: &Raw) -> Vec<Edit<'static>> {
    present(object, &[], keys).into_iter().map(|(key, _)| Edit::Remove(key)).collect()
}

pub(super) fn without(object: &Raw, edits: &[Edit<'_>]) -> Option<Raw> {
    (!edits.is_empty() && object.kind() == Kind::Object).then(|| splice::edited(object, edits))
}
