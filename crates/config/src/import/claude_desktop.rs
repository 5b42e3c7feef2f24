//! Claude Desktop: `claude_desktop_config.json`, programs only, nothing special in texts.

use super::{
    Host,
    entry::{Entries, Reading, usable},
    find::Spot,
    rules::Rule,
};
use crate::{error::ConfigError, interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::ClaudeDesktop,
    spots: &[
        Spot::Config("Claude/claude_desktop_config.json"),
        Spot::Home("Library/Application Support/Claude/claude_desktop_config.json"),
    ],
    read,
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Literal,
    rules: &[("command", Rule::Command), ("args", Rule::Arguments), ("env", Rule::Environment)],
    unusable: usable,
};

fn read(reading: &mut Reading<'_>) -> Result<(), ConfigError> {
    if let Some(entries) = reading.document.root()?.take_section("mcpServers")? {
        reading.entries(entries, &ENTRIES);
    }
    Ok(())
}
