//! Resources, prompts and completions of the sample: a writable memo, greetings by name, one prompt.

use std::sync::{Mutex, PoisonError};

use serde_json::json;
use toolway_wire::{exchange::Request, json::Raw, message::RpcError, notice::Notice};

const MEMO: &str = "memo://today";
const GREETING: &str = "greeting://";
/// Names that completion offers.
const NAMES: [&str; 5] = ["Ada", "Alan", "Edsger", "Grace", "Margaret"];

/// Text of the memo resource.
#[derive(Debug)]
pub(crate) struct Memo(Mutex<String>);

impl Default for Memo {
    fn default() -> Self {
        Self(Mutex::new("Buy bread.".to_owned()))
    }
}

impl Memo {
    pub(crate) fn write(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    pub(crate) fn read(&self, request: &Request) -> Result<Raw, RpcError> {
        let uri = request.param("uri");
        let uri = uri.as_ref().and_then(Raw::as_str).unwrap_or_default();
        let text = match uri.strip_prefix(GREETING) {
            Some(name) if !name.is_empty() => format!("Hello, {name}."),
            _ if uri == MEMO => self.0.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            _ => {
                let data = json!({ "uri": uri });
                return Err(RpcError::with_data(RpcError::RESOURCE_NOT_FOUND, "resource not found", data));
            }
        };
        Ok(Raw::of(&json!({ "contents": [{ "uri": uri, "mimeType": "text/plain", "text": text }] })))
    }
}

pub(crate) fn memo_changed() -> Notice {
    Notice::Updated { uri: MEMO.to_owned(), params: Raw::of(&json!({ "uri": MEMO })) }
}

/// The URIs among these that support subscriptions.
pub(crate) fn known(uris: &[String]) -> Vec<String> {
    uris.iter().filter(|uri| *uri == MEMO).cloned().collect()
}

pub(crate) fn list() -> Raw {
    Raw::of(&json!({ "resources": [
        { "uri": MEMO, "name": "today", "title": "Today's memo", "description": "A text that `write_memo` replaces",
          "mimeType": "text/plain" },
    ] }))
}

pub(crate) fn templates() -> Raw {
    Raw::of(&json!({ "resourceTemplates": [
        { "uriTemplate": "greeting://{name}", "name": "greeting", "description": "A greeting by name",
          "mimeType": "text/plain" },
    ] }))
}

pub(crate) fn prompts() -> Raw {
    Raw::of(&json!({ "prompts": [
        { "name": "introduce", "title": "Introduce someone", "description": "Ask a model to introduce a person",
          "arguments": [{ "name": "name", "description": "Name of the person", "required": true }] },
    ] }))
}

pub(crate) fn prompt(request: &Request) -> Result<Raw, RpcError> {
    let invalid = |message: &str| RpcError::new(RpcError::INVALID_PARAMS, message);
    let prompt = request.param("name");
    if prompt.as_ref().and_then(Raw::as_str).as_deref() != Some("introduce") {
        return Err(invalid("unknown prompt"));
    }
    let name = request.param("arguments").and_then(|arguments| arguments.get("name"));
    let name = name.as_ref().and_then(Raw::as_str).ok_or_else(|| invalid("argument `name` is missing"))?;
    Ok(Raw::of(&json!({
        "description": "Introduces a person",
        "messages": [{ "role": "user", "content": { "type": "text", "text": format!("Introduce {name} in two sentences.") } }],
    })))
}

pub(crate) fn complete(request: &Request) -> Raw {
    let begun = request.param("argument").and_then(|argument| argument.get("value"));
    let begun = begun.as_ref().and_then(Raw::as_str).unwrap_or_default().to_lowercase();
    let values: Vec<&str> = NAMES.into_iter().filter(|name| name.to_lowercase().starts_with(&begun)).collect();
    Raw::of(&json!({ "completion": { "values": values, "total": values.len(), "hasMore": false } }))
}
