//! Cline and its relatives Roo and Kilo: a file in the project, and one in the editor's storage.

use super::{
    Host,
    entry::{Entries, usable},
    find::Location,
    rules::{Clock, KeyRule, SECONDS, USUAL},
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::Cline,
    locations: &[
        Location::Project(".roo/mcp.json"),
        Location::Project(".kilocode/mcp.json"),
        Location::Config("Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
        Location::Config("Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"),
        Location::Config("Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/cline_mcp_settings.json"),
        Location::Config("Code/User/globalStorage/kilocode.kilo-code/settings/mcp_settings.json"),
    ],
    read: |reader| reader.container("mcpServers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    // Only Roo resolves references; for the others a reference is an error, so that no placeholder is sent as a secret.
    dialect: Dialect::Roo,
    rules: &[
        USUAL,
        &[
            ("transportType", KeyRule::Kind),
            ("disabled", KeyRule::Disabled),
            ("disabledTools", KeyRule::Without),
            ("timeout", KeyRule::Time(Clock::Total, SECONDS)),
            ("alwaysAllow", KeyRule::Ignored("approvals are not imported")),
            ("autoApprove", KeyRule::Ignored("approvals are not imported")),
        ],
    ],
    unusable: usable,
};
