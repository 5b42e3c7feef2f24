//! Schemas that are more than a list of arguments.

use serde_json::{Value, json};

/// Keywords of JSON Schema 2020-12 that a relay must preserve.
pub(super) fn vocabulary() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

/// An argument that HTTP clients repeat in a header.
pub(super) fn in_a_header() -> Value {
    json!({
        "type": "object",
        "properties": { "region": { "type": "string", "description": "Where to look", "x-mcp-header": "Region" } },
        "required": ["region"],
    })
}

/// A form with a default in each kind of field.
pub(super) fn defaults() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "description": "User name", "default": "John Doe" },
            "age": { "type": "integer", "description": "User age", "default": 30 },
            "score": { "type": "number", "description": "User score", "default": 95.5 },
            "status": {
                "type": "string",
                "description": "User status",
                "enum": ["active", "inactive", "pending"],
                "default": "active",
            },
            "verified": { "type": "boolean", "description": "Verification status", "default": true },
        },
        "required": [],
    })
}

/// A form with each kind of enumeration.
pub(super) fn choices() -> Value {
    let titled = |title: &str| {
        let option = |number: usize, ordinal: &str| json!({ "const": format!("value{number}"), "title": format!("{ordinal} {title}") });
        json!([option(1, "First"), option(2, "Second"), option(3, "Third")])
    };
    let plain = json!(["option1", "option2", "option3"]);
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": plain },
            "titledSingle": { "type": "string", "oneOf": titled("Option") },
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
            "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
        },
        "required": [],
    })
}

/// Schema without arguments.
pub(super) fn nothing() -> Value {
    json!({ "type": "object", "properties": {} })
}

/// Schema with one required argument.
pub(super) fn one(name: &str, description: &str) -> Value {
    json!({
        "type": "object",
        "properties": { name: { "type": "string", "description": description } },
        "required": [name],
    })
}
