//! The wire format OpenAI Responses.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::{Value, json};
use toolway_wire::{json::Raw, sse::SseEvent};

use crate::{
    Image, Message, ModelEvent, ModelRequest, Part, RawItems, ResultPart, Role, StopReason, ToolChoice, ToolResult,
    Usage, Vendor,
    answer::{AnswerBuilder, arguments_text},
    wire::{self, CallIds, Decoder, ModelErrorKindWithMessage, WireSettings, text},
};

/// The wire has no flag for failed calls; this stands before the text of one.
pub(crate) const ERROR_PREFIX: &str = "Error: ";

/// The request as JSON. Nothing is stored at the vendor; reasoning comes back encrypted and is sent again, with the ids
/// and states of its items: servers require both of reasoning and of messages with output text.
pub(crate) fn encode(settings: &WireSettings, request: &ModelRequest) -> Raw {
    let ids = CallIds::of(Vendor::Openai, settings, &request.messages);
    let mut body = json!({
        "model": settings.model,
        "input": [],
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
    if let Some(choice) = request.tool_choice.filter(|_| !request.tools.is_empty()) {
        body["tool_choice"] = tool_choice(choice).into();
    }
    // The API has no stop sequences.
    if let Some(temperature) = request.temperature.filter(|_| takes_temperature(&settings.model)) {
        body["temperature"] = temperature.clamp(0.0, 2.0).into();
    }
    if let Some(schema) = &request.answer_schema {
        body["text"] =
            json!({ "format": { "type": "json_schema", "name": "answer", "schema": schema, "strict": false } });
    }
    let input: Vec<Raw> = request.messages.iter().flat_map(|message| items(settings, &ids, message)).collect();
    wire::with_list(&body, "input", &input)
}

/// The word of both OpenAI wires.
pub(crate) fn tool_choice(choice: ToolChoice) -> &'static str {
    match choice {
        ToolChoice::Auto => "auto",
        ToolChoice::Required => "required",
        ToolChoice::Never => "none",
    }
}

/// Reasoning models of OpenAI refuse a temperature.
pub(crate) fn takes_temperature(model: &str) -> bool {
    let mut letters = model.chars();
    let is_numbered_o = letters.next() == Some('o') && letters.next().is_some_and(|letter| letter.is_ascii_digit());
    !is_numbered_o && !model.starts_with("gpt-5")
}

fn items(settings: &WireSettings, ids: &CallIds<'_>, message: &Message) -> Vec<Raw> {
    if let (Role::Assistant, Some(items)) = (message.role, message.raw_for(Vendor::Openai, &settings.model)) {
        return items.to_vec();
    }
    neutral_items(ids, message).iter().map(Raw::of).collect()
}

fn neutral_items(ids: &CallIds<'_>, message: &Message) -> Vec<Value> {
    match message.role {
        Role::Assistant => message.parts.iter().filter_map(|part| assistant_item(ids, part)).collect(),
        Role::Tool => message.parts.iter().filter_map(|part| result_item(ids, part)).collect(),
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

fn assistant_item(ids: &CallIds<'_>, part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } if !text.is_empty() => {
            // A list of output text would need an id of the vendor.
            Some(json!({ "type": "message", "role": "assistant", "content": text }))
        }
        Part::ToolCall(call) => {
            let (id, arguments) = (ids.on_wire(&call.id), arguments_text(&call.arguments));
            Some(json!({ "type": "function_call", "call_id": id, "name": call.name, "arguments": arguments }))
        }
        _ => None,
    }
}

fn result_item(ids: &CallIds<'_>, part: &Part) -> Option<Value> {
    let Part::ToolResult(result) = part else { return None };
    let id = ids.on_wire(&result.call_id);
    Some(json!({ "type": "function_call_output", "call_id": id, "output": output(result) }))
}

/// A text alone as a string, which every compatible server takes; images as a list of parts.
fn output(result: &ToolResult) -> Value {
    let prefix = if result.is_error { ERROR_PREFIX } else { "" };
    if !result.content.iter().any(|part| matches!(part, ResultPart::Image(_))) {
        return format!("{prefix}{}", joined_text(result, Sounds::LeftOut)).into();
    }
    let mut parts: Vec<Value> = result.content.iter().map(result_content).collect();
    if result.is_error {
        parts.insert(0, json!({ "type": "input_text", "text": ERROR_PREFIX.trim() }));
    }
    parts.into()
}

/// Whether the sounds of a result are sent beside its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sounds {
    Sent,
    /// The model takes none: a text stands in for each.
    LeftOut,
}

/// The text parts of a result, a line break between two.
pub(crate) fn joined_text(result: &ToolResult, sounds: Sounds) -> String {
    let texts = result.content.iter().filter_map(|part| match part {
        ResultPart::Text { text } => Some(Cow::Borrowed(text.as_str())),
        ResultPart::Audio(audio) if sounds == Sounds::LeftOut => Some(Cow::Owned(audio.left_out())),
        ResultPart::Image(_) | ResultPart::Audio(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn result_content(part: &ResultPart) -> Value {
    match part {
        ResultPart::Text { text } => json!({ "type": "input_text", "text": text }),
        ResultPart::Image(image) => json!({ "type": "input_image", "image_url": data_url(image) }),
        ResultPart::Audio(audio) => json!({ "type": "input_text", "text": audio.left_out() }),
    }
}

fn user_content(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } => Some(json!({ "type": "input_text", "text": text })),
        Part::Image(image) => Some(json!({ "type": "input_image", "image_url": data_url(image) })),
        Part::Audio(audio) => Some(json!({ "type": "input_text", "text": audio.left_out() })),
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
    /// Ids of items without an `output_index`, which compatible servers leave out.
    ids: Vec<String>,
    /// Positions of calls by item.
    calls: BTreeMap<u64, usize>,
    /// Items whose text was streamed.
    spoken: BTreeSet<u64>,
    /// Complete items.
    items: BTreeMap<u64, Raw>,
    refused: bool,
}

impl ResponsesDecoder {
    pub(crate) fn new(model: String) -> Self {
        let (ids, calls, spoken, items) = (Vec::new(), BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { model, answer: AnswerBuilder::default(), ids, calls, spoken, items, refused: false }
    }

    /// The item that an event is about: its `output_index`, else a number for its id.
    fn item_of(&mut self, event: &Value) -> u64 {
        if let Some(index) = event["output_index"].as_u64() {
            return index;
        }
        let id = event["item_id"].as_str().unwrap_or(text(&event["item"], "id"));
        let position = self.ids.iter().position(|known| known == id).unwrap_or_else(|| {
            self.ids.push(id.to_owned());
            self.ids.len() - 1
        });
        (1 << 32) + position as u64
    }

    fn speak(&mut self, event: &Value) -> Vec<ModelEvent> {
        let item = self.item_of(event);
        self.spoken.insert(item);
        vec![self.answer.text(text(event, "delta"))]
    }

    fn add_call(&mut self, at: u64, item: &Value) -> Vec<ModelEvent> {
        let (index, start) = self.answer.start_call(text(item, "call_id"), text(item, "name"));
        self.calls.insert(at, index);
        let arguments = text(item, "arguments");
        let arguments = (!arguments.is_empty()).then(|| self.answer.arguments(index, arguments)).flatten();
        [start].into_iter().chain(arguments).collect()
    }

    /// A server may send an item only when it is complete.
    fn finish_item(&mut self, at: u64, item: &Value, raw: Raw) -> Vec<ModelEvent> {
        let mut events = Vec::new();
        match text(item, "type") {
            "function_call" => {
                if !self.calls.contains_key(&at) {
                    events.extend(self.add_call(at, item));
                }
                if let Some(index) = self.calls.get(&at).copied() {
                    let arguments = text(item, "arguments");
                    if self.answer.arguments_of(index).is_empty() && !arguments.is_empty() {
                        events.extend(self.answer.arguments(index, arguments));
                    }
                    events.extend(self.answer.end_call(index));
                }
            }
            "message" if !self.spoken.contains(&at) => {
                let parts = item["content"].as_array().into_iter().flatten();
                let texts = parts.filter_map(|part| part["text"].as_str()).filter(|text| !text.is_empty());
                events.extend(texts.map(|text| self.answer.text(text)));
            }
            _ => {}
        }
        self.items.insert(at, raw);
        events
    }

    /// Items that were not streamed are in the last event.
    fn finish_response(&mut self, response: &Value, whole: &Raw) -> Vec<ModelEvent> {
        let output = response["output"].as_array().map_or(&[][..], Vec::as_slice);
        let raw = whole.get("response").and_then(|response| response.get("output"));
        let raw = raw.map(|output| output.elements()).unwrap_or_default();
        let output = output.iter().zip(raw);
        if self.items.is_empty() {
            return (0..).zip(output).flat_map(|(at, (item, raw))| self.finish_item(at, item, raw)).collect();
        }
        let is_missing = |answer: &AnswerBuilder, item: &Value| {
            item["type"] == "function_call"
                && !text(item, "call_id").is_empty()
                && !answer.has_call(text(item, "call_id"))
        };
        let mut events = Vec::new();
        for (at, (item, raw)) in (0..).zip(output) {
            if is_missing(&self.answer, item) {
                events.extend(self.finish_item((2 << 32) + at, item, raw));
            }
        }
        events
    }

    fn end(&mut self, response: &Value, whole: &Raw, reason: Option<StopReason>) -> Vec<ModelEvent> {
        let mut events = self.finish_response(response, whole);
        events.extend(self.answer.end_calls());
        events.extend(usage(&response["usage"]).map(ModelEvent::Usage));
        let reason = reason.unwrap_or(match (self.refused, self.answer.has_calls()) {
            (true, _) => StopReason::Refused,
            (false, true) => StopReason::ToolCalls,
            (false, false) => StopReason::EndTurn,
        });
        // A call that was cut off is not among the items: then the message is rebuilt from its parts.
        let is_whole = self.calls.keys().all(|at| self.items.contains_key(at));
        let items = std::mem::take(&mut self.items).into_values().collect();
        let mut message = self.answer.finish(RawItems { vendor: Vendor::Openai, model: self.model.clone(), items });
        message.raw = message.raw.filter(|_| is_whole);
        events.push(ModelEvent::End { reason, message });
        events
    }
}

impl Decoder for ResponsesDecoder {
    fn push(&mut self, event: &SseEvent) -> Result<Vec<ModelEvent>, ModelErrorKindWithMessage> {
        if event.data.as_ref() == b"[DONE]" {
            return Ok(Vec::new());
        }
        let source = event;
        let event = wire::json(source)?;
        match text(&event, "type") {
            "response.output_item.added" if event["item"]["type"] == "function_call" => {
                let at = self.item_of(&event);
                Ok(self.add_call(at, &event["item"]))
            }
            "response.output_item.done" => {
                let at = self.item_of(&event);
                let raw = wire::raw(source)?.get("item").unwrap_or_else(Raw::empty_object);
                Ok(self.finish_item(at, &event["item"], raw))
            }
            "response.output_text.delta" => Ok(self.speak(&event)),
            "response.refusal.delta" => {
                self.refused = true;
                Ok(self.speak(&event))
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                Ok(vec![self.answer.reasoning(text(&event, "delta"))])
            }
            "response.function_call_arguments.delta" => {
                let at = self.item_of(&event);
                let index = self.calls.get(&at).copied();
                Ok(index.and_then(|index| self.answer.arguments(index, text(&event, "delta"))).into_iter().collect())
            }
            "response.completed" => Ok(self.end(&event["response"], &wire::raw(source)?, None)),
            "response.incomplete" => {
                let word = text(&event["response"]["incomplete_details"], "reason");
                Ok(self.end(&event["response"], &wire::raw(source)?, Some(incomplete(word))))
            }
            "response.failed" => Err(failure(&event["response"]["error"])),
            "error" => Err(failure(if event["error"].is_object() { &event["error"] } else { &event })),
            _ => Ok(Vec::new()),
        }
    }
}

fn incomplete(word: &str) -> StopReason {
    match word {
        "max_output_tokens" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refused,
        other => StopReason::Other(other.to_owned()),
    }
}

fn failure(error: &Value) -> ModelErrorKindWithMessage {
    let word = error["code"].as_str().or(error["type"].as_str()).filter(|word| *word != "error");
    let word = word.unwrap_or("server_error");
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
