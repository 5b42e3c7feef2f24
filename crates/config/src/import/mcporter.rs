//! mcporter: `config/mcporter.json` of a project, `~/.mcporter/mcporter.json`, or the file a variable names.

use super::{
    Host,
    entry::{Entries, usable},
    find::Location,
    rules::Rule,
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::Mcporter,
    locations: &[
        Location::Variable("MCPORTER_CONFIG"),
        Location::Project("config/mcporter.json"),
        Location::Home(".mcporter/mcporter.json"),
        Location::Home(".mcporter/mcporter.jsonc"),
    ],
    read: |reader| reader.container("mcpServers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Mcporter,
    rules: &[&[
        ("type", Rule::Kind),
        ("command", Rule::CommandList),
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
        ("lifecycle", Rule::Ignored("use `lazy` or `idleStop`")),
        ("auth", Rule::SignInMethod("oauth")),
        ("logging", Rule::Nothing),
    ]],
    unusable: usable,
};
