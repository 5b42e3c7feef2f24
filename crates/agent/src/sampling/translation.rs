//! A sampling request as the model gets it, and the answer as the server gets it. What a model cannot take is refused
//! before anything is sent.

use serde_json::{Value, json};
use toolway_host::sampling::{Sampled, SampledMessage, SamplingDetails};
use toolway_model::{Image, Message, ModelRequest, Part, Role, StopReason};
use toolway_wire::{json::Raw, message::RpcError};

/// Most tokens of an answer where the configuration sets no maximum.
const DEFAULT_MAX_TOKENS: u64 = 4_096;

/// A request as the model gets it.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) request: ModelRequest,
    max_tokens: u64,
    temperature: Option<String>,
}

// === impl Translated ===

/// The parameters of a request.
pub(super) fn read(params: Option<&Raw>) -> Result<Value, RpcError> {
    params.and_then(|params| params.read().ok()).ok_or_else(|| invalid("no params"))
}

impl Translated {
    pub(super) fn of(params: &Value, max_tokens: Option<u32>) -> Result<Self, RpcError> {
        if params.get("tools").is_some() || params.get("toolChoice").is_some() {
            return Err(invalid("tools were not declared"));
        }
        let wanted = params["maxTokens"].as_u64().filter(|wanted| 0 < *wanted);
        let wanted = wanted.ok_or_else(|| invalid("`maxTokens` is missing or not a positive number"))?;
        let most = max_tokens.map_or(DEFAULT_MAX_TOKENS, u64::from);
        let messages = params["messages"].as_array().filter(|messages| !messages.is_empty());
        let messages = messages.ok_or_else(|| invalid("`messages` is missing or empty"))?;
        let max_tokens = wanted.min(most);
        let request = ModelRequest {
            system: params["systemPrompt"].as_str().unwrap_or_default().to_owned(),
            messages: messages.iter().map(message).collect::<Result<_, _>>()?,
            max_tokens: Some(max_tokens),
            ..ModelRequest::default()
        };
        Ok(Self { request, max_tokens, temperature: params.get("temperature").map(ToString::to_string) })
    }

    /// What a person sees of it.
    pub(super) fn details(&self, called: &str, model: &str, reason: String) -> SamplingDetails {
        let request = &self.request;
        SamplingDetails {
            called: called.to_owned(),
            messages: request.messages.iter().map(shown).collect(),
            system: Some(request.system.clone()).filter(|system| !system.is_empty()),
            temperature: self.temperature.clone(),
            stop_sequences: Vec::new(),
            max_tokens: self.max_tokens,
            tools: Vec::new(),
            tool_choice: None,
            model: model.to_owned(),
            reason,
            quota: Vec::new(),
            answer: None,
        }
    }
}

fn message(message: &Value) -> Result<Message, RpcError> {
    let role = match message["role"].as_str() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return Err(invalid("the role of a message is neither `user` nor `assistant`")),
    };
    let parts = match &message["content"] {
        Value::Array(blocks) => blocks.iter().map(part).collect::<Result<_, _>>()?,
        block => vec![part(block)?],
    };
    Ok(Message { role, parts, raw: None })
}

fn part(block: &Value) -> Result<Part, RpcError> {
    let text = |key: &str| block[key].as_str().map(str::to_owned);
    match block["type"].as_str() {
        Some("text") => Ok(Part::Text { text: text("text").ok_or_else(|| invalid("a text block has no `text`"))? }),
        Some("image") => match (text("mimeType"), text("data")) {
            (Some(mime_type), Some(data)) => Ok(Part::Image(Image { mime_type, data })),
            _ => Err(invalid("an image has no `mimeType` or no `data`")),
        },
        Some(kind) => Err(invalid(&format!("content of type `{}` cannot be sent to the model", first_words(kind)))),
        None => Err(invalid("a content block has no `type`")),
    }
}

fn first_words(text: &str) -> String {
    text.chars().take(40).collect()
}

fn invalid(why: &str) -> RpcError {
    RpcError::new(RpcError::INVALID_PARAMS, &format!("invalid sampling request: {why}"))
}

/// A message as a person sees it.
fn shown(message: &Message) -> SampledMessage {
    let parts = message.parts.iter().map(|part| match part {
        Part::Text { text } => text.clone(),
        Part::Image(image) => format!("[image: {}, {} bytes in base64]", image.mime_type, image.data.len()),
        _ => String::new(),
    });
    let role = if message.role == Role::Assistant { "assistant" } else { "user" };
    SampledMessage { role: role.to_owned(), text: parts.collect::<Vec<_>>().join("\n") }
}

/// The answer as the protocol has it.
pub(super) fn result(message: &Message, reason: &StopReason, model: &str) -> Sampled {
    let reason = match reason {
        StopReason::EndTurn => "endTurn",
        StopReason::MaxTokens => "maxTokens",
        StopReason::ToolCalls => "toolUse",
        StopReason::Refused => "refusal",
        StopReason::Other(word) => word,
    };
    let text = message.text();
    let content = json!({ "type": "text", "text": text });
    let result = Raw::of(&json!({ "role": "assistant", "content": content, "model": model, "stopReason": reason }));
    Sampled { result, text, stop_reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Translated;

    fn read(params: &serde_json::Value, max_tokens: Option<u32>) -> Result<Translated, String> {
        Translated::of(params, max_tokens).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn messages_system_prompt_and_the_smaller_maximum_are_taken() {
        let params = json!({
            "messages": [
                { "role": "user", "content": { "type": "text", "text": "one" } },
                { "role": "assistant", "content": [{ "type": "text", "text": "two" }] },
                { "role": "user", "content": { "type": "image", "mimeType": "image/png", "data": "AAAA" } },
            ],
            "systemPrompt": "short", "maxTokens": 9000, "includeContext": "allServers",
        });
        let translated = read(&params, None).unwrap();
        assert_eq!(
            (translated.request.messages.len(), translated.request.system.as_str(), translated.max_tokens),
            (3, "short", 4096)
        );
        assert_eq!(read(&params, Some(100)).unwrap().max_tokens, 100);
    }

    #[test]
    fn requests_that_the_model_cannot_take_are_refused_before_it_is_asked() {
        let text = json!({ "type": "text", "text": "x" });
        let message = |content: &serde_json::Value| json!([{ "role": "user", "content": content }]);
        for (params, why) in [
            (json!({ "messages": message(&text) }), "maxTokens"),
            (json!({ "messages": [], "maxTokens": 1 }), "messages"),
            (json!({ "messages": message(&text), "maxTokens": 1, "tools": [] }), "tools"),
            (json!({ "messages": message(&json!({ "type": "audio" })), "maxTokens": 1 }), "audio"),
            (json!({ "messages": message(&json!({ "type": "text" })), "maxTokens": 1 }), "`text`"),
            (json!({ "messages": [{ "role": "system", "content": text }], "maxTokens": 1 }), "role"),
        ] {
            let error = read(&params, None).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
