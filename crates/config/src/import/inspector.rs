//! MCP Inspector: `~/.mcp-inspector/mcp.json`.

use super::{
    Host,
    entry::{Entries, usable},
    find::Location,
    rules::{Clock, MILLISECONDS, Rule, USUAL},
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::Inspector,
    locations: &[Location::Home(".mcp-inspector/mcp.json")],
    read: |reader| reader.container("mcpServers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Literal,
    rules: &[
        USUAL,
        &[
            ("protocolEra", Rule::Era),
            ("connectionTimeout", Rule::Time(Clock::Connect, MILLISECONDS)),
            ("requestTimeout", Rule::Time(Clock::Total, MILLISECONDS)),
            ("oauth", Rule::OAuth),
            ("roots", Rule::Ignored("roots are not configured per server")),
            ("metadata", Rule::Nothing),
            ("taskTtl", Rule::Nothing),
            ("paginatedLists", Rule::Nothing),
        ],
    ],
    unusable: usable,
};
