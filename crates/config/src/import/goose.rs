//! Goose: `extensions` of its `config.yaml`; secrets are names of entries in its keychain.

use super::{
    Host,
    entry::{Entries, FileReader},
    find::Location,
    rules::{Clock, KeyRule, SECONDS},
};
use crate::{
    document::Section,
    error::ConfigError,
    interpolate::Dialect,
    server::{Draft, Format},
};

pub(super) const HOST: Host = Host { format: Format::Goose, locations: &[Location::Config("goose/config.yaml")], read };

const ENTRIES: Entries = Entries {
    dialect: Dialect::Literal,
    rules: &[&[
        ("type", KeyRule::Kind),
        ("cmd", KeyRule::Command),
        ("args", KeyRule::Arguments),
        ("envs", KeyRule::Environment),
        ("env_keys", KeyRule::KeychainNames("goose")),
        ("cwd", KeyRule::Directory),
        ("uri", KeyRule::Url),
        ("headers", KeyRule::Headers),
        ("enabled", KeyRule::Enabled),
        // An empty list means all tools.
        ("available_tools", KeyRule::OnlyIfAny),
        ("timeout", KeyRule::Time(Clock::Total, SECONDS)),
        ("description", KeyRule::Description),
        ("name", KeyRule::Nothing),
        ("display_name", KeyRule::Nothing),
        ("bundled", KeyRule::Nothing),
        ("socket", KeyRule::Nothing),
    ]],
    unusable,
};

/// Extension types that are MCP servers; the others are built into Goose.
const SERVERS: [&str; 3] = ["stdio", "streamable_http", "sse"];

fn unusable(_draft: &Draft, entry: &Section<'_>) -> Option<String> {
    let by_socket = entry.line("socket").is_some();
    by_socket.then(|| "servers with a `socket` are not supported".to_owned())
}

fn read(reader: &mut FileReader<'_>) -> Result<(), ConfigError> {
    let Some(mut extensions) = reader.document.root()?.take_section("extensions")? else { return Ok(()) };
    for (label, entry) in extensions.take_sections() {
        match entry {
            Ok(entry) if is_server(&entry) => reader.entry(label, entry, &ENTRIES),
            Ok(_) => {}
            Err(error) => reader.skip_invalid(label, &error),
        }
    }
    Ok(())
}

fn is_server(entry: &Section<'_>) -> bool {
    let kind = entry.clone().take_text("type").ok().flatten();
    kind.is_some_and(|(kind, _)| SERVERS.contains(&kind.as_str()))
}
