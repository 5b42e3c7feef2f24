//! The rules for requests that vendors document and enforce: address, key, roles, and a result for every call.

use std::collections::BTreeSet;

use serde_json::Value;

use super::VendorKind;
use crate::odd::http::RecordedRequest;

/// Status and message of a refusal.
type Refusal = (u16, String);

/// Checks one request as the vendor does.
pub(super) fn request(kind: VendorKind, request: &RecordedRequest) -> Result<(), Refusal> {
    let path = request.path.as_str();
    let is_found = match kind {
        // Claude Code adds `?beta=true`.
        VendorKind::Anthropic => path.split('?').next() == Some("/v1/messages"),
        VendorKind::Openai => path == "/v1/responses",
        VendorKind::OpenaiChat => path == "/v1/chat/completions",
        VendorKind::Gemini => path.starts_with("/v1beta/models/") && path.ends_with(":streamGenerateContent?alt=sse"),
    };
    if request.verb != "POST" || !is_found {
        return Err((404, format!("unknown request {} {path}", request.verb)));
    }
    key(kind, request)?;
    let body = request.message();
    if !body.is_object() || request.header("content-type") != Some("application/json") {
        return Err(invalid("the body is not JSON"));
    }
    match kind {
        VendorKind::Anthropic => anthropic(request, body),
        VendorKind::Openai => openai(body),
        VendorKind::OpenaiChat => openai_chat(body),
        VendorKind::Gemini => gemini(body),
    }
}

/// Servers compatible with Chat Completions may run without a key.
pub(super) fn key(kind: VendorKind, request: &RecordedRequest) -> Result<(), Refusal> {
    let header = match kind {
        VendorKind::Anthropic => "x-api-key",
        VendorKind::Openai => "authorization",
        VendorKind::OpenaiChat => return Ok(()),
        VendorKind::Gemini => "x-goog-api-key",
    };
    // Anthropic takes a key in either; its SDK sends the second.
    let other = (kind == VendorKind::Anthropic).then(|| request.header("authorization")).flatten();
    match request.header(header).or(other) {
        Some(value) if !value.trim_start_matches("Bearer").trim().is_empty() => Ok(()),
        _ => Err((401, format!("no key in the header `{header}`"))),
    }
}

fn anthropic(request: &RecordedRequest, body: &Value) -> Result<(), Refusal> {
    // The second is what the vendor's own SDK sends.
    if !matches!(request.header("anthropic-version"), Some("2023-06-01" | "2026-10-21")) {
        return Err(invalid("anthropic-version: header is required"));
    }
    if body["max_tokens"].as_u64().unwrap_or_default() == 0 {
        return Err(invalid("max_tokens: Field required"));
    }
    let mut open = BTreeSet::new();
    let mut last_role = "assistant";
    for message in list(&body["messages"]) {
        let role = text(message, "role");
        if role == last_role || !["user", "assistant"].contains(&role) {
            return Err(invalid("messages: roles must alternate between \"user\" and \"assistant\""));
        }
        last_role = role;
        let mut answered = BTreeSet::new();
        for block in list(&message["content"]) {
            match text(block, "type") {
                "text" if text(block, "text").is_empty() => {
                    return Err(invalid("messages: text content blocks must be non-empty"));
                }
                "tool_use" if !block["input"].is_object() => {
                    return Err(invalid("messages: tool_use.input: Input should be a valid dictionary"));
                }
                "tool_result" if !answered.insert(text(block, "tool_use_id")) => {
                    return Err(invalid("each tool_use must have a single result"));
                }
                _ => {}
            }
        }
        if role == "user" {
            same(&open, &answered, "`tool_use` ids were found without `tool_result` blocks immediately after")?;
            open.clear();
        } else {
            let calls = list(&message["content"]).filter(|block| block["type"] == "tool_use");
            open = calls.map(|block| text(block, "id")).collect();
        }
    }
    same(&open, &BTreeSet::new(), "`tool_use` ids were found without `tool_result` blocks immediately after")
}

fn openai(body: &Value) -> Result<(), Refusal> {
    let ids = |kind: &str| -> Vec<&str> {
        list(&body["input"]).filter(|item| item["type"] == kind).map(|item| text(item, "call_id")).collect()
    };
    let (calls, outputs) = (ids("function_call"), ids("function_call_output"));
    if outputs.iter().collect::<BTreeSet<_>>().len() != outputs.len() {
        return Err(invalid("Duplicate output for a function call"));
    }
    same(&calls.into_iter().collect(), &outputs.into_iter().collect(), "No tool output found for function call")
}

fn openai_chat(body: &Value) -> Result<(), Refusal> {
    const UNANSWERED: &str =
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'";
    let mut open = BTreeSet::new();
    for message in list(&body["messages"]) {
        if message["role"] == "tool" {
            if !open.remove(text(message, "tool_call_id")) {
                return Err(invalid(
                    "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'",
                ));
            }
            continue;
        }
        same(&open, &BTreeSet::new(), UNANSWERED)?;
        open = list(&message["tool_calls"]).map(|call| text(call, "id")).collect();
    }
    same(&open, &BTreeSet::new(), UNANSWERED)
}

fn gemini(body: &Value) -> Result<(), Refusal> {
    let mut calls = 0;
    for content in list(&body["contents"]) {
        let count = |key: &str| list(&content["parts"]).filter(|part| part.get(key).is_some()).count();
        if list(&content["parts"]).next().is_none() {
            return Err(invalid("contents.parts must not be empty"));
        }
        if count("functionResponse") != calls {
            return Err(invalid(
                "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
            ));
        }
        calls = count("functionCall");
    }
    if calls > 0 {
        Err(invalid("Please ensure that function call turn comes immediately before a response"))
    } else {
        Ok(())
    }
}

fn same(expected: &BTreeSet<&str>, found: &BTreeSet<&str>, message: &str) -> Result<(), Refusal> {
    match expected.symmetric_difference(found).next() {
        Some(id) => Err(invalid(&format!("{message}: {id}"))),
        None => Ok(()),
    }
}

fn invalid(message: &str) -> Refusal {
    (400, message.to_owned())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
