//! What a server with manners says, in either era.
//!
//! Messages are plain JSON values here; an odd server takes one of these and departs from it.

use serde_json::{Value, json};

/// The revision without a session.
pub const MODERN: &str = "2026-07-28";
/// The newest revision with one.
pub const LEGACY: &str = "2025-11-25";
/// What a `tools/call` gives.
pub const HELLO: &str = "hello";

/// Which eras a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Only with a session.
    Legacy,
    /// Only without one.
    Modern,
    /// Either.
    Both,
}

impl Speaks {
    /// The answer to a message; none to what is no request.
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

/// The result of `server/discover`.
pub fn discovered(versions: &[&str]) -> Value {
    json!({
        "resultType": "complete", "supportedVersions": versions, "capabilities": { "tools": {} },
        "ttlMs": 0, "cacheScope": "private",
    })
}

/// The result of `initialize`.
pub fn initialized(version: &str) -> Value {
    json!({
        "protocolVersion": version, "capabilities": { "tools": {}, "logging": {} },
        "serverInfo": { "name": "odd", "version": "1" },
    })
}

/// The result of `tools/list`, in one page.
pub fn tools(names: &[&str]) -> Value {
    let tools: Vec<Value> =
        names.iter().map(|name| json!({ "name": name, "inputSchema": { "type": "object" } })).collect();
    json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" })
}

/// The result of `tools/call`.
pub fn text(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

/// A good answer.
pub fn answered(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// A bad answer.
pub fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// The refusal of a revision.
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

/// A request of the server's.
pub fn request(id: &Value, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}
