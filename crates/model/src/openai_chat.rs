//! The wire format OpenAI Chat Completions, also of Ollama, vLLM, llama.cpp, LM Studio, OpenRouter and others.
//!
//! Compatible servers disagree about tool-call deltas: the index may be missing, constant or have gaps, and the id may
//! come with every delta, once, or never. [`ChatDecoder::call_of`] decides which call a delta belongs to.

use serde_json::{Value, json};
use toolway_wire::sse::SseEvent;

use crate::{
    Message, ModelEvent, ModelRequest, Part, RawItems, ResultPart, Role, StopReason, Usage, Wire,
    answer::{AnswerBuilder, arguments_text},
    openai::{ERROR_PREFIX, data_url, joined_text},
    wire::{self, Decoder, ModelErrorKindWithMessage, WireSettings, text},
};

/// The request as JSON.
pub(crate) fn encode(settings: &WireSettings, request: &ModelRequest) -> Value {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    messages.extend(request.messages.iter().flat_map(|message| encode_message(settings, message)));
    let mut body = json!({
        "model": settings.model,
        "messages": messages,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if let Some(limit) = request.max_tokens.or(settings.max_tokens) {
        body["max_tokens"] = limit.into();
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let (name, description, parameters) = (&tool.name, &tool.description, &tool.input_schema);
            let function = json!({ "name": name, "description": description, "parameters": parameters });
            json!({ "type": "function", "function": function })
        });
        body["tools"] = tools.collect();
    }
    if let Some(schema) = &request.answer_schema {
        let schema = json!({ "name": "answer", "schema": schema });
        body["response_format"] = json!({ "type": "json_schema", "json_schema": schema });
    }
    body
}

fn encode_message(settings: &WireSettings, message: &Message) -> Vec<Value> {
    match message.role {
        Role::Assistant => {
            let raw = message.raw_for(Wire::OpenaiChat, &settings.model);
            raw.map_or_else(|| vec![assistant(message, None)], <[Value]>::to_vec)
        }
        Role::User => vec![json!({ "role": "user", "content": user_content(&message.parts) })],
        Role::Tool => results(message),
    }
}

/// The neutral form of an assistant's message on this wire.
fn assistant(message: &Message, reasoning_details: Option<Value>) -> Value {
    let calls: Vec<Value> = message
        .tool_calls()
        .map(|call| {
            let function = json!({ "name": call.name, "arguments": arguments_text(&call.arguments) });
            json!({ "id": call.id, "type": "function", "function": function })
        })
        .collect();
    let text = message.text();
    let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { text.into() };
    let mut encoded = json!({ "role": "assistant", "content": content });
    if !calls.is_empty() {
        encoded["tool_calls"] = calls.into();
    }
    if let Some(details) = reasoning_details {
        encoded["reasoning_details"] = details;
    }
    encoded
}

/// A tool message has text only; images follow in one message of the user, after all results.
fn results(message: &Message) -> Vec<Value> {
    let (mut messages, mut images) = (Vec::new(), Vec::new());
    for part in &message.parts {
        let Part::ToolResult(result) = part else { continue };
        let mut content = joined_text(result);
        for image in result.content.iter().filter_map(|part| match part {
            ResultPart::Image(image) => Some(image),
            ResultPart::Text { .. } => None,
        }) {
            images.push(json!({ "type": "text", "text": format!("Image of the result of `{}`:", result.name) }));
            images.push(json!({ "type": "image_url", "image_url": { "url": data_url(image) } }));
            content.push_str(if content.is_empty() { "[image below]" } else { "\n[image below]" });
        }
        let prefix = if result.is_error { ERROR_PREFIX } else { "" };
        let content = format!("{prefix}{content}");
        messages.push(json!({ "role": "tool", "tool_call_id": result.call_id, "content": content }));
    }
    if !images.is_empty() {
        messages.push(json!({ "role": "user", "content": images }));
    }
    messages
}

/// Text alone as a string, which every compatible server takes.
fn user_content(parts: &[Part]) -> Value {
    let contents = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(json!({ "type": "text", "text": text })),
        Part::Image(image) => Some(json!({ "type": "image_url", "image_url": { "url": data_url(image) } })),
        _ => None,
    });
    let contents: Vec<Value> = contents.collect();
    match contents.as_slice() {
        [only] if only["type"] == "text" => only["text"].clone(),
        _ => contents.into(),
    }
}

/// Decodes the stream of one answer.
pub(crate) struct ChatDecoder {
    model: String,
    answer: AnswerBuilder,
    calls: Vec<OpenCall>,
    reasoning_details: Vec<Value>,
    reason: Option<StopReason>,
}

/// What identifies a call in later deltas.
struct OpenCall {
    id: String,
    wire_index: Option<u64>,
}

impl ChatDecoder {
    pub(crate) fn new(model: String) -> Self {
        let (calls, reasoning_details) = (Vec::new(), Vec::new());
        Self { model, answer: AnswerBuilder::default(), calls, reasoning_details, reason: None }
    }

    fn delta(&mut self, delta: &Value) -> Vec<ModelEvent> {
        let mut events = Vec::new();
        for key in ["reasoning_content", "reasoning"] {
            if let Some(piece) = delta[key].as_str().filter(|piece| !piece.is_empty()) {
                events.push(self.answer.reasoning(piece));
                break;
            }
        }
        self.reasoning_details.extend(delta["reasoning_details"].as_array().into_iter().flatten().cloned());
        for key in ["content", "refusal"] {
            if let Some(piece) = delta[key].as_str().filter(|piece| !piece.is_empty()) {
                events.push(self.answer.text(piece));
            }
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            events.extend(self.call_delta(call));
        }
        events
    }

    fn call_delta(&mut self, delta: &Value) -> Vec<ModelEvent> {
        let (id, name) = (text(delta, "id"), text(&delta["function"], "name"));
        let wire_index = delta["index"].as_u64();
        let mut events = Vec::new();
        let index = match self.call_of(id, name, wire_index) {
            Some(index) => index,
            None => {
                let (index, start) = self.answer.start_call(id, name);
                self.calls.push(OpenCall { id: id.to_owned(), wire_index });
                events.push(start);
                index
            }
        };
        let arguments = match &delta["function"]["arguments"] {
            Value::String(piece) => piece.clone(),
            // Some servers send an object instead of its text.
            object @ Value::Object(_) => object.to_string(),
            _ => String::new(),
        };
        if !arguments.is_empty() {
            events.extend(self.answer.arguments(index, &arguments));
        }
        events
    }

    /// The call that a delta continues; `None` if it begins a new one.
    fn call_of(&mut self, id: &str, name: &str, wire_index: Option<u64>) -> Option<usize> {
        if !id.is_empty() {
            // A new id is a new call, whatever its index; a call whose id was not known yet gets it.
            return self.calls.iter().position(|call| call.id == id).or_else(|| {
                let unnamed =
                    |call: &OpenCall| call.id.is_empty() && wire_index.is_some() && call.wire_index == wire_index;
                let found = self.calls.iter().rposition(unnamed).filter(|_| name.is_empty())?;
                id.clone_into(&mut self.calls[found].id);
                Some(found)
            });
        }
        let found = match wire_index {
            Some(_) => self.calls.iter().rposition(|call| call.wire_index == wire_index),
            None => self.calls.len().checked_sub(1),
        };
        // Without an id, a name after complete arguments begins the next call.
        let complete = |index: usize, answer: &mut AnswerBuilder| {
            serde_json::from_str::<Value>(answer.arguments_of(index)).is_ok_and(|value| value.is_object())
        };
        match found {
            Some(index) if !name.is_empty() && complete(index, &mut self.answer) => None,
            Some(index) => Some(index),
            // A piece of arguments with an index of its own belongs to the last call.
            None if name.is_empty() => self.calls.len().checked_sub(1),
            None => None,
        }
    }

    fn end(&mut self) -> Option<Vec<ModelEvent>> {
        let reason = self.reason.take()?;
        let reason =
            if reason == StopReason::EndTurn && self.answer.has_calls() { StopReason::ToolCalls } else { reason };
        let mut events = self.answer.end_calls();
        let raw = RawItems { wire: Wire::OpenaiChat, model: self.model.clone(), items: Vec::new() };
        let mut message = self.answer.finish(raw);
        let details = std::mem::take(&mut self.reasoning_details);
        let item = assistant(&message, (!details.is_empty()).then(|| details.into()));
        if let Some(raw) = &mut message.raw {
            raw.items.push(item);
        }
        events.push(ModelEvent::End { reason, message });
        Some(events)
    }
}

impl Decoder for ChatDecoder {
    fn push(&mut self, event: &SseEvent) -> Result<Vec<ModelEvent>, ModelErrorKindWithMessage> {
        if event.data.as_ref() == b"[DONE]" {
            return Ok(self.end().unwrap_or_default());
        }
        let event = wire::json(event)?;
        if event["error"].is_object() || event["error"].is_string() {
            return Err(failure(&event["error"]));
        }
        let mut events = usage(&event["usage"]).map(ModelEvent::Usage).into_iter().collect::<Vec<_>>();
        let choice = &event["choices"][0];
        events.extend(self.delta(&choice["delta"]));
        if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
            self.reason = Some(stop_reason(reason));
        }
        Ok(events)
    }

    /// Some servers close the stream without `[DONE]`.
    fn finish(&mut self) -> Option<Vec<ModelEvent>> {
        self.end()
    }
}

fn failure(error: &Value) -> ModelErrorKindWithMessage {
    let code = error["code"].as_str().or(error["type"].as_str());
    let status = error["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
    let message = error["message"].as_str().or(error.as_str()).unwrap_or_default();
    let kind = match status {
        429 => crate::ModelErrorKind::RateLimited,
        500.. => crate::ModelErrorKind::Unavailable { status },
        _ => wire::kind_of_word(code.unwrap_or(message), status),
    };
    (kind, Some(message.to_owned()))
}

fn stop_reason(word: &str) -> StopReason {
    match word {
        "stop" => StopReason::EndTurn,
        "tool_calls" | "function_call" => StopReason::ToolCalls,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refused,
        other => StopReason::Other(other.to_owned()),
    }
}

fn usage(usage: &Value) -> Option<Usage> {
    let figure = |value: &Value| value.as_u64().unwrap_or_default();
    usage.is_object().then(|| Usage {
        input_tokens: figure(&usage["prompt_tokens"]),
        output_tokens: figure(&usage["completion_tokens"]),
        cached_tokens: figure(&usage["prompt_tokens_details"]["cached_tokens"]),
        cache_write_tokens: 0,
        reasoning_tokens: figure(&usage["completion_tokens_details"]["reasoning_tokens"]),
    })
}
