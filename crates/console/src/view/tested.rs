//! What is said of a server that was tested.

use std::time::Duration;

use toolway_config::Secret;
use toolway_host::{
    Host,
    catalog::ToolEntry,
    connection::{Phase, ServerStatus},
    policy::Annotations,
};
use toolway_wire::json::Raw;

use super::{
    cut,
    icon::icon,
    server::{capabilities, set_aside_of},
};
use crate::backend::{TestReport, TestedTool};

/// Tools that are shown.
const MAX_TOOLS: usize = 500;
/// Bytes of all icons of tools.
const MAX_ICONS: usize = 1024 * 1024;

/// The report without a failure.
pub(crate) fn report(host: &Host, status: &ServerStatus, took: Duration) -> TestReport {
    let profile = status.profile.as_ref();
    let info = |key: &str| profile.and_then(|profile| text(profile.info.get(key)));
    let catalog = host.catalog();
    let tools = catalog.tools_of(&status.server);
    let mut icons_left = MAX_ICONS;
    TestReport {
        ok: status.phase == Phase::Ready && status.counts.is_some(),
        sign_in_required: matches!(status.phase, Phase::SignInRequired { .. }),
        title: info("title").or_else(|| info("name")),
        version: info("version"),
        icon: profile.and_then(|profile| icon(&profile.info)),
        era: profile.map(|profile| profile.era.to_string()),
        revision: profile.map(|profile| profile.revision.as_str().to_owned()),
        session_id: profile.and_then(|profile| profile.session_id.as_ref()).map(|id| Secret::expose(id).to_owned()),
        capabilities: profile.map(|profile| capabilities(&profile.capabilities.0)).unwrap_or_default(),
        instructions: profile.and_then(|profile| profile.instructions.as_deref()).map(|text| cut(text).to_owned()),
        tools: tools.iter().take(MAX_TOOLS).map(|entry| tool(entry, &mut icons_left)).collect(),
        set_aside: set_aside_of(&catalog, &status.server),
        prompts: catalog.prompts_of(&status.server).len(),
        resources: catalog.resources_of(&status.server).len() + catalog.templates_of(&status.server).len(),
        duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        error: None,
    }
}

fn tool(entry: &ToolEntry, icons_left: &mut usize) -> TestedTool {
    let item = &entry.item;
    let Annotations { read_only, destructive, .. } = Annotations::of_tool(item.annotations.as_ref());
    let icon = icon(&item.raw).filter(|icon| icon.len() <= *icons_left);
    *icons_left -= icon.as_ref().map_or(0, String::len);
    TestedTool {
        name: entry.origin.raw_name.clone(),
        title: item.title.clone(),
        description: item.description.as_deref().map(|text| cut(text).to_owned()),
        icon,
        read_only,
        destructive,
    }
}

fn text(raw: Option<Raw>) -> Option<String> {
    Some(cut(&raw?.as_str()?).to_owned())
}
