//! mcporter: `config/mcporter.json` of a project, `~/.mcporter/mcporter.json`, or the file a variable names.

use super::{
    Host,
    entry::{Entries, usable},
    find::Spot,
    rules::Rule,
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::Mcporter,
    spots: &[
        Spot::Variable("MCPORTER_CONFIG"),
        Spot::Project("config/mcporter.json"),
        Spot::Home(".mcporter/mcporter.json"),
        Spot::Home(".mcporter/mcporter.jsonc"),
    ],
    read: |reading| reading.container("mcpServers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Mcporter,
    rules: &[&[
        ("type", Rule::Kind),
        ("command", Rule::CommandWords),
        ("args", Rule::Arguments),
        ("env", Rule::Environment),
        ("cwd", Rule::Directory),
        ("baseUrl", Rule::Url),
        ("url", Rule::Url),
        ("headers", Rule::Headers),
        ("bearerTokenEnv", Rule::BearerName),
        ("bearerToken", Rule::Bearer),
        ("allowedTools", Rule::Only),
        ("blockedTools", Rule::Without),
        ("protocolVersion", Rule::Revision),
        ("description", Rule::Description),
        ("lifecycle", Rule::Ignored("write `lazy` or `idleStop`")),
        ("auth", Rule::SignInWord("oauth")),
        ("logging", Rule::Nothing),
    ]],
    unusable: usable,
};
