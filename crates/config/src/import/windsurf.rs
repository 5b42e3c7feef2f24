//! Windsurf: `mcp_config.json`, with `serverUrl` for URLs.

use super::{
    Host,
    entry::{Entries, usable},
    find::Location,
    rules::KeyRule,
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
        ("type", KeyRule::Kind),
        ("command", KeyRule::Command),
        ("args", KeyRule::Arguments),
        ("env", KeyRule::Environment),
        ("serverUrl", KeyRule::Url),
        ("url", KeyRule::Url),
        ("headers", KeyRule::Headers),
        ("disabled", KeyRule::Disabled),
        ("disabledTools", KeyRule::Without),
    ]],
    unusable: usable,
};
