//! Codex: `config.toml`, without references in strings; separate keys name environment variables instead.

use super::{
    Host,
    entry::{Entries, usable},
    find::Location,
    rules::{Clock, MILLISECONDS, Rule, SECONDS},
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
        ("command", Rule::Command),
        ("args", Rule::Arguments),
        ("env", Rule::Environment),
        ("env_vars", Rule::EnvironmentNames),
        ("cwd", Rule::Directory),
        ("url", Rule::Url),
        ("bearer_token_env_var", Rule::BearerName),
        ("http_headers", Rule::Headers),
        ("env_http_headers", Rule::HeaderNames),
        ("enabled", Rule::Enabled),
        ("required", Rule::Required),
        ("enabled_tools", Rule::Only),
        ("disabled_tools", Rule::Without),
        ("startup_timeout_ms", Rule::Time(Clock::Connect, MILLISECONDS)),
        ("startup_timeout_sec", Rule::Time(Clock::Connect, SECONDS)),
        ("tool_timeout_sec", Rule::Time(Clock::Total, SECONDS)),
        ("http_headers_helper", Rule::Ignored("header helper programs are not supported")),
        ("oauth", Rule::OAuth),
        ("scopes", Rule::Scopes),
        ("oauth_resource", Rule::Ignored("the resource is always the URL of the server")),
        ("auth", Rule::SignInMethod("oauth")),
        ("default_tools_approval_mode", Rule::Ignored("approvals are not imported")),
        ("tools", Rule::Ignored("approvals are not imported")),
        ("omit_tools_from", Rule::Nothing),
        ("supports_parallel_tool_calls", Rule::Nothing),
    ]],
    unusable: usable,
};
