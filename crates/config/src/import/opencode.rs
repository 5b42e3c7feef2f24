//! opencode: `opencode.json`, in its first form (`mcp.<name>`) and its second (`mcp.servers.<name>`).

use super::{
    Host,
    entry::{Entries, Reading, usable},
    find::Spot,
    rules::{Clock, MILLISECONDS, Rule},
};
use crate::{
    document::{Section, Value},
    error::ConfigError,
    interpolate::Dialect,
    server::{Format, Timeouts, all_but},
    shape::Field,
};

/// Both forms are in the same files.
const SPOTS: &[Spot] = &[
    Spot::Project("opencode.json"),
    Spot::Project("opencode.jsonc"),
    Spot::Variable("OPENCODE_CONFIG"),
    Spot::FolderOnly { variable: "OPENCODE_CONFIG_DIR", file: "opencode.json" },
    Spot::FolderOnly { variable: "OPENCODE_CONFIG_DIR", file: "opencode.jsonc" },
    Spot::Config("opencode/opencode.json"),
    Spot::Config("opencode/opencode.jsonc"),
];

pub(super) const HOST: Host = Host { format: Format::Opencode, spots: SPOTS, read };
pub(super) const HOST_TWO: Host = Host { format: Format::OpencodeTwo, spots: SPOTS, read: read_two };

const ENTRIES: Entries = Entries {
    dialect: Dialect::Opencode,
    rules: &[&[
        ("type", Rule::Kind),
        ("command", Rule::CommandWords),
        ("environment", Rule::Environment),
        ("cwd", Rule::Directory),
        ("url", Rule::Url),
        ("headers", Rule::Headers),
        ("enabled", Rule::Enabled),
        // For starting and listing, not for calls.
        ("timeout", Rule::Time(Clock::Connect, MILLISECONDS)),
        ("oauth", Rule::OAuth),
    ]],
    unusable: usable,
};

const CLOCKS: &[(&str, Clock)] = &[("startup", Clock::Connect), ("request", Clock::Total)];

const ENTRIES_TWO: Entries = Entries {
    dialect: Dialect::Opencode,
    rules: &[&[
        ("type", Rule::Kind),
        ("command", Rule::CommandWords),
        ("environment", Rule::Environment),
        ("cwd", Rule::Directory),
        ("url", Rule::Url),
        ("headers", Rule::Headers),
        ("disabled", Rule::Disabled),
        ("timeout", Rule::Times(CLOCKS, MILLISECONDS)),
        ("oauth", Rule::OAuth),
    ]],
    unusable: usable,
};

fn read(reading: &mut Reading<'_>) -> Result<(), ConfigError> {
    let mut root = reading.document.root()?;
    let Some(entries) = root.take_section("mcp")?.filter(|mcp| !is_second_form(mcp)) else { return Ok(()) };
    start_at_the_file(reading);
    reading.entries(entries, &ENTRIES);
    filter_tools(reading, &mut root)
}

fn read_two(reading: &mut Reading<'_>) -> Result<(), ConfigError> {
    let mut root = reading.document.root()?;
    let Some(mut mcp) = root.take_section("mcp")?.filter(is_second_form) else { return Ok(()) };
    start_at_the_file(reading);
    if let Some(entries) = mcp.take_section("servers")? {
        reading.entries(entries, &ENTRIES_TWO);
    }
    if let Some(node) = mcp.take("timeout") {
        let field = Field::new(reading.document, "mcp.timeout".to_owned(), node);
        let mut draft = crate::server::Draft::default();
        Rule::Times(CLOCKS, MILLISECONDS).apply(&mut draft, &field, Dialect::Opencode)?;
        for server in reading.servers_mut() {
            let (own, all) = (server.timeouts, draft.timeouts);
            server.timeouts = Timeouts { connect: own.connect.or(all.connect), total: own.total.or(all.total), ..own };
        }
    }
    filter_tools(reading, &mut root)
}

/// In the second form `servers` holds entries; in the first it could only be an entry itself.
fn is_second_form(mcp: &Section<'_>) -> bool {
    let mut mcp = mcp.clone();
    let servers = mcp.take_section("servers").ok().flatten();
    servers.is_some_and(|servers| servers.line("type").is_none() && servers.line("command").is_none())
}

/// `{file:…}` is relative to the file there.
fn start_at_the_file(reading: &mut Reading<'_>) {
    if let Some(folder) = reading.found.file.parent() {
        reading.set_base(folder);
    }
}

/// `tools` switches tools off by patterns over `<server>_<tool>`.
fn filter_tools(reading: &mut Reading<'_>, root: &mut Section<'_>) -> Result<(), ConfigError> {
    let Some(node) = root.take("tools") else { return Ok(()) };
    let patterns = Field::new(reading.document, "tools".to_owned(), node).members()?;
    let off = patterns.iter().filter(|(_, field)| field.node.value == Value::Flag(false));
    let off: Vec<&str> = off.map(|(pattern, _)| *pattern).collect();
    for server in reading.servers_mut() {
        let names: Vec<String> = off.iter().filter_map(|pattern| of_server(pattern, &server.label)).collect();
        let filter = std::mem::take(&mut server.filters.tool_names);
        server.filters.tool_names = filter.and(all_but(names));
    }
    Ok(())
}

/// What a pattern says about the tools of one server.
fn of_server(pattern: &str, label: &str) -> Option<String> {
    let prefix = format!("{label}_");
    if let Some(rest) = pattern.strip_prefix(&prefix) {
        return Some(rest.to_owned());
    }
    let start = pattern.strip_suffix('*')?;
    prefix.starts_with(start).then(|| "*".to_owned())
}
