//! The wire format Anthropic Messages.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolway_wire::sse::SseEvent;

use crate::{
    Image, Message, ModelErrorKind, ModelEvent, ModelRequest, Part, RawItems, ResultPart, Role, StopReason, ToolResult,
    Usage, Wire,
    answer::AnswerBuilder,
    schema,
    wire::{self, CallIds, Decoder, ModelErrorKindWithMessage, WireSettings, text},
};

/// Version of the API in the header `anthropic-version`.
pub(crate) const VERSION: &str = "2023-06-01";
/// The API requires a limit of output tokens.
const MAX_TOKENS: u64 = 16_384;

/// The request as JSON. The end of the system prompt, of the tools and of the conversation are cache breakpoints.
pub(crate) fn encode(settings: &WireSettings, request: &ModelRequest) -> Value {
    let mut body = json!({
        "model": settings.model,
        "max_tokens": request.max_tokens.or(settings.max_tokens).unwrap_or(MAX_TOKENS),
        "stream": true,
        "messages": messages(settings, request),
    });
    if !request.system.is_empty() {
        body["system"] = json!([{ "type": "text", "text": request.system, "cache_control": { "type": "ephemeral" } }]);
    }
    if !request.tools.is_empty() {
        let mut tools: Vec<Value> = request
            .tools
            .iter()
            .map(
                |tool| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.input_schema }),
            )
            .collect();
        mark_cached(tools.last_mut());
        body["tools"] = tools.into();
    }
    if let Some(schema) = request.answer_schema.as_ref().and_then(schema::answer::for_anthropic) {
        body["output_config"] = json!({ "format": { "type": "json_schema", "schema": schema } });
    }
    body
}

fn messages(settings: &WireSettings, request: &ModelRequest) -> Vec<Value> {
    // Turns alternate: messages of one side that follow each other are one turn. Results come first in theirs.
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    let ids = CallIds::of(Wire::Anthropic, settings, &request.messages);
    for message in &request.messages {
        let (role, mut blocks) = match message.role {
            Role::Assistant => ("assistant", assistant_blocks(settings, &ids, message)),
            Role::User | Role::Tool => {
                ("user", message.parts.iter().filter_map(|part| user_block(&ids, part)).collect())
            }
        };
        match turns.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, before)) if *last == role => before.append(&mut blocks),
            _ => turns.push((role, blocks)),
        }
    }
    let mut messages: Vec<Value> =
        turns.into_iter().map(|(role, blocks)| json!({ "role": role, "content": blocks })).collect();
    mark_cached(messages.last_mut().and_then(|message| message["content"].as_array_mut()?.last_mut()));
    messages
}

fn mark_cached(block: Option<&mut Value>) {
    if let Some(block) = block.filter(|block| !["thinking", "redacted_thinking"].contains(&text(block, "type"))) {
        block["cache_control"] = json!({ "type": "ephemeral" });
    }
}

fn assistant_blocks(settings: &WireSettings, ids: &CallIds<'_>, message: &Message) -> Vec<Value> {
    if let Some(items) = message.raw_for(Wire::Anthropic, &settings.model) {
        return items.to_vec();
    }
    let blocks = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } if !text.trim().is_empty() => Some(json!({ "type": "text", "text": text })),
        Part::ToolCall(call) => {
            // The API accepts objects only.
            let input = if call.arguments.is_object() { call.arguments.clone() } else { json!({}) };
            Some(json!({ "type": "tool_use", "id": ids.on_wire(&call.id), "name": call.name, "input": input }))
        }
        _ => None,
    });
    blocks.collect()
}

/// Blank text is refused by the API.
fn user_block(ids: &CallIds<'_>, part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } => (!text.trim().is_empty()).then(|| json!({ "type": "text", "text": text })),
        Part::Image(image) => Some(image_block(image)),
        Part::ToolResult(result) => Some(result_block(ids, result)),
        Part::Reasoning { .. } | Part::ToolCall(_) => None,
    }
}

fn result_block(ids: &CallIds<'_>, result: &ToolResult) -> Value {
    let content = result.content.iter().filter_map(|part| match part {
        ResultPart::Text { text } => (!text.trim().is_empty()).then(|| json!({ "type": "text", "text": text })),
        ResultPart::Image(image) => Some(image_block(image)),
    });
    let mut content: Vec<Value> = content.collect();
    // An error must have a content.
    if result.is_error && content.is_empty() {
        content.push(json!({ "type": "text", "text": "The call failed without a message." }));
    }
    let id = ids.on_wire(&result.call_id);
    json!({ "type": "tool_result", "tool_use_id": id, "content": content, "is_error": result.is_error })
}

fn image_block(image: &Image) -> Value {
    let source = json!({ "type": "base64", "media_type": image.mime_type, "data": image.data });
    json!({ "type": "image", "source": source })
}

/// Decodes the stream of one answer.
pub(crate) struct AnthropicDecoder {
    model: String,
    answer: AnswerBuilder,
    /// Content blocks by their index in the stream.
    blocks: BTreeMap<u64, Block>,
    usage: Usage,
    reason: Option<StopReason>,
}

struct Block {
    /// The block as it will be sent back.
    raw: Value,
    /// Position of its call, if it is one.
    call: Option<usize>,
    /// JSON text of a call's input.
    input: String,
}

impl AnthropicDecoder {
    pub(crate) fn new(model: String) -> Self {
        let (answer, usage) = (AnswerBuilder::default(), Usage::default());
        Self { model, answer, blocks: BTreeMap::new(), usage, reason: None }
    }

    fn start_block(&mut self, event: &Value) -> Vec<ModelEvent> {
        let raw = event["content_block"].clone();
        let raw = if raw.is_object() { raw } else { json!({}) };
        let mut events = Vec::new();
        let mut call = None;
        match text(&raw, "type") {
            "tool_use" => {
                let (index, event) = self.answer.start_call(text(&raw, "id"), text(&raw, "name"));
                call = Some(index);
                events.push(event);
            }
            "text" if raw["text"] != "" => events.push(self.answer.text(text(&raw, "text"))),
            "thinking" if raw["thinking"] != "" => events.push(self.answer.reasoning(text(&raw, "thinking"))),
            _ => {}
        }
        let index = event["index"].as_u64().unwrap_or_default();
        self.blocks.insert(index, Block { raw, call, input: String::new() });
        events
    }

    fn delta(&mut self, event: &Value) -> Option<ModelEvent> {
        let block = self.blocks.get_mut(&event["index"].as_u64()?)?;
        let delta = &event["delta"];
        match text(delta, "type") {
            "text_delta" => {
                append(&mut block.raw, "text", text(delta, "text"));
                Some(self.answer.text(text(delta, "text")))
            }
            "thinking_delta" => {
                append(&mut block.raw, "thinking", text(delta, "thinking"));
                Some(self.answer.reasoning(text(delta, "thinking")))
            }
            "signature_delta" => {
                append(&mut block.raw, "signature", text(delta, "signature"));
                None
            }
            "input_json_delta" => {
                let piece = text(delta, "partial_json");
                block.input.push_str(piece);
                self.answer.arguments(block.call?, piece)
            }
            _ => None,
        }
    }

    fn stop_block(&mut self, event: &Value) -> Option<ModelEvent> {
        let block = self.blocks.get_mut(&event["index"].as_u64()?)?;
        if !block.input.is_empty() {
            let input = serde_json::from_str(&block.input).ok().filter(Value::is_object);
            block.raw["input"] = input.unwrap_or_else(|| json!({}));
        }
        self.answer.end_call(block.call?)
    }

    fn read_usage(&mut self, usage: &Value) -> Option<ModelEvent> {
        let usage = usage.as_object()?;
        let figure = |key: &str, before: u64| usage.get(key).and_then(Value::as_u64).unwrap_or(before);
        let fresh = self.usage.input_tokens - self.usage.cached_tokens - self.usage.cache_write_tokens;
        let cached = figure("cache_read_input_tokens", self.usage.cached_tokens);
        let written = figure("cache_creation_input_tokens", self.usage.cache_write_tokens);
        self.usage = Usage {
            // The vendor counts cached tokens apart.
            input_tokens: figure("input_tokens", fresh) + cached + written,
            output_tokens: figure("output_tokens", self.usage.output_tokens),
            cached_tokens: cached,
            cache_write_tokens: written,
            reasoning_tokens: 0,
        };
        Some(ModelEvent::Usage(self.usage))
    }

    fn end(&mut self) -> Result<Vec<ModelEvent>, ModelErrorKindWithMessage> {
        let reason = self.reason.take().ok_or((ModelErrorKind::Cut, None))?;
        let mut events = self.answer.end_calls();
        let is_cut = !matches!(reason, StopReason::EndTurn | StopReason::ToolCalls);
        // Thinking that was cut has no signature, and is refused when it is sent back.
        let unsigned = |block: &Block| block.raw["type"] == "thinking" && text(&block.raw, "signature").is_empty();
        if is_cut && self.blocks.last_key_value().is_some_and(|(_, block)| unsigned(block)) {
            self.blocks.pop_last();
        }
        let items = std::mem::take(&mut self.blocks).into_values().map(|block| block.raw);
        // An empty text block is refused when it is sent back.
        let items = items.filter(|raw| !(raw["type"] == "text" && text(raw, "text").trim().is_empty())).collect();
        let raw = RawItems { wire: Wire::Anthropic, model: self.model.clone(), items };
        events.push(ModelEvent::End { reason, message: self.answer.finish(raw) });
        Ok(events)
    }
}

impl Decoder for AnthropicDecoder {
    fn push(&mut self, event: &SseEvent) -> Result<Vec<ModelEvent>, ModelErrorKindWithMessage> {
        let event = wire::json(event)?;
        match text(&event, "type") {
            "message_start" => Ok(self.read_usage(&event["message"]["usage"]).into_iter().collect()),
            "content_block_start" => Ok(self.start_block(&event)),
            "content_block_delta" => Ok(self.delta(&event).into_iter().collect()),
            "content_block_stop" => Ok(self.stop_block(&event).into_iter().collect()),
            "message_delta" => {
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.reason = Some(stop_reason(reason));
                }
                Ok(self.read_usage(&event["usage"]).into_iter().collect())
            }
            "message_stop" => self.end(),
            "error" => {
                let error = &event["error"];
                Err((wire::kind_of_word(text(error, "type"), 0), Some(text(error, "message").to_owned())))
            }
            // `ping`, and events of later versions.
            _ => Ok(Vec::new()),
        }
    }
}

fn append(raw: &mut Value, key: &str, delta: &str) {
    match raw.get_mut(key) {
        Some(Value::String(text)) => text.push_str(delta),
        _ => raw[key] = delta.into(),
    }
}

fn stop_reason(word: &str) -> StopReason {
    match word {
        "end_turn" | "stop_sequence" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refused,
        other => StopReason::Other(other.to_owned()),
    }
}
