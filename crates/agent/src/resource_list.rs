//! Answers `mcp_list_resources`: the resources of the servers that the agent sees, searched or in order, a bounded number at
//! a time.

use serde_json::{Map, Value, json};
use toolway_host::catalog::{Catalog, ResourceEntry, TemplateEntry};
use toolway_wire::json::Raw;

use crate::{builtin::Builtin, calls::text_member, tools::Visible};

/// Resources in one answer.
const MOST_RESOURCES: usize = 50;
/// Templates in one answer.
const MOST_TEMPLATES: usize = 20;
/// Characters of a title or description in an answer.
const SUMMARY: usize = 200;

/// The answer as JSON, or why it cannot be given.
pub(crate) fn list(catalog: &Catalog, visible: &Visible, arguments: &Raw) -> Result<String, String> {
    let query = text_member(arguments, "query").filter(|query| !query.trim().is_empty());
    let server = text_member(arguments, "server_id");
    let offset = arguments.get("offset").and_then(|offset| offset.as_u64()).unwrap_or_default();
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let is_meant = |of: &toolway_config::ServerName| {
        visible.covers(of) && server.as_deref().is_none_or(|server| of.as_str() == server)
    };
    let resources: Vec<&ResourceEntry> = match &query {
        Some(query) => {
            let hits = catalog.search_resources(query, |entry| is_meant(&entry.origin.server));
            hits.into_iter().map(|hit| hit.entry).collect()
        }
        None => catalog.resources().iter().filter(|entry| is_meant(&entry.origin.server)).collect(),
    };
    // Templates are few, and are listed with the first answer only.
    let templates = catalog.templates().iter().filter(|entry| is_meant(&entry.origin.server) && offset == 0);
    let templates: Vec<Value> = templates.take(MOST_TEMPLATES).map(template).collect();
    let shown: Vec<Value> = resources.iter().skip(offset).take(MOST_RESOURCES).map(|entry| resource(entry)).collect();
    if shown.is_empty() && templates.is_empty() {
        return Err(match query {
            Some(query) => format!("no resource matches `{query}`; try other words, or none to list all"),
            None => "no server lists a resource".to_owned(),
        });
    }
    let next = offset.saturating_add(shown.len());
    let mut answer = json!({
        "resources": shown,
        "total": resources.len(),
        "read_with": format!("`{}` with `server_id` and `uri`", Builtin::ReadResource.name()),
    });
    if next < resources.len() {
        answer["next_offset"] = next.into();
    }
    if !templates.is_empty() {
        answer["templates"] = templates.into();
    }
    Ok(answer.to_string())
}

fn resource(entry: &ResourceEntry) -> Value {
    let item = &entry.item;
    let mut view = Map::new();
    view.insert("server_id".to_owned(), entry.origin.server.as_str().into());
    view.insert("uri".to_owned(), item.uri.as_str().into());
    let name = Some(&item.name).filter(|name| **name != item.uri);
    for (key, text) in [("title", item.title.as_ref().or(name)), ("description", item.description.as_ref())] {
        view.extend(text.map(|text| (key.to_owned(), summary(text).into())));
    }
    view.extend(item.mime_type.as_ref().map(|mime_type| ("mime_type".to_owned(), summary(mime_type).into())));
    view.extend(item.raw.get("size").and_then(|size| size.as_u64()).map(|size| ("size".to_owned(), size.into())));
    Value::Object(view)
}

fn template(entry: &TemplateEntry) -> Value {
    json!({
        "server_id": entry.origin.server.as_str(),
        "uri_template": entry.item.uri_template,
        "name": summary(&entry.item.name),
        "description": entry.item.description.as_deref().map(summary),
    })
}

fn summary(text: &str) -> String {
    let mut shown: String = text.chars().take(SUMMARY).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
