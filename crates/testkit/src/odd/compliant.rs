//! Correct messages of a server in either era.
//!
//! Messages are plain JSON values; an odd server modifies them.

use serde_json::{Value, json};

/// Revision without sessions.
pub const MODERN: &str = "2026-07-28";
/// Newest revision with sessions.
pub const LEGACY: &str = "2025-11-25";
/// Text of a `tools/call` result.
pub const HELLO: &str = "hello";

/// Eras that a server supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupportedEras {
    /// With sessions only.
    Legacy,
    /// Without sessions only.
    Modern,
    /// Both eras.
    Both,
}

impl SupportedEras {
    /// Answer to a message; `None` if it is not a request.
    pub fn answer(self, message: &Value) -> Option<Value> {
        let (id, method) = (message.get("id")?, message.get("method")?.as_str()?);
        let result = match method {
            "server/discover" if self != Self::Legacy => discovered(&[MODERN]),
            "initialize" if self != Self::Modern => {
                initialized(message["params"]["protocolVersion"].as_str().unwrap_or(LEGACY))
            }
            "ping" | "logging/setLevel" if self != Self::Modern => json!({}),
            "tools/list" => tools(&["hello", "odd"]),
            "tools/call" => text(HELLO),
            _ => return Some(error(id, -32601, "unknown method")),
        };
        Some(answered(id, &result))
    }
}

/// Result of `server/discover`.
pub fn discovered(versions: &[&str]) -> Value {
    json!({
        "resultType": "complete", "supportedVersions": versions, "capabilities": { "tools": {} },
        "ttlMs": 0, "cacheScope": "private",
    })
}

/// Result of `initialize`.
pub fn initialized(version: &str) -> Value {
    json!({
        "protocolVersion": version, "capabilities": { "tools": {}, "logging": {} },
        "serverInfo": { "name": "odd", "version": "1" },
    })
}

/// Result of `tools/list`, in one page.
pub fn tools(names: &[&str]) -> Value {
    let tools: Vec<Value> =
        names.iter().map(|name| json!({ "name": name, "inputSchema": { "type": "object" } })).collect();
    json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" })
}

/// Result of `tools/call`.
pub fn text(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

/// Success response.
pub fn answered(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// Error response.
pub fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// Error response for an unsupported version.
pub fn other_versions(id: &Value, supported: &[&str]) -> Value {
    json!({
        "jsonrpc": "2.0", "id": id,
        "error": { "code": -32022, "message": "unsupported version", "data": { "supported": supported, "requested": MODERN } },
    })
}

/// A notification.
pub fn notification(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// A server request.
pub fn request(id: &Value, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}
