//! The search for tools that takes the place of their definitions where these would fill the context window.

use serde_json::{Value, json};
use toolway_host::{
    catalog::{Catalog, Origin, PublicName, ToolEntry},
    policy::Annotations,
};
use toolway_wire::json::{JsonKind, Raw};

use crate::{
    builtin::{Builtin, Effect},
    calls::text_member,
    hints,
    tools::Visible,
};

/// Tools in one answer of `search_tools`.
const MOST_HITS: usize = 20;
/// Characters of a description in an answer of `search_tools`.
const SUMMARY: usize = 200;

/// Answers `search_tools`.
pub(crate) fn search(catalog: &Catalog, visible: &Visible, arguments: &Raw) -> Result<String, String> {
    let query = &text_member(arguments, "query").ok_or("`query` must be a string")?;
    let server = text_member(arguments, "server_id");
    let server = server.as_deref();
    let is_meant = |entry: &ToolEntry| {
        visible.covers_tool(&entry.origin) && server.is_none_or(|server| entry.origin.server.as_str() == server)
    };
    let mut hits: Vec<&ToolEntry> =
        catalog.search_among(query, MOST_HITS, is_meant).into_iter().map(|hit| hit.entry).collect();
    if hits.is_empty() && server.is_some() {
        hits = catalog.tools().iter().filter(|entry| is_meant(entry)).take(MOST_HITS).collect();
    }
    let tools: Vec<Value> = hits.into_iter().map(summary).collect();
    if tools.is_empty() {
        return Err(format!("no tool matches `{query}`; try other words"));
    }
    Ok(json!({ "tools": tools }).to_string())
}

/// Answers `describe_tool`.
pub(crate) fn describe(catalog: &Catalog, visible: &Visible, arguments: &Raw) -> Result<String, String> {
    let entry = find(catalog, visible, arguments)?;
    let schema: Value = serde_json::from_str(&entry.item.input_schema.to_string()).unwrap_or_default();
    let view = json!({
        "name": entry.public.as_str(),
        "description": entry.item.description,
        "hints": hints::words(entry.item.annotations.as_ref()),
        "arguments": schema,
        "call_with": call_with(entry).name(),
    });
    Ok(view.to_string())
}

/// The tool that a model wants to call, if it chose the right way to call it.
pub(crate) fn choose(
    catalog: &Catalog,
    visible: &Visible,
    chosen: Effect,
    arguments: &Raw,
) -> Result<(PublicName, Raw), String> {
    let entry = find(catalog, visible, arguments)?;
    let right = call_with(entry);
    if right != Builtin::CallTool(chosen) {
        return Err(format!("tool `{}` must be called with `{}`", entry.public, right.name()));
    }
    let given = arguments.get("arguments").unwrap_or_else(Raw::empty_object);
    if given.kind() != JsonKind::Object {
        return Err(format!("`arguments` is not a JSON object: {given}"));
    }
    Ok((entry.public.clone(), given))
}

/// Finds a tool by its public name, or by `server.tool`.
fn find<'a>(catalog: &'a Catalog, visible: &Visible, arguments: &Raw) -> Result<&'a ToolEntry, String> {
    let name = &text_member(arguments, "name").ok_or("`name` must be a string")?;
    let by_public = || name.parse().ok().and_then(|name| catalog.find_tool(&name));
    let by_origin = || {
        let (server, raw_name) = name.split_once('.')?;
        let origin = Origin { server: server.parse().ok()?, raw_name: raw_name.to_owned() };
        catalog.tool_at(&origin.server, &origin.raw_name)
    };
    let found = by_public().or_else(by_origin).filter(|entry| visible.covers_tool(&entry.origin));
    found.ok_or_else(|| format!("unknown tool `{name}`; find it with `search_tools`"))
}

fn call_with(entry: &ToolEntry) -> Builtin {
    Builtin::CallTool(Effect::of(Annotations::of_tool(entry.item.annotations.as_ref())))
}

fn summary(entry: &ToolEntry) -> Value {
    let description = entry.item.description.as_deref().unwrap_or_default();
    let mut shown: String = description.chars().take(SUMMARY).collect();
    if shown.len() < description.len() {
        shown.push('…');
    }
    json!({ "name": entry.public.as_str(), "description": shown, "call_with": call_with(entry).name() })
}
