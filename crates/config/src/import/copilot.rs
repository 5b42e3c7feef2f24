//! Copilot CLI: `mcp-config.json` of the user, `.github/mcp.json` and `.mcp.json` of a project.

use super::{
    Host,
    entry::{Entries, usable},
    find::Spot,
    rules::{Rule, USUAL},
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::CopilotCli,
    spots: &[
        Spot::Project(".mcp.json"),
        Spot::Project(".github/mcp.json"),
        Spot::Folder { variable: "COPILOT_HOME", file: "mcp-config.json", otherwise: ".copilot" },
    ],
    read: |reading| reading.container("mcpServers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Braces,
    rules: &[
        USUAL,
        &[
            // `["*"]` is all of them.
            ("tools", Rule::Only),
            ("disabled", Rule::Disabled),
        ],
    ],
    unusable: usable,
};
