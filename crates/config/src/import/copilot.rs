//! Copilot CLI: `mcp-config.json` of the user, `.github/mcp.json` and `.mcp.json` of a project.

use super::{
    Host,
    entry::{Entries, usable},
    find::Location,
    rules::{KeyRule, USUAL},
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::CopilotCli,
    locations: &[
        Location::Project(".mcp.json"),
        Location::Project(".github/mcp.json"),
        Location::Folder { variable: "COPILOT_HOME", file: "mcp-config.json", otherwise: ".copilot" },
    ],
    read: |reader| reader.container("mcpServers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Braces,
    rules: &[
        USUAL,
        &[
            // `["*"]` means all tools.
            ("tools", KeyRule::Only),
            ("disabled", KeyRule::Disabled),
        ],
    ],
    unusable: usable,
};
