//! A tool in the list of all tools, and with its schemas and its standing.

use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use toolway_config::Trust;
use toolway_host::{
    call::DefinitionState,
    catalog::{HiddenItem, ToolEntry},
    policy::Annotations,
};
use toolway_wire::{json::Raw, task::TaskSupport};

use super::{icon::icon, moment};

/// Tools that are listed.
const MAX_TOOLS: usize = 10_000;
/// Bytes of a description in the list.
const MAX_DESCRIPTION: usize = 400;
/// Bytes of all icons of the list.
const MAX_ICONS: usize = 2 * 1024 * 1024;
/// Bytes of annotations.
const MAX_ANNOTATIONS: usize = 8 * 1024;
/// Bytes of a schema.
const MAX_SCHEMA: usize = 2 * 1024 * 1024;

/// All tools.
#[derive(Debug, Serialize)]
pub(crate) struct ToolList {
    tools: Vec<ToolRow>,
    /// Tools that are not listed.
    more: usize,
    hidden: Vec<Value>,
}

/// One tool of the list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolRow {
    server: String,
    name: String,
    public_name: String,
    title: Option<String>,
    description: Option<String>,
    icon: Option<String>,
    read_only: bool,
    destructive: bool,
    idempotent: bool,
    open_world: bool,
    /// `optional` or `required`; `None`: it cannot run as a task.
    task: Option<&'static str>,
}

/// One tool with its schemas.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolDetails {
    #[serde(flatten)]
    row: ToolRow,
    input_schema: Option<Box<RawValue>>,
    output_schema: Option<Box<RawValue>>,
    /// What the server says of it; what is absent has a default.
    annotations: Option<Box<RawValue>>,
    trust: Option<&'static str>,
    definition: Option<Value>,
}

/// All tools, with those that policy hides.
pub(crate) fn list<'a>(tools: &[ToolEntry], hidden: impl Iterator<Item = &'a HiddenItem>) -> ToolList {
    let mut icons_left = MAX_ICONS;
    let hidden = hidden.map(
        |item| json!({ "server": item.origin.server.as_str(), "name": item.origin.raw_name, "reason": item.reason }),
    );
    ToolList {
        tools: tools.iter().take(MAX_TOOLS).map(|entry| row(entry, MAX_DESCRIPTION, &mut icons_left)).collect(),
        more: tools.len().saturating_sub(MAX_TOOLS),
        hidden: hidden.take(MAX_TOOLS).collect(),
    }
}

/// One tool.
pub(crate) fn details(entry: &ToolEntry, trust: Option<Trust>, definition: Option<&DefinitionState>) -> ToolDetails {
    let whole = |raw: &Raw, most: usize| {
        let fits = raw.as_bytes().len() <= most;
        fits.then(|| RawValue::from_string(raw.to_string()).ok()).flatten()
    };
    let item = &entry.item;
    let mut icons_left = MAX_ICONS;
    ToolDetails {
        row: row(entry, usize::MAX, &mut icons_left),
        input_schema: whole(&item.input_schema, MAX_SCHEMA),
        output_schema: item.output_schema.as_ref().and_then(|schema| whole(schema, MAX_SCHEMA)),
        annotations: item.annotations.as_ref().and_then(|annotations| whole(annotations, MAX_ANNOTATIONS)),
        trust: trust.map(Trust::as_str),
        definition: definition.map(definition_view),
    }
}

/// How a definition compares with what was seen.
pub(super) fn definition_view(state: &DefinitionState) -> Value {
    json!({
        "standing": state.standing.as_str(),
        "seenAt": state.seen_at.map(moment),
        "difference": state.difference,
    })
}

fn row(entry: &ToolEntry, description: usize, icons_left: &mut usize) -> ToolRow {
    let item = &entry.item;
    let annotations = Annotations::of_tool(item.annotations.as_ref());
    let text = |raw: Option<Raw>| Some(raw?.as_str()?.into_owned());
    let annotated = item.annotations.as_ref().and_then(|annotations| text(annotations.get("title")));
    let icon = icon(&item.raw).filter(|icon| icon.len() <= *icons_left);
    *icons_left -= icon.as_ref().map_or(0, String::len);
    let cut = |text: &String| text[..text.floor_char_boundary(description)].to_owned();
    ToolRow {
        server: entry.origin.server.to_string(),
        name: entry.origin.raw_name.clone(),
        public_name: entry.public.to_string(),
        title: item.title.clone().or(annotated).as_ref().map(cut),
        description: item.description.as_ref().map(cut),
        icon,
        read_only: annotations.read_only,
        destructive: annotations.destructive,
        idempotent: annotations.idempotent,
        open_world: annotations.open_world,
        task: match TaskSupport::of(&item.raw) {
            TaskSupport::Forbidden => None,
            TaskSupport::Optional => Some("optional"),
            TaskSupport::Required => Some("required"),
        },
    }
}
