//! Cursor: `.cursor/mcp.json` of a project and of the user.

use super::{
    Host,
    entry::{Entries, usable},
    find::Location,
    rules::{KeyRule, USUAL},
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::Cursor,
    locations: &[Location::Project(".cursor/mcp.json"), Location::Home(".cursor/mcp.json")],
    read: |reader| reader.container("mcpServers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Cursor,
    rules: &[
        USUAL,
        &[("envFile", KeyRule::EnvironmentFile), ("disabled", KeyRule::Disabled), ("auth", KeyRule::OAuth)],
    ],
    unusable: usable,
};
