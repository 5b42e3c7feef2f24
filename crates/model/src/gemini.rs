//! The wire format Gemini `streamGenerateContent`.

use serde_json::{Value, json};
use toolway_wire::sse::SseEvent;

use crate::{
    Image, Message, ModelErrorKind, ModelEvent, ModelRequest, Part, RawItems, ResultPart, Role, StopReason, ToolResult,
    Usage, Wire,
    answer::AnswerBuilder,
    openai::joined_text,
    wire::{self, Decoder, ModelErrorKindWithMessage, WireSettings, text},
};

/// The request as JSON.
pub(crate) fn encode(settings: &WireSettings, request: &ModelRequest) -> Value {
    let mut body = json!({ "contents": contents(settings, request) });
    if !request.system.is_empty() {
        body["systemInstruction"] = json!({ "parts": [{ "text": request.system }] });
    }
    if let Some(limit) = request.max_tokens.or(settings.max_tokens) {
        body["generationConfig"] = json!({ "maxOutputTokens": limit });
    }
    if !request.tools.is_empty() {
        let declarations = request.tools.iter().map(|tool| {
            let (name, description, schema) = (&tool.name, &tool.description, &tool.input_schema);
            json!({ "name": name, "description": description, "parametersJsonSchema": schema })
        });
        body["tools"] = json!([{ "functionDeclarations": declarations.collect::<Vec<_>>() }]);
    }
    body
}

fn contents(settings: &WireSettings, request: &ModelRequest) -> Vec<Value> {
    let mut contents: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &request.messages {
        let (role, mut parts) = match message.role {
            Role::Assistant => ("model", model_parts(settings, message)),
            Role::User | Role::Tool => ("user", message.parts.iter().flat_map(user_parts).collect()),
        };
        match contents.last_mut() {
            Some((last, before)) if *last == role => before.append(&mut parts),
            _ => contents.push((role, parts)),
        }
    }
    contents.retain(|(_, parts)| !parts.is_empty());
    contents.into_iter().map(|(role, parts)| json!({ "role": role, "parts": parts })).collect()
}

fn model_parts(settings: &WireSettings, message: &Message) -> Vec<Value> {
    if let Some(items) = message.raw_for(Wire::Gemini, &settings.model) {
        return items.to_vec();
    }
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } if !text.is_empty() => Some(json!({ "text": text })),
        Part::ToolCall(call) => {
            let arguments = if call.arguments.is_object() { call.arguments.clone() } else { json!({}) };
            Some(json!({ "functionCall": { "name": call.name, "args": arguments } }))
        }
        _ => None,
    });
    parts.collect()
}

fn user_parts(part: &Part) -> Vec<Value> {
    match part {
        Part::Text { text } if !text.is_empty() => vec![json!({ "text": text })],
        Part::Image(image) => vec![inline(image)],
        Part::ToolResult(result) => result_parts(result),
        _ => Vec::new(),
    }
}

/// The response is an object with `result` or `error`; images follow as parts of their own.
fn result_parts(result: &ToolResult) -> Vec<Value> {
    let key = if result.is_error { "error" } else { "result" };
    let response = json!({ key: joined_text(result) });
    let mut parts = vec![json!({ "functionResponse": { "name": result.name, "response": response } })];
    parts.extend(result.content.iter().filter_map(|part| match part {
        ResultPart::Image(image) => Some(inline(image)),
        ResultPart::Text { .. } => None,
    }));
    parts
}

fn inline(image: &Image) -> Value {
    json!({ "inlineData": { "mimeType": image.mime_type, "data": image.data } })
}

/// Decodes the stream of one answer.
pub(crate) struct GeminiDecoder {
    model: String,
    answer: AnswerBuilder,
    parts: Vec<Value>,
    reason: Option<StopReason>,
}

impl GeminiDecoder {
    pub(crate) fn new(model: String) -> Self {
        Self { model, answer: AnswerBuilder::default(), parts: Vec::new(), reason: None }
    }

    fn part(&mut self, part: &Value) -> Vec<ModelEvent> {
        self.keep(part);
        if let Some(call) = part.get("functionCall") {
            let (index, start) = self.answer.start_call(text(call, "id"), text(call, "name"));
            let arguments = call.get("args").filter(|args| !args.is_null()).cloned().unwrap_or_else(|| json!({}));
            let arguments = self.answer.arguments(index, &arguments.to_string());
            let end = self.answer.end_call(index);
            return [Some(start), arguments, end].into_iter().flatten().collect();
        }
        match part["text"].as_str() {
            Some("") | None => Vec::new(),
            Some(piece) if part["thought"] == true => vec![self.answer.reasoning(piece)],
            Some(piece) => vec![self.answer.text(piece)],
        }
    }

    /// Keeps the part to be sent back. Pieces of plain text become one part; signatures stay where they were.
    fn keep(&mut self, part: &Value) {
        let is_plain = |part: &Value| part.as_object().is_some_and(|part| part.len() == 1 && part.contains_key("text"));
        if let (Some(last), true) = (self.parts.last_mut().filter(|last| is_plain(last)), is_plain(part)) {
            *last = json!({ "text": format!("{}{}", text(last, "text"), text(part, "text")) });
        } else {
            self.parts.push(part.clone());
        }
    }
}

impl Decoder for GeminiDecoder {
    fn push(&mut self, event: &SseEvent) -> Result<Vec<ModelEvent>, ModelErrorKindWithMessage> {
        let event = wire::json(event)?;
        if let Some(error) = event.get("error") {
            return Err((wire::kind_of_word(text(error, "status"), 0), Some(text(error, "message").to_owned())));
        }
        if let Some(word) = event["promptFeedback"]["blockReason"].as_str() {
            let message = Some(format!("the prompt was blocked ({word})"));
            return Err((ModelErrorKind::InvalidRequest { status: 0 }, message));
        }
        let candidate = &event["candidates"][0];
        let mut events = Vec::new();
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            events.extend(self.part(part));
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
        let raw = RawItems { wire: Wire::Gemini, model: self.model.clone(), items: std::mem::take(&mut self.parts) };
        Some(vec![ModelEvent::End { reason, message: self.answer.finish(raw) }])
    }
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
