//! The list of models, as each vendor answers it.

use serde_json::{Value, json};

use super::{OLLAMA_MODEL, VendorKind};
use crate::odd::http::RecordedRequest;

/// Whether a request asks for the list.
pub(super) fn is_list(kind: VendorKind, request: &RecordedRequest) -> bool {
    let path = request.path.split('?').next().unwrap_or_default();
    path == if kind == VendorKind::Gemini { "/v1beta/models" } else { "/v1/models" }
}

/// The newest model for general use.
pub(super) fn newest(kind: VendorKind) -> &'static str {
    match kind {
        VendorKind::Anthropic => "claude-mock-9",
        VendorKind::Openai | VendorKind::OpenaiChat => "gpt-mock-9",
        VendorKind::Gemini => "gemini-9.5-mock",
    }
}

/// The list: an older model, the newest one, and a newer one for another purpose.
pub(super) fn list(kind: VendorKind) -> Value {
    match kind {
        VendorKind::Anthropic => {
            let model = |id: &str, created: &str| json!({ "type": "model", "id": id, "display_name": id, "created_at": created });
            let data = [model(newest(kind), "2031-02-24T00:00:00Z"), model("claude-mock-8", "2030-06-01T00:00:00Z")];
            json!({ "data": data, "has_more": false, "first_id": newest(kind), "last_id": "claude-mock-8" })
        }
        VendorKind::Openai | VendorKind::OpenaiChat => {
            let model = |id: &str, created: u64| json!({ "id": id, "object": "model", "created": created, "owned_by": "system" });
            let data = [
                model("gpt-mock-8", 1_900_000_000),
                model(newest(kind), 1_930_000_000),
                model("gpt-mock-9-realtime", 1_940_000_000),
            ];
            json!({ "object": "list", "data": data })
        }
        VendorKind::Gemini => {
            let model = |name: &str, method: &str| {
                json!({
                    "name": format!("models/{name}"), "version": "001", "displayName": name,
                    "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536,
                    "supportedGenerationMethods": [method, "countTokens"],
                })
            };
            let models = [
                model("gemini-8-mock", "generateContent"),
                model(newest(kind), "generateContent"),
                model("gemini-embedding-10", "embedContent"),
            ];
            json!({ "models": models })
        }
    }
}

/// `GET /api/tags` of Ollama, which does not list the newest model first.
pub(super) fn tags() -> Value {
    let model = |name: &str, modified: &str| json!({ "name": name, "model": name, "modified_at": modified, "size": 2_019_393_189 });
    let older = model("mock-old:latest", "2030-05-04T17:37:44.706015396Z");
    json!({ "models": [older, model(OLLAMA_MODEL, "2031-05-10T08:06:48.639712648Z")] })
}
