//! The wire format Anthropic Messages.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolway_wire::{
    json::Raw,
    message::splice::{self, Edit},
    sse::SseEvent,
};

use crate::{
    Image, Message, ModelErrorKind, ModelEvent, ModelRequest, Part, RawItems, ResultPart, Role, StopReason, ToolChoice,
    ToolResult, Usage, Vendor,
    answer::{AnswerBuilder, arguments_object},
    raw_json, schema,
    wire::{self, CallIds, Decoder, ModelErrorKindWithMessage, WireSettings, text},
};

/// Version of the API in the header `anthropic-version`.
pub(crate) const VERSION: &str = "2023-06-01";
/// The API requires a limit of output tokens.
const MAX_TOKENS: u64 = 16_384;

/// The request as JSON. The end of the system prompt, of the tools and of the conversation are cache breakpoints.
pub(crate) fn encode(settings: &WireSettings, request: &ModelRequest) -> Raw {
    let mut body = json!({
        "model": settings.model,
        "max_tokens": request.max_tokens.or(settings.max_tokens).unwrap_or(MAX_TOKENS),
        "stream": true,
        "messages": [],
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
        if let Some(last) = tools.last_mut() {
            last["cache_control"] = json!({ "type": "ephemeral" });
        }
        body["tools"] = tools.into();
    }
    if let Some(choice) = request.tool_choice.filter(|_| !request.tools.is_empty()) {
        let word = match choice {
            ToolChoice::Auto => "auto",
            ToolChoice::Required => "any",
            ToolChoice::Never => "none",
        };
        body["tool_choice"] = json!({ "type": word });
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = temperature.clamp(0.0, 1.0).into();
    }
    if !request.stop_sequences.is_empty() {
        body["stop_sequences"] = request.stop_sequences.clone().into();
    }
    if let Some(schema) = request.answer_schema.as_ref().and_then(schema::answer::for_anthropic) {
        body["output_config"] = json!({ "format": { "type": "json_schema", "schema": schema } });
    }
    wire::with_list(&body, "messages", &messages(settings, request))
}

fn messages(settings: &WireSettings, request: &ModelRequest) -> Vec<Raw> {
    // Turns alternate: messages of one side that follow each other are one turn. Results come first in theirs.
    let mut turns: Vec<(&str, Vec<Raw>)> = Vec::new();
    let ids = CallIds::of(Vendor::Anthropic, settings, &request.messages);
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
    if let Some(last) = turns.last_mut().and_then(|(_, blocks)| blocks.last_mut()) {
        mark_cached(last);
    }
    let message = |(role, blocks): (&str, Vec<Raw>)| {
        splice::object([("content", &splice::array(&blocks)), ("role", &Raw::of(role))])
    };
    turns.into_iter().map(message).collect()
}

fn mark_cached(block: &mut Raw) {
    let kind = block.get("type");
    let is_thinking = kind.as_ref().and_then(Raw::as_str).is_some_and(|kind| kind.ends_with("thinking"));
    if !is_thinking {
        *block = splice::edited(block, &[Edit::Set("cache_control", Raw::of(&json!({ "type": "ephemeral" })))]);
    }
}

fn assistant_blocks(settings: &WireSettings, ids: &CallIds<'_>, message: &Message) -> Vec<Raw> {
    if let Some(items) = message.raw_for(Vendor::Anthropic, &settings.model) {
        return items.to_vec();
    }
    let blocks = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } if !text.trim().is_empty() => Some(Raw::of(&json!({ "type": "text", "text": text }))),
        Part::ToolCall(call) => {
            let id = Raw::of(&*ids.on_wire(&call.id));
            let (name, input) = (Raw::of(&call.name), arguments_object(&call.arguments));
            Some(splice::object([("id", &id), ("input", &input), ("name", &name), ("type", &Raw::of("tool_use"))]))
        }
        _ => None,
    });
    blocks.collect()
}

/// Blank text is refused by the API.
fn user_block(ids: &CallIds<'_>, part: &Part) -> Option<Raw> {
    let block = match part {
        Part::Text { text } => (!text.trim().is_empty()).then(|| json!({ "type": "text", "text": text })),
        Part::Image(image) => Some(image_block(image)),
        Part::ToolResult(result) => Some(result_block(ids, result)),
        Part::Audio(audio) => Some(json!({ "type": "text", "text": audio.left_out() })),
        Part::Reasoning { .. } | Part::ToolCall(_) => None,
    };
    block.as_ref().map(Raw::of)
}

fn result_block(ids: &CallIds<'_>, result: &ToolResult) -> Value {
    let content = result.content.iter().filter_map(|part| match part {
        ResultPart::Text { text } => (!text.trim().is_empty()).then(|| json!({ "type": "text", "text": text })),
        ResultPart::Image(image) => Some(image_block(image)),
        ResultPart::Audio(audio) => Some(json!({ "type": "text", "text": audio.left_out() })),
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
    /// The block as it began.
    start: Raw,
    /// Its type.
    kind: String,
    /// Members that grow while the block is streamed, as far as they have.
    grown: BTreeMap<&'static str, String>,
    /// Position of its call, if it is one.
    call: Option<usize>,
    /// JSON text of a call's input.
    input: String,
}

impl Block {
    fn of(start: Raw, call: Option<usize>) -> Self {
        let kind = start.get("type").as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned();
        Self { start, kind, grown: BTreeMap::new(), call, input: String::new() }
    }

    /// A text member as it is so far.
    fn member(&self, key: &'static str) -> String {
        let begun = || self.start.get(key).as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned();
        self.grown.get(key).cloned().unwrap_or_else(begun)
    }

    fn append(&mut self, key: &'static str, delta: &str) {
        if !self.grown.contains_key(key) {
            let begun = self.member(key);
            self.grown.insert(key, begun);
        }
        if let Some(text) = self.grown.get_mut(key) {
            text.push_str(delta);
        }
    }

    /// The block as it is sent back. Nothing but the members that were streamed differs from what the vendor sent.
    fn finish(self) -> Raw {
        let mut edits: Vec<Edit<'_>> = self.grown.iter().map(|(key, text)| Edit::Set(key, Raw::of(text))).collect();
        if !self.input.is_empty() {
            let input = Raw::parse(self.input).ok().filter(raw_json::is_object);
            edits.push(Edit::Set("input", input.unwrap_or_else(Raw::empty_object)));
        }
        splice::edited(&self.start, &edits)
    }
}

impl AnthropicDecoder {
    pub(crate) fn new(model: String) -> Self {
        let (answer, usage) = (AnswerBuilder::default(), Usage::default());
        Self { model, answer, blocks: BTreeMap::new(), usage, reason: None }
    }

    fn start_block(&mut self, event: &Value, whole: &Raw) -> Vec<ModelEvent> {
        let start = whole.get("content_block").filter(raw_json::is_object).unwrap_or_else(Raw::empty_object);
        let raw = &event["content_block"];
        let mut events = Vec::new();
        let mut call = None;
        match text(raw, "type") {
            "tool_use" => {
                let (index, event) = self.answer.start_call(text(raw, "id"), text(raw, "name"));
                call = Some(index);
                events.push(event);
            }
            "text" if raw["text"] != "" => events.push(self.answer.text(text(raw, "text"))),
            "thinking" if raw["thinking"] != "" => events.push(self.answer.reasoning(text(raw, "thinking"))),
            _ => {}
        }
        let index = event["index"].as_u64().unwrap_or_default();
        self.blocks.insert(index, Block::of(start, call));
        events
    }

    fn delta(&mut self, event: &Value) -> Option<ModelEvent> {
        let block = self.blocks.get_mut(&event["index"].as_u64()?)?;
        let delta = &event["delta"];
        match text(delta, "type") {
            "text_delta" => {
                block.append("text", text(delta, "text"));
                Some(self.answer.text(text(delta, "text")))
            }
            "thinking_delta" => {
                block.append("thinking", text(delta, "thinking"));
                Some(self.answer.reasoning(text(delta, "thinking")))
            }
            "signature_delta" => {
                block.append("signature", text(delta, "signature"));
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
        let block = self.blocks.get(&event["index"].as_u64()?)?;
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
        let unsigned = |block: &Block| block.kind == "thinking" && block.member("signature").is_empty();
        if is_cut && self.blocks.last_key_value().is_some_and(|(_, block)| unsigned(block)) {
            self.blocks.pop_last();
        }
        // An empty text block is refused when it is sent back.
        let is_empty = |block: &Block| block.kind == "text" && block.member("text").trim().is_empty();
        let blocks = std::mem::take(&mut self.blocks).into_values().filter(|block| !is_empty(block));
        let items = blocks.map(Block::finish).collect();
        let raw = RawItems { vendor: Vendor::Anthropic, model: self.model.clone(), items };
        events.push(ModelEvent::End { reason, message: self.answer.finish(raw) });
        Ok(events)
    }
}

impl Decoder for AnthropicDecoder {
    fn push(&mut self, event: &SseEvent) -> Result<Vec<ModelEvent>, ModelErrorKindWithMessage> {
        let source = event;
        let event = wire::json(source)?;
        match text(&event, "type") {
            "message_start" => Ok(self.read_usage(&event["message"]["usage"]).into_iter().collect()),
            "content_block_start" => Ok(self.start_block(&event, &wire::raw(source)?)),
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

fn stop_reason(word: &str) -> StopReason {
    match word {
        "end_turn" | "stop_sequence" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refused,
        other => StopReason::Other(other.to_owned()),
    }
}
