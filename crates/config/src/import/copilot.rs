//! Copilot CLI: `mcp-config.json` of the user, `.github/mcp.json` and `.mcp.json` of a project.

use super::{
    Host,
    entry::{Entries, Reading, usable},
    find::Spot,
    rules::Rule,
};
use crate::{error::ConfigError, interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::CopilotCli,
    spots: &[
        Spot::Project(".mcp.json"),
        Spot::Project(".github/mcp.json"),
        Spot::Folder { variable: "COPILOT_HOME", file: "mcp-config.json", otherwise: ".copilot" },
    ],
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
        // `["*"]` is all of them.
        ("tools", Rule::Only),
        ("disabled", Rule::Disabled),
    ],
    unusable: usable,
};

fn read(reading: &mut Reading<'_>) -> Result<(), ConfigError> {
    if let Some(entries) = reading.document.root()?.take_section("mcpServers")? {
        reading.entries(entries, &ENTRIES);
    }
    Ok(())
}
