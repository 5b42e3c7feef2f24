//! MCP Inspector: `~/.mcp-inspector/mcp.json`.

use super::{
    Host,
    entry::{Entries, Reading, usable},
    find::Spot,
    rules::{Clock, MILLISECONDS, Rule},
};
use crate::{error::ConfigError, interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host { format: Format::Inspector, spots: &[Spot::Home(".mcp-inspector/mcp.json")], read };

const ENTRIES: Entries = Entries {
    dialect: Dialect::Literal,
    rules: &[
        ("type", Rule::Kind),
        ("command", Rule::Command),
        ("args", Rule::Arguments),
        ("env", Rule::Environment),
        ("cwd", Rule::Directory),
        ("url", Rule::Url),
        ("headers", Rule::Headers),
        ("protocolEra", Rule::Era),
        ("connectionTimeout", Rule::Time(Clock::Connect, MILLISECONDS)),
        ("requestTimeout", Rule::Time(Clock::Total, MILLISECONDS)),
        ("oauth", Rule::Ignored("signing in is not taken over")),
        ("roots", Rule::Ignored("they are not configured per server")),
        ("metadata", Rule::Nothing),
        ("taskTtl", Rule::Nothing),
        ("paginatedLists", Rule::Nothing),
    ],
    unusable: usable,
};

fn read(reading: &mut Reading<'_>) -> Result<(), ConfigError> {
    if let Some(entries) = reading.document.root()?.take_section("mcpServers")? {
        reading.entries(entries, &ENTRIES);
    }
    Ok(())
}
