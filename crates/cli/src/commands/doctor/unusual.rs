//! What is unusual in the descriptions and instructions of a server.

use toolway_host::{
    catalog::Catalog,
    connection::ServerStatus,
    policy::scan::{self, TextFinding},
};

use crate::output::clean;

/// Lines that are shown for one server.
const MAX_LINES: usize = 20;

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
    let of_tools = catalog.tools_of(server).iter().filter_map(|tool| {
        let description = tool.item.description.as_deref().unwrap_or_default();
        let what = format!("the description of `{}`", clean::flat(&tool.item.name));
        line(&what, &scan::scan(description, server, catalog))
    });
    of_server.into_iter().chain(of_tools).take(MAX_LINES).collect()
}
