//! A handler that answers and records all server requests.

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolway_wire::{
    exchange::{Answer, ServerRequestDetails, ServerRequestHandler},
    json::Raw,
    message::ClientCapabilities,
};

/// A user with a model and one root.
pub(crate) struct ScriptedUser {
    declared: Value,
    asked: Mutex<Vec<(String, Value)>>,
}

impl ScriptedUser {
    /// A user that declares these client capabilities.
    pub(crate) fn declaring(declared: Value) -> Self {
        Self { declared, asked: Mutex::default() }
    }

    /// Takes the server requests since the last call: method and params of each.
    pub(crate) fn take_requests(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.asked.lock())
    }
}

impl Default for ScriptedUser {
    fn default() -> Self {
        Self::declaring(json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} }))
    }
}

impl ServerRequestHandler for ScriptedUser {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities(Raw::of(&self.declared))
    }

    fn answer(&self, question: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        let params = question.params.map(|params| params.read().unwrap()).unwrap_or_default();
        let answer = answer(&question.method, &params);
        self.asked.lock().push((question.method, params));
        Box::pin(async move { Answer::Given(Raw::of(&answer)) })
    }
}

fn answer(method: &str, params: &Value) -> Value {
    match method {
        "elicitation/create" if params["mode"] == "url" => json!({ "action": "accept" }),
        "elicitation/create" => json!({ "action": "accept", "content": filled_in(&params["requestedSchema"]) }),
        "roots/list" => json!({ "roots": [{ "uri": "file:///work", "name": "work" }] }),
        _ if params["tools"].is_array() => {
            let used = json!({ "type": "tool_use", "id": "use-1", "name": "weather", "input": { "city": "Paris" } });
            let mut answer = sampled(&json!([used]), "toolUse");
            answer["_meta"] = json!({ "example.org/answered": "by ada" });
            answer
        }
        _ => sampled(&json!({ "type": "text", "text": "Paris" }), "endTurn"),
    }
}

fn sampled(content: &Value, reason: &str) -> Value {
    json!({ "role": "assistant", "model": "none", "content": content, "stopReason": reason })
}

/// Fills in a form: `Ada` for text, `true` for a boolean, and existing defaults.
fn filled_in(schema: &Value) -> Value {
    let fields = schema["properties"].as_object().unwrap();
    let value = |field: &Value| match (field.get("default"), field["type"].as_str()) {
        (Some(default), _) => default.clone(),
        (None, Some("boolean")) => json!(true),
        (None, Some("array")) => json!([]),
        (None, Some("integer" | "number")) => json!(7),
        (None, _) => json!("Ada"),
    };
    fields.iter().map(|(name, field)| (name.clone(), value(field))).collect()
}
