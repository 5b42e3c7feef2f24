//! Windsurf: `mcp_config.json`, where an address is a `serverUrl`.

use super::{
    Host,
    entry::{Entries, usable},
    find::Spot,
    rules::Rule,
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::Windsurf,
    spots: &[Spot::Home(".codeium/windsurf/mcp_config.json"), Spot::Home(".codeium/mcp_config.json")],
    read: |reading| reading.container("mcpServers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Windsurf,
    rules: &[&[
        ("type", Rule::Kind),
        ("command", Rule::Command),
        ("args", Rule::Arguments),
        ("env", Rule::Environment),
        ("serverUrl", Rule::Url),
        ("url", Rule::Url),
        ("headers", Rule::Headers),
        ("disabled", Rule::Disabled),
        ("disabledTools", Rule::Without),
    ]],
    unusable: usable,
};
