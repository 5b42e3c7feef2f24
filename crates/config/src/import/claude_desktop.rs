//! Claude Desktop: `claude_desktop_config.json`, programs only, no references.

use super::{
    Host,
    entry::{Entries, usable},
    find::Location,
    rules::KeyRule,
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::ClaudeDesktop,
    locations: &[
        Location::Config("Claude/claude_desktop_config.json"),
        Location::Home("Library/Application Support/Claude/claude_desktop_config.json"),
    ],
    read: |reader| reader.container("mcpServers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Literal,
    rules: &[&[("command", KeyRule::Command), ("args", KeyRule::Arguments), ("env", KeyRule::Environment)]],
    unusable: usable,
};
