//! Format of a file that the user names, by its shape.

use crate::{
    document::{Document, Language, Member, Value},
    server::Format,
    settings::SETTINGS,
};

/// Top-level keys under which other applications keep servers. Without `mcpServers`, a file with one of them is not ours.
pub(crate) const OTHER_CONTAINERS: [&str; 5] = ["servers", "mcp", "mcp_servers", "context_servers", "extensions"];

/// Keys of `mcp` in the format with `mcp.servers` as a list.
const MCP_KEYS: [&str; 4] = ["auto_connect", "request_timeout_seconds", "expose_resources_tool", "expose_prompts_tool"];

/// Keys by which an entry names its program or URL, in any format.
const TRANSPORT_KEYS: [&str; 7] = ["command", "cmd", "url", "httpUrl", "serverUrl", "baseUrl", "uri"];

/// Keys that may stand beside entries without a container.
pub(super) const BESIDE_ENTRIES: [&str; 2] = ["$schema", "inputs"];

/// The format of a document that is not Toolway's own; `None` if it is, or if the shape is unknown.
pub(crate) fn recognise(document: &Document) -> Option<Format> {
    let root = match document.root_value() {
        Value::List(_) => return Some(Format::ServerList),
        Value::Map(root) => root,
        _ => return None,
    };
    let value = |key: &str| root.iter().find(|member| member.key == key).map(|member| &member.node.value);
    if value("mcpServers").is_some() {
        // Inputs of VS Code, in a file with the usual container.
        return matches!(value("inputs"), Some(Value::List(_))).then_some(Format::VsCode);
    }
    if let Some(Value::Map(mcp)) = value("mcp") {
        return of_mcp(mcp);
    }
    // Settings of ours beside `servers`: the file is ours and has a mistake.
    if SETTINGS.iter().any(|key| value(key.name).is_some()) {
        return None;
    }
    match (value("servers"), value("globalSettings")) {
        (Some(Value::List(_)), _) => Some(Format::ServerList),
        (Some(Value::Map(_)) | None, Some(Value::Map(_))) => Some(Format::ServerMap),
        (Some(Value::Map(_)), None) => Some(Format::VsCode),
        _ => of_other_container(document, root),
    }
}

/// The format of a file with an object `mcp`: opencode, VS Code, or the one whose `servers` is a list.
fn of_mcp(mcp: &[Member]) -> Option<Format> {
    let lists = |member: &Member| member.key == "servers" && matches!(member.node.value, Value::List(_));
    if mcp.iter().any(|member| MCP_KEYS.contains(&member.key.as_str()) || lists(member)) {
        return Some(Format::McpSection);
    }
    let servers = mcp.iter().find(|member| member.key == "servers").map(|member| &member.node.value);
    match servers {
        Some(Value::Map(servers)) if servers.iter().any(is_opencode) => Some(Format::OpencodeTwo),
        Some(Value::Map(servers)) if !is_entry(servers) => Some(Format::VsCode),
        _ if mcp.iter().any(is_opencode) => Some(Format::Opencode),
        _ => mcp.iter().any(has_entry).then_some(Format::Snippet),
    }
}

/// The format of a file whose servers stand under another key, or under none.
fn of_other_container(document: &Document, root: &[Member]) -> Option<Format> {
    let map = |key: &str| match root.iter().find(|member| member.key == key).map(|member| &member.node.value) {
        Some(Value::Map(members)) => Some(members.as_slice()),
        _ => None,
    };
    let is_toml = Language::of(document.file()) == Language::Toml;
    if map("context_servers").is_some() {
        return Some(Format::Zed);
    }
    if let Some(servers) = map("mcp_servers") {
        return Some(if is_toml || !servers.iter().any(has_entry) { Format::Codex } else { Format::Snippet });
    }
    if map("extensions").is_some_and(|extensions| extensions.iter().any(has_entry)) {
        return Some(Format::Goose);
    }
    let mut named = root.iter().filter(|member| !BESIDE_ENTRIES.contains(&member.key.as_str())).peekable();
    let all_entries = named.peek().is_some() && named.all(has_entry);
    (is_entry(root) || all_entries).then_some(Format::Snippet)
}

/// Whether a member is an entry as opencode writes it.
fn is_opencode(member: &Member) -> bool {
    let Value::Map(entry) = &member.node.value else { return false };
    let is_own = |member: &Member| match (member.key.as_str(), &member.node.value) {
        ("command", Value::List(_)) | ("environment", _) => true,
        ("type", Value::Text(kind)) => kind == "local" || kind == "remote",
        _ => false,
    };
    // Its entries have no `args` and no `env`.
    let is_other = |member: &Member| matches!(member.key.as_str(), "args" | "env");
    entry.iter().any(is_own) && !entry.iter().any(is_other)
}

/// Whether the value of a member is an entry of a server.
fn has_entry(member: &Member) -> bool {
    matches!(&member.node.value, Value::Map(entry) if is_entry(entry))
}

/// Whether these are the members of an entry: they name a program or a URL.
pub(super) fn is_entry(members: &[Member]) -> bool {
    let names = |member: &Member| {
        TRANSPORT_KEYS.contains(&member.key.as_str()) && matches!(member.node.value, Value::Text(_) | Value::List(_))
    };
    members.iter().any(names)
}
