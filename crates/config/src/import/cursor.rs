//! Cursor: `.cursor/mcp.json` of a project and of the user.

use super::{
    Host,
    entry::{Entries, usable},
    find::Spot,
    rules::{Rule, USUAL},
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::Cursor,
    spots: &[Spot::Project(".cursor/mcp.json"), Spot::Home(".cursor/mcp.json")],
    read: |reading| reading.container("mcpServers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Cursor,
    rules: &[USUAL, &[("envFile", Rule::EnvironmentFile), ("disabled", Rule::Disabled), ("auth", Rule::OAuth)]],
    unusable: usable,
};
