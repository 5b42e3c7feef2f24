//! The wire format OpenAI Chat Completions, also of Ollama, vLLM, llama.cpp, LM Studio, OpenRouter and others.
//!
//! Compatible servers disagree about tool-call deltas: the index may be missing, constant or have gaps, and the id may
//! come with every delta, once, or never. [`ChatDecoder::call_of`] decides which call a delta belongs to.

use std::borrow::Cow;

use serde_json::{Value, json};
use toolway_wire::sse::SseEvent;

use crate::{
    Message, ModelEvent, ModelRequest, Part, RawItems, ResultPart, Role, StopReason, Usage, Wire,
    answer::{AnswerBuilder, arguments_text},
    openai::{ERROR_PREFIX, data_url, joined_text},
    wire::{self, CallIds, Decoder, ModelErrorKindWithMessage, WireSettings, text},
};

/// The request as JSON.
pub(crate) fn encode(settings: &WireSettings, request: &ModelRequest) -> Value {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    let ids = CallIds::of(Wire::OpenaiChat, settings, &request.messages);
    messages.extend(request.messages.iter().flat_map(|message| encode_message(settings, &ids, message)));
    let mut body = json!({
        "model": settings.model,
        "messages": messages,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if let Some(limit) = request.max_tokens.or(settings.max_tokens) {
        // Compatible servers know the old name only, OpenAI's reasoning models the new one only.
        body[if settings.at_openai { "max_completion_tokens" } else { "max_tokens" }] = limit.into();
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let (name, description, parameters) = (&tool.name, &tool.description, &tool.input_schema);
            let function = json!({ "name": name, "description": description, "parameters": parameters });
            json!({ "type": "function", "function": function })
        });
        body["tools"] = tools.collect();
    }
    // Compatible servers hold every answer to the schema, also those that should be tool calls.
    let may_send = settings.at_openai || request.tools.is_empty();
    if let Some(schema) = request.answer_schema.as_ref().filter(|_| may_send) {
        let schema = json!({ "name": "answer", "schema": schema });
        body["response_format"] = json!({ "type": "json_schema", "json_schema": schema });
    }
    body
}

fn encode_message(settings: &WireSettings, ids: &CallIds<'_>, message: &Message) -> Vec<Value> {
    match message.role {
        Role::Assistant => {
            let raw = message.raw_for(Wire::OpenaiChat, &settings.model);
            raw.map_or_else(|| vec![assistant(message, |id| ids.on_wire(id))], <[Value]>::to_vec)
        }
        Role::User => {
            let content = user_content(&message.parts);
            content.map(|content| json!({ "role": "user", "content": content })).into_iter().collect()
        }
        Role::Tool => results(ids, message),
    }
}

/// The neutral form of an assistant's message on this wire.
fn assistant<'a>(message: &'a Message, id_on_wire: impl Fn(&'a str) -> Cow<'a, str>) -> Value {
    let calls: Vec<Value> = message
        .tool_calls()
        .map(|call| {
            let function = json!({ "name": call.name, "arguments": arguments_text(&call.arguments) });
            json!({ "id": id_on_wire(&call.id), "type": "function", "function": function })
        })
        .collect();
    let text = message.text();
    let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { text.into() };
    let mut encoded = json!({ "role": "assistant", "content": content });
    if !calls.is_empty() {
        encoded["tool_calls"] = calls.into();
    }
    encoded
}

/// A tool message has text only; images follow in one message of the user, after all results.
fn results(ids: &CallIds<'_>, message: &Message) -> Vec<Value> {
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
        let id = ids.on_wire(&result.call_id);
        messages.push(json!({ "role": "tool", "tool_call_id": id, "content": content }));
    }
    if !images.is_empty() {
        messages.push(json!({ "role": "user", "content": images }));
    }
    messages
}

/// Text alone as a string, which every compatible server takes; `None` if there is nothing to send.
fn user_content(parts: &[Part]) -> Option<Value> {
    let contents = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(json!({ "type": "text", "text": text })),
        Part::Image(image) => Some(json!({ "type": "image_url", "image_url": { "url": data_url(image) } })),
        _ => None,
    });
    let contents: Vec<Value> = contents.collect();
    match contents.as_slice() {
        [] => None,
        [only] if only["type"] == "text" => Some(only["text"].clone()),
        _ => Some(contents.into()),
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

/// A call of the stream.
struct OpenCall {
    id: String,
    name: String,
    wire_index: Option<u64>,
    /// Arguments that came before the name.
    early: String,
    /// Position among the calls of the answer, once the name is known.
    index: Option<usize>,
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
        let at = self.call_of(id, name, wire_index).unwrap_or_else(|| {
            let (id, name) = (id.to_owned(), String::new());
            self.calls.push(OpenCall { id, name, wire_index, early: String::new(), index: None });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        match &delta["function"]["arguments"] {
            Value::String(piece) => call.early.push_str(piece),
            // Some servers send an object instead of its text.
            object @ Value::Object(_) => call.early.push_str(&object.to_string()),
            _ => {}
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        if call.name.is_empty() { Vec::new() } else { Self::announce(call, &mut self.answer) }
    }

    /// The events of what is known of a call and was not reported yet.
    fn announce(call: &mut OpenCall, answer: &mut AnswerBuilder) -> Vec<ModelEvent> {
        let mut events = Vec::new();
        let index = *call.index.get_or_insert_with(|| {
            let (index, start) = answer.start_call(&call.id, &call.name);
            events.push(start);
            index
        });
        let arguments = std::mem::take(&mut call.early);
        if !arguments.is_empty() {
            events.extend(answer.arguments(index, &arguments));
        }
        events
    }

    /// The call that a delta continues; `None` if it begins a new one. Only a delta with an id or a name begins one.
    fn call_of(&mut self, id: &str, name: &str, wire_index: Option<u64>) -> Option<usize> {
        let last = self.calls.len().checked_sub(1);
        if let Some(known) = self.calls.iter().position(|call| !id.is_empty() && call.id == id) {
            return Some(known);
        }
        let same_index = self.calls.iter().rposition(|call| wire_index.is_some() && call.wire_index == wire_index);
        if !id.is_empty() {
            // A new id with a name is a new call, whatever its index. Without a name it continues the call of its index,
            // unless that call is complete.
            let continued = same_index.filter(|at| name.is_empty() && !self.is_complete(*at));
            return continued
                .or_else(|| same_index.filter(|at| self.calls[*at].id.is_empty() && self.calls[*at].name == name));
        }
        let found = if wire_index.is_some() { same_index } else { last };
        match found {
            // A call that waits for its name.
            Some(at) if self.calls[at].name.is_empty() => Some(at),
            // Without an id, another name begins the next call, and so does the same one after complete arguments.
            Some(at) if !name.is_empty() && (self.calls[at].name != name || self.is_complete(at)) => None,
            Some(at) => Some(at),
            // A piece of arguments with an index of its own belongs to the last call.
            None if name.is_empty() => last,
            None => None,
        }
    }

    /// Whether the arguments of a call are complete.
    fn is_complete(&mut self, at: usize) -> bool {
        let Some(index) = self.calls[at].index else { return false };
        serde_json::from_str::<Value>(self.answer.arguments_of(index)).is_ok_and(|value| value.is_object())
    }

    fn end(&mut self) -> Option<Vec<ModelEvent>> {
        let reason = self.reason.take()?;
        // A call whose name never came is reported, so that the model learns of it.
        let nameless = self.calls.iter_mut().filter(|call| call.index.is_none());
        let mut events: Vec<ModelEvent> = nameless.flat_map(|call| Self::announce(call, &mut self.answer)).collect();
        let reason =
            if reason == StopReason::EndTurn && self.answer.has_calls() { StopReason::ToolCalls } else { reason };
        events.extend(self.answer.end_calls());
        let raw = RawItems { wire: Wire::OpenaiChat, model: self.model.clone(), items: Vec::new() };
        let mut message = self.answer.finish(raw);
        let mut item = assistant(&message, Cow::Borrowed);
        let details = std::mem::take(&mut self.reasoning_details);
        if !details.is_empty() {
            item["reasoning_details"] = details.into();
        }
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
        // vLLM.
        if event["object"] == "error" {
            return Err(failure(&event));
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
