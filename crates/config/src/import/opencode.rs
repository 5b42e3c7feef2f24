//! opencode: `opencode.json`, version 1 (`mcp.<name>`) and version 2 (`mcp.servers.<name>`).

use super::{
    Host,
    entry::{Entries, FileReader, usable},
    find::Location,
    rules::{Clock, KeyRule, MILLISECONDS},
};
use crate::{
    document::{Section, Value},
    error::ConfigError,
    interpolate::Dialect,
    server::{Format, Timeouts, all_but},
    shape::Field,
};

/// Both versions use the same files.
const LOCATIONS: &[Location] = &[
    Location::Project("opencode.json"),
    Location::Project("opencode.jsonc"),
    Location::Variable("OPENCODE_CONFIG"),
    Location::FolderOnly { variable: "OPENCODE_CONFIG_DIR", file: "opencode.json" },
    Location::FolderOnly { variable: "OPENCODE_CONFIG_DIR", file: "opencode.jsonc" },
    Location::Config("opencode/opencode.json"),
    Location::Config("opencode/opencode.jsonc"),
];

pub(super) const HOST: Host = Host { format: Format::Opencode, locations: LOCATIONS, read };
pub(super) const HOST_TWO: Host = Host { format: Format::OpencodeTwo, locations: LOCATIONS, read: read_two };

const ENTRIES: Entries = Entries {
    dialect: Dialect::Opencode,
    rules: &[&[
        ("type", KeyRule::Kind),
        ("command", KeyRule::CommandList),
        ("environment", KeyRule::Environment),
        ("cwd", KeyRule::Directory),
        ("url", KeyRule::Url),
        ("headers", KeyRule::Headers),
        ("enabled", KeyRule::Enabled),
        // Applies to starting and listing, not to calls.
        ("timeout", KeyRule::Time(Clock::Connect, MILLISECONDS)),
        ("oauth", KeyRule::OAuth),
    ]],
    unusable: usable,
};

const CLOCKS: &[(&str, Clock)] = &[("startup", Clock::Connect), ("request", Clock::Total)];

const ENTRIES_TWO: Entries = Entries {
    dialect: Dialect::Opencode,
    rules: &[&[
        ("type", KeyRule::Kind),
        ("command", KeyRule::CommandList),
        ("environment", KeyRule::Environment),
        ("cwd", KeyRule::Directory),
        ("url", KeyRule::Url),
        ("headers", KeyRule::Headers),
        ("disabled", KeyRule::Disabled),
        ("timeout", KeyRule::Times(CLOCKS, MILLISECONDS)),
        ("oauth", KeyRule::OAuth),
    ]],
    unusable: usable,
};

fn read(reader: &mut FileReader<'_>) -> Result<(), ConfigError> {
    let mut root = reader.document.root()?;
    let Some(entries) = root.take_section("mcp")?.filter(|mcp| !is_version_two(mcp)) else { return Ok(()) };
    set_base_to_file_folder(reader);
    reader.entries(entries, &ENTRIES);
    filter_tools(reader, &mut root)
}

fn read_two(reader: &mut FileReader<'_>) -> Result<(), ConfigError> {
    let mut root = reader.document.root()?;
    let Some(mut mcp) = root.take_section("mcp")?.filter(is_version_two) else { return Ok(()) };
    set_base_to_file_folder(reader);
    if let Some(entries) = mcp.take_section("servers")? {
        reader.entries(entries, &ENTRIES_TWO);
    }
    if let Some(node) = mcp.take("timeout") {
        let field = Field::new(reader.document, "mcp.timeout".to_owned(), node);
        let mut draft = crate::server::Draft::default();
        KeyRule::Times(CLOCKS, MILLISECONDS).apply(&mut draft, &field, Dialect::Opencode)?;
        for server in reader.servers_mut() {
            let (own, all) = (server.timeouts, draft.timeouts);
            server.timeouts = Timeouts { connect: own.connect.or(all.connect), total: own.total.or(all.total), ..own };
        }
    }
    filter_tools(reader, &mut root)
}

/// In version 2 `servers` contains entries; in version 1 it can only be an entry itself.
fn is_version_two(mcp: &Section<'_>) -> bool {
    let mut mcp = mcp.clone();
    let servers = mcp.take_section("servers").ok().flatten();
    servers.is_some_and(|servers| servers.line("type").is_none() && servers.line("command").is_none())
}

/// opencode resolves `{file:…}` relative to the configuration file.
fn set_base_to_file_folder(reader: &mut FileReader<'_>) {
    if let Some(folder) = reader.found.file.parent() {
        reader.set_base(folder);
    }
}

/// `tools` disables tools by patterns of `<server>_<tool>`.
fn filter_tools(reader: &mut FileReader<'_>, root: &mut Section<'_>) -> Result<(), ConfigError> {
    let Some(node) = root.take("tools") else { return Ok(()) };
    let patterns = Field::new(reader.document, "tools".to_owned(), node).members()?;
    let off = patterns.iter().filter(|(_, field)| field.node.value == Value::Flag(false));
    let off: Vec<&str> = off.map(|(pattern, _)| *pattern).collect();
    for server in reader.servers_mut() {
        let names: Vec<String> = off.iter().filter_map(|pattern| of_server(pattern, &server.label)).collect();
        let filter = std::mem::take(&mut server.filters.tool_names);
        server.filters.tool_names = filter.and(all_but(names));
    }
    Ok(())
}

/// The part of a pattern that applies to the tools of one server.
fn of_server(pattern: &str, label: &str) -> Option<String> {
    let prefix = format!("{label}_");
    if let Some(rest) = pattern.strip_prefix(&prefix) {
        return Some(rest.to_owned());
    }
    let start = pattern.strip_suffix('*')?;
    prefix.starts_with(start).then(|| "*".to_owned())
}
