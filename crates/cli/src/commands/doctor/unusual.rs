//! What is unusual in the descriptions and instructions of a server.

use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::ServerInstructions,
    catalog::{Catalog, ItemKind},
    connection::ServerStatus,
    policy::scan::{self, TextFinding},
};

use crate::output::clean;

/// Lines that are shown for one server.
const MAX_LINES: usize = 20;

/// A line about instructions that no model gets because they have changed.
pub(super) async fn changed_instructions(host: &Host, server: &ServerName) -> Option<String> {
    match host.withheld_instructions(server).await? {
        ServerInstructions::Given(_) => None,
        ServerInstructions::Withheld { difference, remedy } => {
            let difference = clean::flat(&difference.join("; "));
            Some(format!(
                "its instructions have changed since they were first seen, and no model gets them ({difference}); {remedy}"
            ))
        }
    }
}

/// One line for each text with a finding.
pub(super) fn find(status: &ServerStatus, catalog: &Catalog) -> Vec<String> {
    let server = &status.server;
    let line = |what: &str, findings: &[TextFinding]| {
        let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
        (!texts.is_empty()).then(|| format!("{what} contains {}", texts.join(", ")))
    };
    let profile = status.profile.as_ref();
    let instructions = profile.and_then(|profile| profile.instructions.as_deref()).unwrap_or_default();
    let of_server = line("its instructions", &scan::scan(instructions, server, catalog));
    let of_item = |kind: ItemKind, name: &str, description: Option<&str>| {
        // One that policy hides is worth a look most of all.
        let is_offered = match kind {
            ItemKind::Tool => catalog.tool_at(server, name).is_some(),
            _ => catalog.prompt_at(server, name).is_some(),
        };
        let is_meant = is_offered || catalog.hidden_at(kind, server, name).is_some();
        let what = if kind == ItemKind::Prompt { "prompt " } else { "" };
        let what = format!("the description of {what}`{}`", clean::flat(name));
        is_meant.then(|| line(&what, &scan::scan(description.unwrap_or_default(), server, catalog))).flatten()
    };
    let listing = catalog.listing_of(server);
    let tools = listing.into_iter().flat_map(|listing| &listing.tools);
    let tools = tools.filter_map(|tool| of_item(ItemKind::Tool, &tool.item.name, tool.item.description.as_deref()));
    let prompts = listing.into_iter().flat_map(|listing| &listing.prompts);
    let prompts =
        prompts.filter_map(|prompt| of_item(ItemKind::Prompt, &prompt.item.name, prompt.item.description.as_deref()));
    of_server.into_iter().chain(tools).chain(prompts).take(MAX_LINES).collect()
}
