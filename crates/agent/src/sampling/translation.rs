//! A sampling request as the model gets it, and the answer as the server gets it. What a model cannot take is refused
//! before anything is sent.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolway_host::sampling::{Sampled, SampledMessage, SampledTool, SamplingDetails};
use toolway_model::{
    Audio, Image, Message, ModelRequest, Part, ResultPart, Role, StopReason, ToolCall, ToolChoice, ToolDefinition,
    ToolResult, Vendor, schema::adapt,
};
use toolway_wire::{json::Raw, message::RpcError};

use super::estimate;

/// Most tokens of an answer where the configuration sets no maximum.
const DEFAULT_MAX_TOKENS: u64 = 4_096;

/// Messages, tools and stop sequences of a request that are looked at; a request with more is refused.
const MAX_PARTS: usize = 1_000;
const MAX_TOOLS: usize = 128;
const MAX_STOP_SEQUENCES: usize = 16;

/// A request as the model gets it.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) request: ModelRequest,
    max_tokens: u64,
}

/// What a request can have besides text and images.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abilities {
    pub(super) vendor: Vendor,
}

// === impl Translated ===

/// The parameters of a request.
pub(super) fn read(params: Option<&Raw>) -> Result<Value, RpcError> {
    params.and_then(|params| params.read().ok()).ok_or_else(|| invalid("no params"))
}

impl Translated {
    /// `includeContext` is not declared and so the same as `none`; `metadata` is for vendors that we do not pass it to.
    pub(super) fn of(params: &Value, max_tokens: Option<u32>, abilities: Abilities) -> Result<Self, RpcError> {
        let wanted = params["maxTokens"].as_u64().filter(|wanted| 0 < *wanted);
        let wanted = wanted.ok_or_else(|| invalid("`maxTokens` is missing or not a positive number"))?;
        let max_tokens = wanted.min(max_tokens.map_or(DEFAULT_MAX_TOKENS, u64::from));
        let temperature = match params.get("temperature") {
            None | Some(Value::Null) => None,
            Some(number) => Some(number.as_f64().ok_or_else(|| invalid("`temperature` is not a number"))?),
        };
        let request = ModelRequest {
            system: params["systemPrompt"].as_str().unwrap_or_default().to_owned(),
            messages: messages(&params["messages"], abilities)?,
            tools: tools(&params["tools"], abilities.vendor)?,
            max_tokens: Some(max_tokens),
            temperature,
            stop_sequences: stop_sequences(&params["stopSequences"])?,
            tool_choice: tool_choice(&params["toolChoice"])?,
            ..ModelRequest::default()
        };
        Ok(Self { request, max_tokens })
    }

    /// What a person sees of it: everything that is sent.
    pub(super) fn details(&self, called: &str, model: &str, reason: String) -> SamplingDetails {
        let request = &self.request;
        let tool = |tool: &ToolDefinition| SampledTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            schema: tool.input_schema.to_string(),
        };
        let choice = request.tool_choice.map(|choice| match choice {
            ToolChoice::Auto => "auto",
            ToolChoice::Required => "required",
            ToolChoice::Never => "none",
        });
        SamplingDetails {
            called: called.to_owned(),
            messages: request.messages.iter().map(shown).collect(),
            system: Some(request.system.clone()).filter(|system| !system.is_empty()),
            temperature: request.temperature.map(|temperature| temperature.to_string()),
            stop_sequences: request.stop_sequences.clone(),
            max_tokens: self.max_tokens,
            input_tokens: estimate::input_tokens(request),
            tools: request.tools.iter().map(tool).collect(),
            tool_choice: choice.map(str::to_owned),
            model: model.to_owned(),
            reason,
            quota: Vec::new(),
            answer: None,
        }
    }
}

fn tools(tools: &Value, vendor: Vendor) -> Result<Vec<ToolDefinition>, RpcError> {
    let list = match tools {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) if list.len() <= MAX_TOOLS => list,
        _ => return Err(invalid("`tools` is not a list, or too long")),
    };
    let tool = |tool: &Value| {
        let name = tool["name"].as_str().ok_or_else(|| invalid("a tool has no `name`"))?;
        let description = tool["description"].as_str().unwrap_or_default();
        let adapted = adapt(vendor, name, description, &tool["inputSchema"]);
        adapted.map_err(|left_out| invalid(&format!("the tool `{}`: {}", first_words(name), left_out.reason)))
    };
    list.iter().map(tool).collect()
}

fn tool_choice(choice: &Value) -> Result<Option<ToolChoice>, RpcError> {
    match (choice, choice["mode"].as_str()) {
        (Value::Null, _) => Ok(None),
        (_, None | Some("auto")) => Ok(Some(ToolChoice::Auto)),
        (_, Some("required")) => Ok(Some(ToolChoice::Required)),
        (_, Some("none")) => Ok(Some(ToolChoice::Never)),
        (_, Some(_)) => Err(invalid("`toolChoice.mode` is neither `auto`, `required` nor `none`")),
    }
}

fn stop_sequences(sequences: &Value) -> Result<Vec<String>, RpcError> {
    let list = match sequences {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) if list.len() <= MAX_STOP_SEQUENCES => list,
        _ => return Err(invalid("`stopSequences` is not a list, or too long")),
    };
    let text = |sequence: &Value| sequence.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    list.iter().map(|sequence| text(sequence).ok_or_else(|| invalid("a stop sequence is not a text"))).collect()
}

fn messages(messages: &Value, abilities: Abilities) -> Result<Vec<Message>, RpcError> {
    let list = messages.as_array().filter(|list| !list.is_empty() && list.len() <= MAX_PARTS);
    let list = list.ok_or_else(|| invalid("`messages` is missing, empty or too long"))?;
    let mut calls = BTreeMap::new();
    list.iter().map(|one| message(one, abilities, &mut calls)).collect()
}

/// `calls` has the names of the tool calls before the message, by id.
fn message(message: &Value, abilities: Abilities, calls: &mut BTreeMap<String, String>) -> Result<Message, RpcError> {
    let role = match message["role"].as_str() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return Err(invalid("the role of a message is neither `user` nor `assistant`")),
    };
    let blocks = match &message["content"] {
        Value::Array(blocks) if blocks.len() <= MAX_PARTS => blocks.as_slice(),
        Value::Array(_) => return Err(invalid("a message has too many content blocks")),
        block => std::slice::from_ref(block),
    };
    let is_result = |block: &Value| block["type"] == "tool_result";
    let parts: Vec<Part> = match (role, blocks.iter().any(is_result)) {
        (Role::User, true) => {
            if !blocks.iter().all(is_result) {
                return Err(invalid("a message with tool results has other content, too"));
            }
            blocks.iter().map(|block| tool_result(block, calls)).collect::<Result<_, _>>()?
        }
        _ => blocks.iter().map(|block| part(block, role, abilities)).collect::<Result<_, _>>()?,
    };
    for part in &parts {
        if let Part::ToolCall(call) = part {
            calls.insert(call.id.clone(), call.name.clone());
        }
    }
    let role = if parts.iter().any(|part| matches!(part, Part::ToolResult(_))) { Role::Tool } else { role };
    Ok(Message { role, parts, raw: None, task: None, attached: None })
}

fn part(block: &Value, role: Role, abilities: Abilities) -> Result<Part, RpcError> {
    let text = |key: &str| block[key].as_str().map(str::to_owned);
    let needed = |key: &str| text(key).ok_or_else(|| invalid(&format!("a content block has no `{key}`")));
    match block["type"].as_str() {
        Some("text") => Ok(Part::Text { text: text("text").ok_or_else(|| invalid("a text block has no `text`"))? }),
        Some("image") => Ok(Part::Image(Image { mime_type: needed("mimeType")?, data: needed("data")? })),
        Some("audio") if abilities.takes_audio() => {
            Ok(Part::Audio(Audio { mime_type: needed("mimeType")?, data: needed("data")? }))
        }
        Some("tool_use") if role == Role::Assistant => {
            let arguments = if block["input"].is_null() { json!({}) } else { block["input"].clone() };
            Ok(Part::ToolCall(ToolCall { id: needed("id")?, name: needed("name")?, arguments: Raw::of(&arguments) }))
        }
        Some(kind) => Err(invalid(&format!("content of type `{}` cannot be sent to the model", first_words(kind)))),
        None => Err(invalid("a content block has no `type`")),
    }
}

fn tool_result(block: &Value, calls: &BTreeMap<String, String>) -> Result<Part, RpcError> {
    let id = block["toolUseId"].as_str().unwrap_or_default();
    let name = calls.get(id).ok_or_else(|| invalid("a tool result belongs to no tool call before it"))?;
    let empty = Vec::new();
    let content = block["content"].as_array().unwrap_or(&empty).iter().map(|block| match block["type"].as_str() {
        Some("image") => match (block["mimeType"].as_str(), block["data"].as_str()) {
            (Some(mime_type), Some(data)) => {
                Ok(ResultPart::Image(Image { mime_type: mime_type.to_owned(), data: data.to_owned() }))
            }
            _ => Err(invalid("an image has no `mimeType` or no `data`")),
        },
        Some("text") => Ok(ResultPart::Text { text: block["text"].as_str().unwrap_or_default().to_owned() }),
        _ => Ok(ResultPart::Text { text: block.to_string() }),
    });
    let mut content: Vec<ResultPart> = content.collect::<Result<_, _>>()?;
    if content.is_empty() && !block["structuredContent"].is_null() {
        content.push(ResultPart::Text { text: block["structuredContent"].to_string() });
    }
    let is_error = block["isError"] == true;
    Ok(Part::ToolResult(ToolResult { call_id: id.to_owned(), name: name.clone(), content, is_error }))
}

impl Abilities {
    fn takes_audio(self) -> bool {
        matches!(self.vendor, Vendor::OpenaiChat | Vendor::Gemini)
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
    let image = |image: &Image| format!("[image: {}, {} bytes in base64]", image.mime_type, image.data.len());
    let parts = message.parts.iter().map(|part| match part {
        Part::Text { text } | Part::Reasoning { text } => text.clone(),
        Part::Image(shown) => image(shown),
        Part::Audio(audio) => format!("[audio: {}, {} bytes in base64]", audio.mime_type, audio.data.len()),
        Part::ToolCall(call) => format!("[call of `{}`: {}]", call.name, call.arguments),
        Part::ToolResult(result) => {
            let content = result.content.iter().map(|part| match part {
                ResultPart::Text { text } => text.clone(),
                ResultPart::Image(shown) => image(shown),
                ResultPart::Audio(audio) => format!("[audio: {}]", audio.mime_type),
            });
            let word = if result.is_error { "error" } else { "result" };
            format!("[{word} of `{}`:]\n{}", result.name, content.collect::<Vec<_>>().join("\n"))
        }
    });
    let role = if message.role == Role::Assistant { "assistant" } else { "user" };
    SampledMessage { role: role.to_owned(), text: parts.collect::<Vec<_>>().join("\n") }
}

/// The answer as the protocol has it. A vendor without stop sequences sends more than is wanted: it is cut here.
pub(super) fn result(message: &Message, reason: &StopReason, model: &str, stops: &[String]) -> Sampled {
    let mut text = message.text();
    let calls: Vec<&ToolCall> = message.tool_calls().collect();
    let stop = stops.iter().filter_map(|stop| text.find(stop)).min().filter(|_| calls.is_empty());
    if let Some(stop) = stop {
        text.truncate(stop);
    }
    let reason = match reason {
        _ if stop.is_some() => "stopSequence",
        _ if !calls.is_empty() => "toolUse",
        StopReason::EndTurn => "endTurn",
        StopReason::MaxTokens => "maxTokens",
        StopReason::ToolCalls => "toolUse",
        StopReason::Refused => "refusal",
        StopReason::Other(word) if word == "stop_sequence" => "stopSequence",
        StopReason::Other(word) => word,
    };
    let words = json!({ "type": "text", "text": text });
    let uses = calls.iter().map(|call| {
        let input: Value = call.arguments.read().unwrap_or_default();
        json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
    });
    let uses: Vec<Value> = uses.collect();
    let mut shown = text.clone();
    for call in &calls {
        shown.push_str(&format!("\n[call of `{}`: {}]", call.name, call.arguments));
    }
    let content = match (uses.is_empty(), text.is_empty()) {
        (true, _) => words,
        (false, true) => uses.into(),
        (false, false) => [vec![words], uses].concat().into(),
    };
    let result = Raw::of(&json!({ "role": "assistant", "content": content, "model": model, "stopReason": reason }));
    Sampled { result, text: shown, stop_reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(params: &serde_json::Value, max_tokens: Option<u32>) -> Result<Translated, String> {
        Translated::of(params, max_tokens, Abilities { vendor: Vendor::Anthropic })
            .map_err(|error| error.message().to_owned())
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
            (json!({ "messages": message(&text), "maxTokens": 1, "tools": [{ "name": "a b" }] }), "`a b`"),
            (json!({ "messages": message(&text), "maxTokens": 1, "temperature": "hot" }), "temperature"),
            (
                json!({ "messages": message(&json!([{ "type": "tool_result", "toolUseId": "x" }])), "maxTokens": 1 }),
                "belongs",
            ),
            (
                json!({ "messages": message(&json!({ "type": "tool_use", "id": "1", "name": "a" })), "maxTokens": 1 }),
                "tool_use",
            ),
            (json!({ "messages": message(&json!({ "type": "audio" })), "maxTokens": 1 }), "audio"),
            (json!({ "messages": message(&json!({ "type": "text" })), "maxTokens": 1 }), "`text`"),
            (json!({ "messages": [{ "role": "system", "content": text }], "maxTokens": 1 }), "role"),
        ] {
            let error = read(&params, None).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn server_runs_its_own_loop_with_tools() {
        let tool = json!({ "name": "add", "description": "Add.", "inputSchema": { "type": "object" } });
        let params = json!({
            "messages": [
                { "role": "user", "content": { "type": "text", "text": "2 and 3?" } },
                { "role": "assistant", "content": [{ "type": "tool_use", "id": "c1", "name": "add", "input": { "a": 2 } }] },
                { "role": "user", "content": [
                    { "type": "tool_result", "toolUseId": "c1", "content": [{ "type": "text", "text": "5" }] },
                ] },
            ],
            "maxTokens": 10, "tools": [tool], "toolChoice": { "mode": "required" },
            "temperature": 0.25, "stopSequences": ["END"], "includeContext": "allServers", "metadata": { "x": 1 },
        });
        let translated = read(&params, None).unwrap();
        let request = &translated.request;
        assert_eq!(request.messages[2].role, Role::Tool);
        assert_eq!((request.tool_choice, request.temperature), (Some(ToolChoice::Required), Some(0.25)));
        let details = translated.details("call", "small", "a reason".to_owned());
        assert_eq!(details.messages[1].text, r#"[call of `add`: {"a":2}]"#);
        assert_eq!(details.messages[2].text, "[result of `add`:]\n5");
        assert_eq!((details.tools[0].name.as_str(), details.stop_sequences[0].as_str()), ("add", "END"));
        assert_eq!((details.temperature.as_deref(), details.tool_choice.as_deref()), (Some("0.25"), Some("required")));
    }

    #[test]
    fn answers_have_the_words_of_the_protocol() {
        let said = |text: &str| Message { role: Role::Assistant, ..Message::user(text) };
        let call = ToolCall { id: "c1".to_owned(), name: "add".to_owned(), arguments: Raw::of(&json!({ "a": 1 })) };
        let calling =
            Message { role: Role::Assistant, parts: vec![Part::ToolCall(call)], raw: None, task: None, attached: None };
        for (message, reason, stop_reason, content) in [
            (said("x"), StopReason::EndTurn, "endTurn", json!({ "type": "text", "text": "x" })),
            (said("x"), StopReason::MaxTokens, "maxTokens", json!({ "type": "text", "text": "x" })),
            (said("x END y"), StopReason::EndTurn, "stopSequence", json!({ "type": "text", "text": "x " })),
            (
                calling,
                StopReason::ToolCalls,
                "toolUse",
                json!([{ "type": "tool_use", "id": "c1", "name": "add", "input": { "a": 1 } }]),
            ),
        ] {
            let sampled = result(&message, &reason, "small", &["END".to_owned()]);
            let raw: Value = sampled.result.read().unwrap();
            assert_eq!((&raw["stopReason"], &raw["content"]), (&json!(stop_reason), &content), "{raw}");
        }
    }

    #[test]
    fn audio_goes_to_vendors_that_take_it() {
        let audio = json!({ "type": "audio", "mimeType": "audio/wav", "data": "AAAA" });
        let params = json!({ "messages": [{ "role": "user", "content": audio }], "maxTokens": 1 });
        for (vendor, is_taken) in
            [(Vendor::Anthropic, false), (Vendor::Openai, false), (Vendor::OpenaiChat, true), (Vendor::Gemini, true)]
        {
            assert_eq!(Translated::of(&params, None, Abilities { vendor }).is_ok(), is_taken, "{vendor:?}");
        }
    }
}
