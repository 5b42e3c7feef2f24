//! Codex: `config.toml`, where nothing in a text is special and other keys name variables instead.

use super::{
    Host,
    entry::{Entries, usable},
    find::Spot,
    rules::{Clock, MILLISECONDS, Rule, SECONDS},
};
use crate::{interpolate::Dialect, server::Format};

pub(super) const HOST: Host = Host {
    format: Format::Codex,
    spots: &[
        Spot::Project(".codex/config.toml"),
        Spot::Folder { variable: "CODEX_HOME", file: "config.toml", otherwise: ".codex" },
    ],
    read: |reading| reading.container("mcp_servers", &ENTRIES),
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
        ("http_headers_helper", Rule::Ignored("no program is run for headers")),
        ("oauth", Rule::OAuth),
        ("scopes", Rule::Scopes),
        ("oauth_resource", Rule::Ignored("the resource is the address of the server")),
        ("auth", Rule::SignInWord("oauth")),
        ("default_tools_approval_mode", Rule::Ignored("approvals are not taken over")),
        ("tools", Rule::Ignored("approvals are not taken over")),
        ("omit_tools_from", Rule::Nothing),
        ("supports_parallel_tool_calls", Rule::Nothing),
    ]],
    unusable: usable,
};
