//! Cline and its relatives Roo and Kilo: a file in the project, and one in the editor's storage.

use super::{
    Host,
    entry::{Entries, usable},
    find::Spot,
    rules::{Clock, Rule, SECONDS, USUAL},
};
use crate::{interpolate::Dialect, server::Format};

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
    read: |reading| reading.container("mcpServers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    // Only Roo fills these in; elsewhere a guessed text would be sent as a credential.
    dialect: Dialect::Roo,
    rules: &[
        USUAL,
        &[
            ("transportType", Rule::Kind),
            ("disabled", Rule::Disabled),
            ("disabledTools", Rule::Without),
            ("timeout", Rule::Time(Clock::Total, SECONDS)),
            ("alwaysAllow", Rule::Ignored("approvals are not taken over")),
            ("autoApprove", Rule::Ignored("approvals are not taken over")),
        ],
    ],
    unusable: usable,
};
