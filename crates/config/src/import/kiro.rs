//! Kiro: `.kiro/settings/mcp.json` of a project and of the user.

use super::{
    Host,
    entry::{Entries, usable},
    find::Location,
    rules::{KeyRule, USUAL},
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::Kiro,
    locations: &[Location::Project(".kiro/settings/mcp.json"), Location::Home(".kiro/settings/mcp.json")],
    read: |reader| reader.container("mcpServers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Braces,
    rules: &[
        USUAL,
        &[
            ("disabled", KeyRule::Disabled),
            ("disabledTools", KeyRule::Without),
            ("autoApprove", KeyRule::Ignored("approvals are not imported")),
        ],
    ],
    unusable: usable,
};
