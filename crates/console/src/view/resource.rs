//! Resources, resource templates and prompts of all servers.

use serde_json::{Map, Value, json};
use toolway_config::ServerName;
use toolway_host::catalog::{Catalog, PromptEntry, ResourceEntry, TemplateEntry};
use toolway_wire::json::Raw;

use super::icon::icon;

/// Items of a list.
const MAX_ITEMS: usize = 10_000;
/// Bytes of a description.
const MAX_DESCRIPTION: usize = 1_000;
/// Bytes of a name or title.
const MAX_NAME: usize = 2_048;
/// Arguments of a prompt.
const MAX_ARGUMENTS: usize = 200;
/// Bytes of all icons of a list.
const MAX_ICONS: usize = 2 * 1024 * 1024;

/// The resources and templates of a catalog. `watched`: those whose updates are followed.
pub(crate) fn resources(catalog: &Catalog, watched: &[Value]) -> Value {
    let mut icons = Icons::new();
    let resources: Vec<_> =
        catalog.resources().iter().take(MAX_ITEMS).map(|entry| resource(entry, &mut icons)).collect();
    let templates: Vec<_> =
        catalog.templates().iter().take(MAX_ITEMS).map(|entry| template(entry, &mut icons)).collect();
    let all = catalog.resources().len() + catalog.templates().len();
    json!({
        "more": all - resources.len() - templates.len(),
        "resources": resources,
        "templates": templates,
        "servers": abilities(catalog),
        "watched": watched,
    })
}

/// The prompts of a catalog.
pub(crate) fn prompts(catalog: &Catalog) -> Value {
    let mut icons = Icons::new();
    let prompts: Vec<_> = catalog.prompts().iter().take(MAX_ITEMS).map(|entry| prompt(entry, &mut icons)).collect();
    json!({ "more": catalog.prompts().len() - prompts.len(), "prompts": prompts, "servers": abilities(catalog) })
}

/// What servers can do with their items.
fn abilities(catalog: &Catalog) -> Value {
    let of = |(server, offer): (&ServerName, &toolway_host::catalog::Offer)| {
        let capabilities = &offer.listing.capabilities;
        let can = json!({ "completes": capabilities.has("completions"), "watches": capabilities.flag("resources", "subscribe") });
        (server.to_string(), can)
    };
    Value::Object(catalog.servers().map(of).collect::<Map<_, _>>())
}

fn resource(entry: &ResourceEntry, icons: &mut Icons) -> Value {
    let item = &entry.item;
    json!({
        "server": entry.origin.server.as_str(),
        "uri": item.uri,
        "name": cut(&item.name, MAX_NAME),
        "title": item.title.as_deref().map(|text| cut(text, MAX_NAME)),
        "description": item.description.as_deref().map(|text| cut(text, MAX_DESCRIPTION)),
        "mimeType": item.mime_type.as_deref().map(|text| cut(text, MAX_NAME)),
        "size": item.raw.get("size").and_then(|size| size.as_u64()),
        "icon": icons.take(&item.raw),
    })
}

fn template(entry: &TemplateEntry, icons: &mut Icons) -> Value {
    let item = &entry.item;
    let title = item.raw.get("title");
    let title = title.as_ref().and_then(Raw::as_str);
    json!({
        "server": entry.origin.server.as_str(),
        "uriTemplate": item.uri_template,
        "name": cut(&item.name, MAX_NAME),
        "title": title.as_deref().map(|text| cut(text, MAX_NAME)),
        "description": item.description.as_deref().map(|text| cut(text, MAX_DESCRIPTION)),
        "mimeType": item.mime_type.as_deref().map(|text| cut(text, MAX_NAME)),
        "icon": icons.take(&item.raw),
    })
}

fn prompt(entry: &PromptEntry, icons: &mut Icons) -> Value {
    let item = &entry.item;
    let arguments = item.arguments.iter().take(MAX_ARGUMENTS).map(|argument| {
        json!({
            "name": argument.name,
            "description": argument.description.as_deref().map(|text| cut(text, MAX_DESCRIPTION)),
            "required": argument.required,
        })
    });
    json!({
        "server": entry.origin.server.as_str(),
        "name": item.name,
        "publicName": entry.public.as_str(),
        "title": item.title.as_deref().map(|text| cut(text, MAX_NAME)),
        "description": item.description.as_deref().map(|text| cut(text, MAX_DESCRIPTION)),
        "icon": icons.take(&item.raw),
        "arguments": arguments.collect::<Vec<_>>(),
    })
}

/// Icons within their bound.
struct Icons {
    left: usize,
}

impl Icons {
    fn new() -> Self {
        Self { left: MAX_ICONS }
    }

    fn take(&mut self, item: &Raw) -> Option<String> {
        let icon = icon(item).filter(|icon| icon.len() <= self.left)?;
        self.left -= icon.len();
        Some(icon)
    }
}

fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
