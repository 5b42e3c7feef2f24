//! Cursor: `.cursor/mcp.json` of a project and of the user.

use super::{
    Host,
    entry::{Entries, usable},
    find::Location,
    rules::{Rule, USUAL},
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::Cursor,
    locations: &[Location::Project(".cursor/mcp.json"), Location::Home(".cursor/mcp.json")],
    read: |reader| reader.container("mcpServers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Cursor,
    rules: &[USUAL, &[("envFile", Rule::EnvironmentFile), ("disabled", Rule::Disabled), ("auth", Rule::OAuth)]],
    unusable: usable,
};
