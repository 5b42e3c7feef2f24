//! Claude Desktop: `claude_desktop_config.json`, programs only, nothing special in texts.

use super::{
    Host,
    entry::{Entries, usable},
    find::Spot,
    rules::Rule,
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::ClaudeDesktop,
    spots: &[
        Spot::Config("Claude/claude_desktop_config.json"),
        Spot::Home("Library/Application Support/Claude/claude_desktop_config.json"),
    ],
    read: |reading| reading.container("mcpServers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Literal,
    rules: &[&[("command", Rule::Command), ("args", Rule::Arguments), ("env", Rule::Environment)]],
    unusable: usable,
};
