//! The wire format OpenAI Responses.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolway_wire::sse::SseEvent;

use crate::{
    Image, Message, ModelEvent, ModelRequest, Part, RawItems, ResultPart, Role, StopReason, ToolResult, Usage, Wire,
    answer::{AnswerBuilder, arguments_text},
    wire::{self, Decoder, ModelErrorKindWithMessage, WireSettings, text},
};

/// The wire has no flag for failed calls; this stands before the text of one.
pub(crate) const ERROR_PREFIX: &str = "Error: ";

/// The request as JSON. Nothing is stored at the vendor; reasoning comes back encrypted and is sent again.
pub(crate) fn encode(settings: &WireSettings, request: &ModelRequest) -> Value {
    let mut body = json!({
        "model": settings.model,
        "input": request.messages.iter().flat_map(|message| items(settings, message)).collect::<Vec<_>>(),
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
    });
    if !request.system.is_empty() {
        body["instructions"] = request.system.clone().into();
    }
    if let Some(limit) = request.max_tokens.or(settings.max_tokens) {
        body["max_output_tokens"] = limit.into();
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let (name, description, parameters) = (&tool.name, &tool.description, &tool.input_schema);
            json!({
                "type": "function", "name": name, "description": description, "parameters": parameters, "strict": false,
            })
        });
        body["tools"] = tools.collect();
        body["parallel_tool_calls"] = true.into();
    }
    if let Some(schema) = &request.answer_schema {
        body["text"] =
            json!({ "format": { "type": "json_schema", "name": "answer", "schema": schema, "strict": false } });
    }
    body
}

fn items(settings: &WireSettings, message: &Message) -> Vec<Value> {
    match message.role {
        Role::Assistant => match message.raw_for(Wire::Openai, &settings.model) {
            Some(items) => items.iter().map(without_id).collect(),
            None => message.parts.iter().filter_map(assistant_item).collect(),
        },
        Role::Tool => message.parts.iter().filter_map(result_item).collect(),
        Role::User => {
            let content: Vec<Value> = message.parts.iter().filter_map(user_content).collect();
            if content.is_empty() {
                Vec::new()
            } else {
                vec![json!({ "type": "message", "role": "user", "content": content })]
            }
        }
    }
}

/// Ids refer to items that the vendor stores, which it does not for us.
fn without_id(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(item) = item.as_object_mut() {
        item.remove("id");
        item.remove("status");
    }
    item
}

fn assistant_item(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } if !text.is_empty() => {
            let content = json!([{ "type": "output_text", "text": text }]);
            Some(json!({ "type": "message", "role": "assistant", "content": content }))
        }
        Part::ToolCall(call) => {
            let arguments = arguments_text(&call.arguments);
            Some(json!({ "type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments }))
        }
        _ => None,
    }
}

fn result_item(part: &Part) -> Option<Value> {
    let Part::ToolResult(result) = part else { return None };
    Some(json!({ "type": "function_call_output", "call_id": result.call_id, "output": output(result) }))
}

/// A text alone as a string, which every compatible server takes; images as a list of parts.
fn output(result: &ToolResult) -> Value {
    let prefix = if result.is_error { ERROR_PREFIX } else { "" };
    if result.content.iter().all(|part| matches!(part, ResultPart::Text { .. })) {
        return format!("{prefix}{}", joined_text(result)).into();
    }
    let mut parts: Vec<Value> = result.content.iter().map(result_content).collect();
    if result.is_error {
        parts.insert(0, json!({ "type": "input_text", "text": ERROR_PREFIX.trim() }));
    }
    parts.into()
}

/// The text parts of a result, a line break between two.
pub(crate) fn joined_text(result: &ToolResult) -> String {
    let texts = result.content.iter().filter_map(|part| match part {
        ResultPart::Text { text } => Some(text.as_str()),
        ResultPart::Image(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn result_content(part: &ResultPart) -> Value {
    match part {
        ResultPart::Text { text } => json!({ "type": "input_text", "text": text }),
        ResultPart::Image(image) => json!({ "type": "input_image", "image_url": data_url(image) }),
    }
}

fn user_content(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } => Some(json!({ "type": "input_text", "text": text })),
        Part::Image(image) => Some(json!({ "type": "input_image", "image_url": data_url(image) })),
        _ => None,
    }
}

pub(crate) fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.mime_type, image.data)
}

/// Decodes the stream of one answer.
pub(crate) struct ResponsesDecoder {
    model: String,
    answer: AnswerBuilder,
    /// Positions of calls by `output_index`.
    calls: BTreeMap<u64, usize>,
    /// Complete items by `output_index`.
    items: BTreeMap<u64, Value>,
    refused: bool,
}

impl ResponsesDecoder {
    pub(crate) fn new(model: String) -> Self {
        let (calls, items) = (BTreeMap::new(), BTreeMap::new());
        Self { model, answer: AnswerBuilder::default(), calls, items, refused: false }
    }

    fn add_item(&mut self, event: &Value) -> Vec<ModelEvent> {
        let item = &event["item"];
        if item["type"] != "function_call" {
            return Vec::new();
        }
        let (index, start) = self.answer.start_call(text(item, "call_id"), text(item, "name"));
        self.calls.insert(output_index(event), index);
        let arguments = self.answer.arguments(index, text(item, "arguments"));
        [start].into_iter().chain(arguments.filter(|_| item["arguments"] != "")).collect()
    }

    fn finish_item(&mut self, event: &Value) -> Vec<ModelEvent> {
        let (at, item) = (output_index(event), &event["item"]);
        let mut events = Vec::new();
        if item["type"] == "function_call" {
            if !self.calls.contains_key(&at) {
                events.extend(self.add_item(event));
            }
            if let Some(index) = self.calls.get(&at).copied() {
                // A server may send the arguments only here.
                if self.answer.arguments_of(index).is_empty() {
                    events.extend(self.answer.arguments(index, text(item, "arguments")));
                }
                events.extend(self.answer.end_call(index));
            }
        }
        self.items.insert(at, item.clone());
        events
    }

    fn end(&mut self, response: &Value, reason: Option<StopReason>) -> Vec<ModelEvent> {
        let mut events = self.answer.end_calls();
        events.extend(usage(&response["usage"]).map(ModelEvent::Usage));
        let reason = reason.unwrap_or(match (self.refused, self.answer.has_calls()) {
            (true, _) => StopReason::Refused,
            (false, true) => StopReason::ToolCalls,
            (false, false) => StopReason::EndTurn,
        });
        let items = std::mem::take(&mut self.items).into_values().collect();
        let raw = RawItems { wire: Wire::Openai, model: self.model.clone(), items };
        events.push(ModelEvent::End { reason, message: self.answer.finish(raw) });
        events
    }
}

impl Decoder for ResponsesDecoder {
    fn push(&mut self, event: &SseEvent) -> Result<Vec<ModelEvent>, ModelErrorKindWithMessage> {
        if event.data.as_ref() == b"[DONE]" {
            return Ok(Vec::new());
        }
        let event = wire::json(event)?;
        match text(&event, "type") {
            "response.output_item.added" => Ok(self.add_item(&event)),
            "response.output_item.done" => Ok(self.finish_item(&event)),
            "response.output_text.delta" => Ok(vec![self.answer.text(text(&event, "delta"))]),
            "response.refusal.delta" => {
                self.refused = true;
                Ok(vec![self.answer.text(text(&event, "delta"))])
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                Ok(vec![self.answer.reasoning(text(&event, "delta"))])
            }
            "response.function_call_arguments.delta" => {
                let index = self.calls.get(&output_index(&event)).copied();
                Ok(index.and_then(|index| self.answer.arguments(index, text(&event, "delta"))).into_iter().collect())
            }
            "response.completed" => Ok(self.end(&event["response"], None)),
            "response.incomplete" => {
                let word = text(&event["response"]["incomplete_details"], "reason");
                Ok(self.end(&event["response"], Some(incomplete(word))))
            }
            "response.failed" => Err(failure(&event["response"]["error"])),
            "error" => Err(failure(if event["error"].is_object() { &event["error"] } else { &event })),
            _ => Ok(Vec::new()),
        }
    }
}

fn output_index(event: &Value) -> u64 {
    event["output_index"].as_u64().unwrap_or_default()
}

fn incomplete(word: &str) -> StopReason {
    match word {
        "max_output_tokens" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refused,
        other => StopReason::Other(other.to_owned()),
    }
}

fn failure(error: &Value) -> ModelErrorKindWithMessage {
    let word = error["code"].as_str().or(error["type"].as_str()).unwrap_or("server_error");
    (wire::kind_of_word(word, 0), Some(text(error, "message").to_owned()))
}

fn usage(usage: &Value) -> Option<Usage> {
    let figure = |value: &Value| value.as_u64().unwrap_or_default();
    usage.is_object().then(|| Usage {
        input_tokens: figure(&usage["input_tokens"]),
        output_tokens: figure(&usage["output_tokens"]),
        cached_tokens: figure(&usage["input_tokens_details"]["cached_tokens"]),
        cache_write_tokens: 0,
        reasoning_tokens: figure(&usage["output_tokens_details"]["reasoning_tokens"]),
    })
}
