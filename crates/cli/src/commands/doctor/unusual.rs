//! What is unusual in the descriptions and instructions of a server.

use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::ServerInstructions,
    catalog::{Catalog, ItemKind},
    connection::ServerStatus,
    policy::scan::{self, PartFindings, Scanner},
};
use toolway_wire::json::Raw;

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
    let scanner = Scanner::new(catalog);
    let instructions = status.profile.as_ref().and_then(|profile| profile.instructions.as_deref()).unwrap_or_default();
    let of_server = scanner.text(instructions, server);
    let of_server = (!of_server.is_empty()).then(|| format!("its instructions contain {}", scan::contents(&of_server)));
    let of_item = |kind: ItemKind, name: &str, raw: &Raw| {
        // One that policy hides is worth a look most of all.
        let is_offered = match kind {
            ItemKind::Tool => catalog.tool_at(server, name).is_some(),
            _ => catalog.prompt_at(server, name).is_some(),
        };
        let is_meant = is_offered || catalog.hidden_at(kind, server, name).is_some();
        let what = if kind == ItemKind::Prompt { "prompt " } else { "" };
        let parts = if is_meant { scanner.definition(raw, server) } else { Vec::new() };
        let line = |PartFindings { part, findings }: PartFindings| {
            format!("the {part} of {what}`{}` contains {}", clean::flat(name), scan::contents(&findings))
        };
        parts.into_iter().map(line).collect::<Vec<_>>()
    };
    let listing = catalog.listing_of(server);
    let tools = listing.into_iter().flat_map(|listing| &listing.tools);
    let tools = tools.flat_map(|tool| of_item(ItemKind::Tool, &tool.item.name, &tool.item.raw));
    let prompts = listing.into_iter().flat_map(|listing| &listing.prompts);
    let prompts = prompts.flat_map(|prompt| of_item(ItemKind::Prompt, &prompt.item.name, &prompt.item.raw));
    of_server.into_iter().chain(tools).chain(prompts).take(MAX_LINES).collect()
}
