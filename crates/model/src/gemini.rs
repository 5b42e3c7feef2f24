//! The wire format Gemini `streamGenerateContent`.

use std::collections::HashSet;

use serde_json::{Value, json};
use toolway_wire::{
    json::{JsonKind, Raw},
    message::splice::{self, Edit},
    sse::SseEvent,
};

use crate::{
    Audio, Image, Message, ModelErrorKind, ModelEvent, ModelRequest, Part, RawItems, ResultPart, Role, StopReason,
    ToolChoice, ToolResult, Usage, Vendor,
    answer::{AnswerBuilder, arguments_object},
    openai::{Sounds, joined_text},
    schema,
    wire::{self, Decoder, ModelErrorKindWithMessage, WireSettings, text},
};

/// Gemini 3 refuses calls without a signature; this documented value stands for those that it did not make.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The request as JSON.
pub(crate) fn encode(settings: &WireSettings, request: &ModelRequest) -> Raw {
    let mut body = json!({ "contents": [] });
    if !request.system.is_empty() {
        body["systemInstruction"] = json!({ "parts": [{ "text": request.system }] });
    }
    if let Some(limit) = request.max_tokens.or(settings.max_tokens) {
        body["generationConfig"]["maxOutputTokens"] = limit.into();
    }
    if let Some(temperature) = request.temperature {
        body["generationConfig"]["temperature"] = temperature.clamp(0.0, 2.0).into();
    }
    if !request.stop_sequences.is_empty() {
        body["generationConfig"]["stopSequences"] = request.stop_sequences.clone().into();
    }
    if let Some(choice) = request.tool_choice.filter(|_| !request.tools.is_empty()) {
        let word = match choice {
            ToolChoice::Auto => "AUTO",
            ToolChoice::Required => "ANY",
            ToolChoice::Never => "NONE",
        };
        body["toolConfig"] = json!({ "functionCallingConfig": { "mode": word } });
    }
    if let Some(schema) = answer_schema(settings, request) {
        body["generationConfig"]["responseMimeType"] = "application/json".into();
        body["generationConfig"]["responseJsonSchema"] = schema;
    }
    if !request.tools.is_empty() {
        let declarations = request.tools.iter().map(|tool| {
            let (name, description, schema) = (&tool.name, &tool.description, &tool.input_schema);
            json!({ "name": name, "description": description, "parametersJsonSchema": schema })
        });
        body["tools"] = json!([{ "functionDeclarations": declarations.collect::<Vec<_>>() }]);
    }
    wire::with_list(&body, "contents", &contents(settings, request))
}

/// The schema of the answer. Models before Gemini 3 refuse it beside tools.
fn answer_schema(settings: &WireSettings, request: &ModelRequest) -> Option<Value> {
    let is_older = ["gemini-1", "gemini-2"].iter().any(|older| settings.model.contains(older));
    if is_older && !request.tools.is_empty() {
        return None;
    }
    schema::answer::for_gemini(request.answer_schema.as_ref()?)
}

fn contents(settings: &WireSettings, request: &ModelRequest) -> Vec<Raw> {
    let mut contents: Vec<(&str, Vec<Raw>)> = Vec::new();
    let ids = sent_ids(settings, &request.messages);
    for message in &request.messages {
        let (role, mut parts) = match message.role {
            Role::Assistant => ("model", model_parts(settings, message)),
            Role::User | Role::Tool => {
                let parts = message.parts.iter().flat_map(|part| user_parts(&ids, part));
                ("user", parts.map(|part| Raw::of(&part)).collect())
            }
        };
        match contents.last_mut() {
            _ if parts.is_empty() => {}
            Some((last, before)) if *last == role => before.append(&mut parts),
            _ => contents.push((role, parts)),
        }
    }
    let content =
        |(role, parts): (&str, Vec<Raw>)| splice::object([("parts", &splice::array(&parts)), ("role", &Raw::of(role))]);
    contents.into_iter().map(content).collect()
}

/// Ids of calls that the vendor sent; most of its models send none.
fn sent_ids(settings: &WireSettings, messages: &[Message]) -> HashSet<String> {
    let raw = messages.iter().filter_map(|message| message.raw_for(Vendor::Gemini, &settings.model));
    let id = |part: &Raw| Some(part.get("functionCall")?.get("id")?.as_str()?.into_owned());
    raw.flatten().filter_map(id).collect()
}

fn model_parts(settings: &WireSettings, message: &Message) -> Vec<Raw> {
    if let Some(items) = message.raw_for(Vendor::Gemini, &settings.model) {
        return items.to_vec();
    }
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } if !text.is_empty() => Some(Raw::of(&json!({ "text": text }))),
        Part::ToolCall(call) => {
            let (arguments, name) = (arguments_object(&call.arguments), Raw::of(&call.name));
            let call = splice::object([("args", &arguments), ("name", &name)]);
            Some(splice::object([("functionCall", &call)]))
        }
        _ => None,
    });
    let mut parts: Vec<Raw> = parts.collect();
    let first_call = parts.iter_mut().find(|part| part.get("functionCall").is_some());
    if let (true, Some(call)) = (settings.model.contains("gemini-3"), first_call) {
        *call = splice::edited(call, &[Edit::Set("thoughtSignature", Raw::of(NO_SIGNATURE))]);
    }
    parts
}

fn user_parts(ids: &HashSet<String>, part: &Part) -> Vec<Value> {
    match part {
        Part::Text { text } if !text.is_empty() => vec![json!({ "text": text })],
        Part::Image(image) => vec![inline(image)],
        Part::Audio(audio) => vec![inline_audio(audio)],
        Part::ToolResult(result) => result_parts(ids, result),
        _ => Vec::new(),
    }
}

/// The response is an object with `result` or `error`; images and sounds follow as parts of their own. An id is sent back only if
/// the vendor sent it.
fn result_parts(ids: &HashSet<String>, result: &ToolResult) -> Vec<Value> {
    let key = if result.is_error { "error" } else { "result" };
    let mut response = json!({ "name": result.name, "response": { key: joined_text(result, Sounds::Sent) } });
    if ids.contains(result.call_id.as_str()) {
        response["id"] = result.call_id.clone().into();
    }
    let mut parts = vec![json!({ "functionResponse": response })];
    parts.extend(result.content.iter().filter_map(|part| match part {
        ResultPart::Image(image) => Some(inline(image)),
        ResultPart::Audio(audio) => Some(inline_audio(audio)),
        ResultPart::Text { .. } => None,
    }));
    parts
}

fn inline_audio(audio: &Audio) -> Value {
    json!({ "inlineData": { "mimeType": audio.mime_type, "data": audio.data } })
}

fn inline(image: &Image) -> Value {
    json!({ "inlineData": { "mimeType": image.mime_type, "data": image.data } })
}

/// Decodes the stream of one answer.
pub(crate) struct GeminiDecoder {
    model: String,
    answer: AnswerBuilder,
    parts: Vec<Kept>,
    reason: Option<StopReason>,
}

/// A part to be sent back.
enum Kept {
    /// Pieces of plain text.
    Text(String),
    /// Any other part, as the vendor wrote it.
    Part(Raw),
}

impl GeminiDecoder {
    pub(crate) fn new(model: String) -> Self {
        Self { model, answer: AnswerBuilder::default(), parts: Vec::new(), reason: None }
    }

    fn part(&mut self, part: &Value, raw: &Raw) -> Vec<ModelEvent> {
        self.keep(part, raw);
        if let Some(call) = part.get("functionCall") {
            let (index, start) = self.answer.start_call(text(call, "id"), text(call, "name"));
            let arguments = raw.get("functionCall").and_then(|call| call.get("args"));
            let arguments = arguments.filter(|args| args.kind() != JsonKind::Null).unwrap_or_else(Raw::empty_object);
            let arguments = self.answer.arguments(index, &arguments.text());
            let end = self.answer.end_call(index);
            return [Some(start), arguments, end].into_iter().flatten().collect();
        }
        match part["text"].as_str() {
            Some("") | None => Vec::new(),
            Some(piece) if part["thought"] == true => vec![self.answer.reasoning(piece)],
            Some(piece) => vec![self.answer.text(piece)],
        }
    }

    /// Keeps the part to be sent back. Pieces of plain text become one part; signatures stay where they were. An empty
    /// text is refused when it is sent back.
    fn keep(&mut self, part: &Value, raw: &Raw) {
        let is_plain =
            part.as_object().is_some_and(|part| part.len() == 1 && part.get("text").is_some_and(Value::is_string));
        if !is_plain {
            return self.parts.push(Kept::Part(raw.clone()));
        }
        let piece = text(part, "text");
        match self.parts.last_mut() {
            _ if piece.is_empty() => {}
            Some(Kept::Text(before)) => before.push_str(piece),
            _ => self.parts.push(Kept::Text(piece.to_owned())),
        }
    }
}

impl Decoder for GeminiDecoder {
    fn push(&mut self, event: &SseEvent) -> Result<Vec<ModelEvent>, ModelErrorKindWithMessage> {
        let source = event;
        let event = wire::json(source)?;
        if let Some(error) = event.get("error") {
            let status = error["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
            return Err((wire::kind_of_word(text(error, "status"), status), Some(text(error, "message").to_owned())));
        }
        if let Some(word) = event["promptFeedback"]["blockReason"].as_str() {
            let message = Some(format!("the prompt was blocked ({word})"));
            return Err((ModelErrorKind::InvalidRequest { status: 0 }, message));
        }
        let candidate = &event["candidates"][0];
        let mut events = Vec::new();
        let parts = candidate["content"]["parts"].as_array().map_or(&[][..], Vec::as_slice);
        if !parts.is_empty() {
            for (part, raw) in parts.iter().zip(raw_parts(&wire::raw(source)?)) {
                events.extend(self.part(part, &raw));
            }
        }
        events.extend(usage(&event["usageMetadata"]).map(ModelEvent::Usage));
        if let Some(word) = candidate["finishReason"].as_str() {
            self.reason = Some(stop_reason(word));
        }
        Ok(events)
    }

    /// The stream has no last event; it is complete once a reason was given.
    fn finish(&mut self) -> Option<Vec<ModelEvent>> {
        let reason = self.reason.take()?;
        let reason =
            if reason == StopReason::EndTurn && self.answer.has_calls() { StopReason::ToolCalls } else { reason };
        let parts = std::mem::take(&mut self.parts).into_iter().map(|part| match part {
            Kept::Text(text) => Raw::of(&json!({ "text": text })),
            Kept::Part(raw) => raw,
        });
        let raw = RawItems { vendor: Vendor::Gemini, model: self.model.clone(), items: parts.collect() };
        Some(vec![ModelEvent::End { reason, message: self.answer.finish(raw) }])
    }
}

/// The parts of the first candidate, as the vendor wrote them.
fn raw_parts(event: &Raw) -> Vec<Raw> {
    let candidate = event.get("candidates").and_then(|candidates| candidates.elements_within(1).into_iter().next());
    let parts = candidate.and_then(|candidate| candidate.get("content")?.get("parts"));
    parts.map(|parts| parts.elements()).unwrap_or_default()
}

fn stop_reason(word: &str) -> StopReason {
    match word {
        "STOP" => StopReason::EndTurn,
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => StopReason::Refused,
        other => StopReason::Other(other.to_owned()),
    }
}

fn usage(usage: &Value) -> Option<Usage> {
    let figure = |key: &str| usage[key].as_u64().unwrap_or_default();
    usage.is_object().then(|| Usage {
        input_tokens: figure("promptTokenCount"),
        output_tokens: figure("candidatesTokenCount") + figure("thoughtsTokenCount"),
        cached_tokens: figure("cachedContentTokenCount"),
        cache_write_tokens: 0,
        reasoning_tokens: figure("thoughtsTokenCount"),
    })
}
