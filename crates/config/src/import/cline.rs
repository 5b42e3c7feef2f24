//! Cline and its relatives Roo and Kilo: a file in the project, and one in the editor's storage.

use super::{
    Host,
    entry::{Entries, Reading, usable},
    find::Spot,
    rules::{Clock, Rule, SECONDS},
};
use crate::{error::ConfigError, interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::Cline,
    spots: &[
        Spot::Project(".roo/mcp.json"),
        Spot::Project(".kilocode/mcp.json"),
        Spot::Config("Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
        Spot::Config("Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"),
        Spot::Config("Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/cline_mcp_settings.json"),
        Spot::Config("Code/User/globalStorage/kilocode.kilo-code/settings/mcp_settings.json"),
    ],
    read,
};

const ENTRIES: Entries = Entries {
    // Only Roo fills these in; elsewhere a guessed text would be sent as a credential.
    dialect: Dialect::Roo,
    rules: &[
        ("type", Rule::Kind),
        ("transportType", Rule::Kind),
        ("command", Rule::Command),
        ("args", Rule::Arguments),
        ("env", Rule::Environment),
        ("cwd", Rule::Directory),
        ("url", Rule::Url),
        ("headers", Rule::Headers),
        ("disabled", Rule::Disabled),
        ("disabledTools", Rule::Without),
        ("timeout", Rule::Time(Clock::Total, SECONDS)),
        ("alwaysAllow", Rule::Ignored("approvals are not taken over")),
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
