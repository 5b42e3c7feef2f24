//! Kiro: `.kiro/settings/mcp.json` of a project and of the user.

use super::{
    Host,
    entry::{Entries, usable},
    find::Spot,
    rules::{Rule, USUAL},
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::Kiro,
    spots: &[Spot::Project(".kiro/settings/mcp.json"), Spot::Home(".kiro/settings/mcp.json")],
    read: |reading| reading.container("mcpServers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Braces,
    rules: &[
        USUAL,
        &[
            ("disabled", Rule::Disabled),
            ("disabledTools", Rule::Without),
            ("autoApprove", Rule::Ignored("approvals are not taken over")),
        ],
    ],
    unusable: usable,
};
