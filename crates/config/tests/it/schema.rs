//! The JSON Schema accepts exactly the documents that the parser accepts.

use std::path::Path;

use toolway_config::{Config, document::Document, schema::schema};

#[test]
fn schema_and_parser_accept_the_same_documents() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for (text, fine) in [
        (r#"{}"#, true),
        (r#"{ "$schema": "x", "autoConnect": false, "requestTimeout": "5m", "naming": { "prefix": "auto" } }"#, true),
        (r#"{ "imports": ["cursor", "opencode-v2"] }"#, true),
        (r#"{ "imports": ["emacs"] }"#, false),
        (r#"{ "naming": { "prefx": "auto" } }"#, false),
        (r#"{ "requestTimeout": "soon" }"#, false),
        (r#"{ "requestTimeout": 0 }"#, false),
        (r#"{ "mcpServers": { "a": { "command": "x", "args": ["y"], "env": { "K": "v" }, "tools": ["*"] } } }"#, true),
        (r#"{ "mcpServers": { "a": { "url": "https://example.org/", "type": "sse", "idleStop": 1.5 } } }"#, true),
        (r#"{ "mcpServers": { "a": { "command": "x", "timeouts": { "connect": "500ms", "total": 60 } } } }"#, true),
        (r#"{ "mcpServers": { "a": { "command": "x", "timeouts": { "conect": 5 } } } }"#, false),
        (r#"{ "mcpServers": { "a": { "command": "x", "alwaysAllow": ["y"] } } }"#, true),
        (r#"{ "mcpServers": { "a": { "command": 7 } } }"#, false),
        (r#"{ "mcpServers": { "a": { "command": "x", "args": "y" } } }"#, false),
        (r#"{ "mcpServers": { "a": { "command": "x", "era": "ancient" } } }"#, false),
        (r#"{ "mcpServers": { "a": { "command": "x", "retries": -1 } } }"#, false),
        (r#"{ "mcpServers": { "a": { "url": "https://example.org/", "type": "streamable-http" } } }"#, true),
        (r#"{ "mcpServers": { "a": { "url": "https://example.org/", "auth": "none" } } }"#, true),
        (r#"{ "mcpServers": { "a": { "url": "https://example.org/", "auth": "magic" } } }"#, false),
        (
            r#"{ "mcpServers": { "a": { "url": "https://example.org/", "auth": { "kind": "oauth", "dpop": true } } } }"#,
            true,
        ),
        (r#"{ "mcpServers": { "a": { "url": "https://example.org/", "auth": { "kind": "magic" } } } }"#, false),
        (
            r#"{ "mcpServers": { "a": { "url": "https://example.org/", "auth": { "kind": "bearer", "key": "x" } } } }"#,
            false,
        ),
        (r#"{ "mcpServers": { "a": { "url": "https://example.org/", "oauth": { "callbackPort": 6276 } } } }"#, true),
        (r#"{ "mcpServers": { "a": { "url": "https://example.org/", "oauth": { "callbackPort": 99999 } } } }"#, false),
        (r#"{ "signIn": { "vault": "keychain" } }"#, true),
        (r#"{ "signIn": { "vault": "drawer" } }"#, false),
        (r#"{ "mcpServers": [] }"#, false),
    ] {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(validator.is_valid(&value), fine, "the schema, about {text}");
        let read = Document::of(Path::new("x.json"), text).and_then(|document| Config::of(&document, None));
        assert_eq!(read.is_ok(), fine, "the reader, about {text}");
    }
}
