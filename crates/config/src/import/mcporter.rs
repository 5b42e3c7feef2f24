//! mcporter: `config/mcporter.json` of a project, `~/.mcporter/mcporter.json`, or the file a variable names.

use super::{
    Host,
    entry::{Entries, usable},
    find::Location,
    rules::KeyRule,
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
        ("type", KeyRule::Kind),
        ("command", KeyRule::CommandList),
        ("args", KeyRule::Arguments),
        ("env", KeyRule::Environment),
        ("cwd", KeyRule::Directory),
        ("baseUrl", KeyRule::Url),
        ("url", KeyRule::Url),
        ("headers", KeyRule::Headers),
        ("bearerTokenEnv", KeyRule::BearerName),
        ("bearerToken", KeyRule::Bearer),
        ("allowedTools", KeyRule::Only),
        ("blockedTools", KeyRule::Without),
        ("protocolVersion", KeyRule::Revision),
        ("description", KeyRule::Description),
        ("lifecycle", KeyRule::Ignored("use `lazy` or `idleStop`")),
        ("auth", KeyRule::SignInMethod("oauth")),
        ("logging", KeyRule::Nothing),
    ]],
    unusable: usable,
};
