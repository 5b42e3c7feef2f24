//! Kiro: `.kiro/settings/mcp.json` of a project and of the user.

use super::{
    Host,
    entry::{Entries, Reading, usable},
    find::Spot,
    rules::Rule,
};
use crate::{error::ConfigError, interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::Kiro,
    spots: &[Spot::Project(".kiro/settings/mcp.json"), Spot::Home(".kiro/settings/mcp.json")],
    read,
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Braces,
    rules: &[
        ("type", Rule::Kind),
        ("command", Rule::Command),
        ("args", Rule::Arguments),
        ("env", Rule::Environment),
        ("cwd", Rule::Directory),
        ("url", Rule::Url),
        ("headers", Rule::Headers),
        ("disabled", Rule::Disabled),
        ("disabledTools", Rule::Without),
        ("autoApprove", Rule::Ignored("approvals are not taken over")),
    ],
    unusable: usable,
};

fn read(reading: &mut Reading<'_>) -> Result<(), ConfigError> {
    if let Some(entries) = reading.document.root()?.take_section("mcpServers")? {
        reading.entries(entries, &ENTRIES);
    }
    Ok(())
}
