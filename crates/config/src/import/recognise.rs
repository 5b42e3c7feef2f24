//! Format of a file that the user names, by its shape.

use crate::{
    document::{Document, Value},
    server::Format,
    settings::SETTINGS,
};

/// Top-level keys under which other applications keep servers. Without `mcpServers`, a file with one of them is not ours.
pub(crate) const OTHER_CONTAINERS: [&str; 5] = ["servers", "mcp", "mcp_servers", "context_servers", "extensions"];

/// Keys of `mcp` in the format with `mcp.servers` as a list.
const MCP_KEYS: [&str; 4] = ["auto_connect", "request_timeout_seconds", "expose_resources_tool", "expose_prompts_tool"];

/// The format of a document that is not Toolway's own; `None` if it is, or if the shape is unknown.
pub(crate) fn recognise(document: &Document) -> Option<Format> {
    let root = match document.root_value() {
        Value::List(_) => return Some(Format::ServerList),
        Value::Map(root) => root,
        _ => return None,
    };
    let value = |key: &str| root.iter().find(|member| member.key == key).map(|member| &member.node.value);
    if value("mcpServers").is_some() {
        return None;
    }
    if let Some(Value::Map(mcp)) = value("mcp") {
        let lists = |key: &str, value: &Value| key == "servers" && matches!(value, Value::List(_));
        let is_own = |key: &str, value: &Value| MCP_KEYS.contains(&key) || lists(key, value);
        return mcp.iter().any(|member| is_own(&member.key, &member.node.value)).then_some(Format::McpSection);
    }
    // Settings of ours beside `servers`: the file is ours and has a mistake.
    if SETTINGS.iter().any(|key| value(key.name).is_some()) {
        return None;
    }
    match (value("servers"), value("globalSettings")) {
        (Some(Value::List(_)), _) => Some(Format::ServerList),
        (Some(Value::Map(_)) | None, Some(Value::Map(_))) => Some(Format::ServerMap),
        (Some(Value::Map(_)), None) => Some(Format::VsCode),
        _ => None,
    }
}
