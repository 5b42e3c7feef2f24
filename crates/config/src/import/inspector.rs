//! MCP Inspector: `~/.mcp-inspector/mcp.json`.

use super::{
    Host,
    entry::{Entries, usable},
    find::Location,
    rules::{Clock, KeyRule, MILLISECONDS, USUAL},
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
            ("protocolEra", KeyRule::Era),
            ("connectionTimeout", KeyRule::Time(Clock::Connect, MILLISECONDS)),
            ("requestTimeout", KeyRule::Time(Clock::Total, MILLISECONDS)),
            ("oauth", KeyRule::OAuth),
            ("roots", KeyRule::Roots),
            ("metadata", KeyRule::Nothing),
            ("taskTtl", KeyRule::Nothing),
            ("paginatedLists", KeyRule::Nothing),
        ],
    ],
    unusable: usable,
};
