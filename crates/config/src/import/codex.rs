//! Codex: `config.toml`, without references in strings; separate keys name environment variables instead.

use super::{
    Host,
    entry::{Entries, usable},
    find::Location,
    rules::{Clock, KeyRule, MILLISECONDS, SECONDS},
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::Codex,
    locations: &[
        Location::Project(".codex/config.toml"),
        Location::Folder { variable: "CODEX_HOME", file: "config.toml", otherwise: ".codex" },
    ],
    read: |reader| reader.container("mcp_servers", &ENTRIES),
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Literal,
    rules: &[&[
        ("command", KeyRule::Command),
        ("args", KeyRule::Arguments),
        ("env", KeyRule::Environment),
        ("env_vars", KeyRule::EnvironmentNames),
        ("cwd", KeyRule::Directory),
        ("url", KeyRule::Url),
        ("bearer_token_env_var", KeyRule::BearerName),
        ("http_headers", KeyRule::Headers),
        ("env_http_headers", KeyRule::HeaderNames),
        ("enabled", KeyRule::Enabled),
        ("required", KeyRule::Required),
        ("enabled_tools", KeyRule::Only),
        ("disabled_tools", KeyRule::Without),
        ("startup_timeout_ms", KeyRule::Time(Clock::Connect, MILLISECONDS)),
        ("startup_timeout_sec", KeyRule::Time(Clock::Connect, SECONDS)),
        ("tool_timeout_sec", KeyRule::Time(Clock::Total, SECONDS)),
        ("http_headers_helper", KeyRule::Ignored("header helper programs are not supported")),
        ("oauth", KeyRule::OAuth),
        ("scopes", KeyRule::Scopes),
        ("oauth_resource", KeyRule::Ignored("the resource is always the URL of the server")),
        ("auth", KeyRule::SignInMethod("oauth")),
        ("default_tools_approval_mode", KeyRule::Ignored("approvals are not imported")),
        ("tools", KeyRule::Ignored("approvals are not imported")),
        ("omit_tools_from", KeyRule::Nothing),
        ("supports_parallel_tool_calls", KeyRule::Nothing),
    ]],
    unusable: usable,
};
