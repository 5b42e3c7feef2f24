//! Windsurf: `mcp_config.json`, with `serverUrl` for URLs.

use super::{
    Host,
    entry::{Entries, usable},
    find::Location,
    rules::Rule,
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::Windsurf,
    locations: &[Location::Home(".codeium/windsurf/mcp_config.json"), Location::Home(".codeium/mcp_config.json")],
    read: |reader| reader.container("mcpServers", &ENTRIES),
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
