//! Cursor: `.cursor/mcp.json` of a project and of the user.

use super::{
    Host,
    entry::{Entries, Reading, usable},
    find::Spot,
    rules::Rule,
};
use crate::{error::ConfigError, interpolate::Dialect, server::Format};

pub(super) const HOST: Host =
    Host { format: Format::Cursor, spots: &[Spot::Project(".cursor/mcp.json"), Spot::Home(".cursor/mcp.json")], read };

const ENTRIES: Entries = Entries {
    dialect: Dialect::Cursor,
    rules: &[
        ("type", Rule::Kind),
        ("command", Rule::Command),
        ("args", Rule::Arguments),
        ("env", Rule::Environment),
        ("envFile", Rule::EnvironmentFile),
        ("cwd", Rule::Directory),
        ("url", Rule::Url),
        ("headers", Rule::Headers),
        ("disabled", Rule::Disabled),
        ("auth", Rule::Ignored("signing in is not taken over")),
    ],
    unusable: usable,
};

fn read(reading: &mut Reading<'_>) -> Result<(), ConfigError> {
    if let Some(entries) = reading.document.root()?.take_section("mcpServers")? {
        reading.entries(entries, &ENTRIES);
    }
    Ok(())
}
