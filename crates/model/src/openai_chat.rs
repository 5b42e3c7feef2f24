//! The wire format OpenAI Chat Completions, also of Ollama, vLLM, llama.cpp, LM Studio, OpenRouter and others.
//!
//! Compatible servers disagree about tool-call deltas: the index may be missing, constant or have gaps, and the id may
//! come with every delta, once, or never. [`ChatDecoder::call_of`] decides which call a delta belongs to.
//!
//! Reasoning models expect what they added to a message to come back with it: DeepSeek and Kimi `reasoning_content`,
//! OpenRouter `reasoning_details`, Gemini `extra_content` with the signature of a call. They refuse the next request
//! without it, so these members are kept as they were written ([`KeptMembers`]).

use std::borrow::Cow;

use serde_json::{Value, json};
use toolway_wire::{
    json::{JsonKind, Member, Raw},
    message::splice::{self, Edit},
    sse::SseEvent,
};

use crate::{
    Audio, Message, ModelEvent, ModelRequest, Part, RawItems, ResultPart, Role, StopReason, Usage, Vendor,
    answer::{AnswerBuilder, arguments_text},
    openai::{ERROR_PREFIX, Sounds, data_url, joined_text, takes_temperature, tool_choice},
    raw_json,
    wire::{self, CallIds, Decoder, ModelErrorKindWithMessage, WireSettings, text},
};

/// The request as JSON.
pub(crate) fn encode(settings: &WireSettings, request: &ModelRequest) -> Raw {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(Raw::of(&json!({ "role": "system", "content": request.system })));
    }
    let ids = CallIds::of(Vendor::OpenaiChat, settings, &request.messages);
    messages.extend(request.messages.iter().flat_map(|message| encode_message(settings, &ids, message)));
    let mut body = json!({
        "model": settings.model,
        "messages": [],
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
    if let Some(choice) = request.tool_choice.filter(|_| !request.tools.is_empty()) {
        body["tool_choice"] = tool_choice(choice).into();
    }
    if let Some(temperature) = request.temperature.filter(|_| takes_temperature(&settings.model)) {
        body["temperature"] = temperature.clamp(0.0, 2.0).into();
    }
    if !request.stop_sequences.is_empty() {
        body["stop"] = request.stop_sequences.clone().into();
    }
    // Compatible servers hold every answer to the schema, also those that should be tool calls.
    let may_send = settings.at_openai || request.tools.is_empty();
    if let Some(schema) = request.answer_schema.as_ref().filter(|_| may_send) {
        let schema = json!({ "name": "answer", "schema": schema });
        body["response_format"] = json!({ "type": "json_schema", "json_schema": schema });
    }
    wire::with_list(&body, "messages", &messages)
}

fn encode_message(settings: &WireSettings, ids: &CallIds<'_>, message: &Message) -> Vec<Raw> {
    match (message.role, message.raw_for(Vendor::OpenaiChat, &settings.model)) {
        (Role::Assistant, Some(items)) => items.to_vec(),
        _ => neutral_messages(settings, ids, message).iter().map(Raw::of).collect(),
    }
}

fn neutral_messages(settings: &WireSettings, ids: &CallIds<'_>, message: &Message) -> Vec<Value> {
    match message.role {
        Role::Assistant => vec![assistant(message, |id| ids.on_wire(id))],
        Role::User => {
            // What a server asks with a sound is sent as it is.
            let sounds = message.attached.as_ref().map_or(Sounds::Sent, |_| sounds_of(&settings.model));
            let content = user_content(&message.parts, sounds);
            content.map(|content| json!({ "role": "user", "content": content })).into_iter().collect()
        }
        Role::Tool => results(ids, message, sounds_of(&settings.model)),
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

/// Whether a model hears the sounds of results. Most models of this wire refuse a request with one, so only those are sent
/// any whose names say that they take them.
fn sounds_of(model: &str) -> Sounds {
    let hears = ["audio", "omni", "gemini", "voxtral"].iter().any(|word| model.to_ascii_lowercase().contains(word));
    if hears { Sounds::Sent } else { Sounds::LeftOut }
}

/// A tool message has text only; images and sounds follow in one message of the user, after all results.
fn results(ids: &CallIds<'_>, message: &Message, sounds: Sounds) -> Vec<Value> {
    let mut messages = Vec::new();
    let mut media = Vec::new();
    for part in &message.parts {
        let Part::ToolResult(result) = part else { continue };
        let mut content = joined_text(result, sounds);
        for part in &result.content {
            let (word, medium) = match part {
                ResultPart::Image(image) => {
                    ("image", json!({ "type": "image_url", "image_url": { "url": data_url(image) } }))
                }
                ResultPart::Audio(audio) if sounds == Sounds::Sent => ("audio", input_audio(audio)),
                ResultPart::Audio(_) | ResultPart::Text { .. } => continue,
            };
            let title = if word == "image" { "Image" } else { "Audio" };
            media.push(json!({ "type": "text", "text": format!("{title} of the result of `{}`:", result.name) }));
            media.push(medium);
            let line_break = if content.is_empty() { "" } else { "\n" };
            content.push_str(&format!("{line_break}[{word} below]"));
        }
        let prefix = if result.is_error { ERROR_PREFIX } else { "" };
        let content = format!("{prefix}{content}");
        let id = ids.on_wire(&result.call_id);
        messages.push(json!({ "role": "tool", "tool_call_id": id, "content": content }));
    }
    if !media.is_empty() {
        messages.push(json!({ "role": "user", "content": media }));
    }
    messages
}

/// Text alone as a string, which every compatible server takes; `None` if there is nothing to send.
fn user_content(parts: &[Part], sounds: Sounds) -> Option<Value> {
    let contents = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(json!({ "type": "text", "text": text })),
        Part::Image(image) => Some(json!({ "type": "image_url", "image_url": { "url": data_url(image) } })),
        Part::Audio(audio) if sounds == Sounds::LeftOut => Some(json!({ "type": "text", "text": audio.left_out() })),
        Part::Audio(audio) => Some(input_audio(audio)),
        _ => None,
    });
    let contents: Vec<Value> = contents.collect();
    match contents.as_slice() {
        [] => None,
        [only] if only["type"] == "text" => Some(only["text"].clone()),
        _ => Some(contents.into()),
    }
}

fn input_audio(audio: &Audio) -> Value {
    let format = if audio.mime_type.contains("mp3") || audio.mime_type.contains("mpeg") { "mp3" } else { "wav" };
    json!({ "type": "input_audio", "input_audio": { "data": audio.data, "format": format } })
}

/// Decodes the stream of one answer.
pub(crate) struct ChatDecoder {
    model: String,
    answer: AnswerBuilder,
    calls: Vec<OpenCall>,
    kept: KeptMembers,
    reason: Option<StopReason>,
}

/// Members of the message besides its text and calls, for the request that sends it back.
#[derive(Default)]
struct KeptMembers {
    /// Reasoning by the key that the server uses. Present, if empty, once the server sent a text: thinking models of
    /// DeepSeek and Kimi refuse a call without the key.
    reasoning: Option<Reasoning>,
    reasoning_details: Vec<Raw>,
    /// The last one with a signature.
    extra_content: Option<Raw>,
}

/// Reasoning of the message so far.
struct Reasoning {
    key: &'static str,
    text: String,
}

/// A call of the stream.
struct OpenCall {
    id: String,
    name: String,
    wire_index: Option<u64>,
    /// Arguments that came before the name.
    early: String,
    /// Members that Chat Completions does not name, such as Gemini's `extra_content`.
    extra: Vec<Member>,
    /// Position among the calls of the answer, once the name is known.
    index: Option<usize>,
}

impl ChatDecoder {
    pub(crate) fn new(model: String) -> Self {
        let kept = KeptMembers::default();
        Self { model, answer: AnswerBuilder::default(), calls: Vec::new(), kept, reason: None }
    }

    fn delta(&mut self, delta: &Value, source: &SseEvent) -> Vec<ModelEvent> {
        let mut events = Vec::new();
        let reasoning = self.kept.push(delta, source);
        if !reasoning.is_empty() {
            events.push(self.answer.reasoning(reasoning));
        }
        for key in ["content", "refusal"] {
            if let Some(piece) = delta[key].as_str().filter(|piece| !piece.is_empty()) {
                events.push(self.answer.text(piece));
            }
        }
        for (at, call) in delta["tool_calls"].as_array().into_iter().flatten().enumerate() {
            let arguments = match &call["function"]["arguments"] {
                Value::String(piece) => piece.clone(),
                // Some servers send an object instead of its text.
                Value::Object(_) => written_arguments(source, at).unwrap_or_default(),
                _ => String::new(),
            };
            let extra = if has_extra(call) { written_extra(source, at) } else { Vec::new() };
            events.extend(self.call_delta(call, &arguments, extra));
        }
        events
    }

    fn call_delta(&mut self, delta: &Value, arguments: &str, extra: Vec<Member>) -> Vec<ModelEvent> {
        let (id, name) = (text(delta, "id"), text(&delta["function"], "name"));
        let wire_index = delta["index"].as_u64();
        let at = self.call_of(id, name, wire_index).unwrap_or_else(|| {
            let (id, name) = (id.to_owned(), String::new());
            self.calls.push(OpenCall { id, name, wire_index, early: String::new(), extra: Vec::new(), index: None });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        call.extra.retain(|before| extra.iter().all(|member| member.key != before.key));
        call.extra.extend(extra);
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        call.early.push_str(arguments);
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
        Raw::parse(self.answer.arguments_of(index).to_owned()).is_ok_and(|value| raw_json::is_object(&value))
    }

    fn end(&mut self, reason: StopReason) -> Vec<ModelEvent> {
        // A call whose name never came is reported, so that the model learns of it.
        let nameless = self.calls.iter_mut().filter(|call| call.index.is_none());
        let mut events: Vec<ModelEvent> = nameless.flat_map(|call| Self::announce(call, &mut self.answer)).collect();
        let reason =
            if reason == StopReason::EndTurn && self.answer.has_calls() { StopReason::ToolCalls } else { reason };
        events.extend(self.answer.end_calls());
        let raw = RawItems { vendor: Vendor::OpenaiChat, model: self.model.clone(), items: Vec::new() };
        let mut message = self.answer.finish(raw);
        let item = self.item(&message);
        if let Some(raw) = &mut message.raw {
            raw.items.push(item);
        }
        events.push(ModelEvent::End { reason, message });
        events
    }

    /// The message as it is sent back to the same server.
    fn item(&mut self, message: &Message) -> Raw {
        let item = Raw::of(&assistant(message, Cow::Borrowed));
        let mut edits = std::mem::take(&mut self.kept).edits();
        let calls = item.get("tool_calls").map(|calls| calls.elements()).unwrap_or_default();
        if !calls.is_empty() {
            let calls = calls.iter().enumerate().map(|(at, call)| self.with_extra(at, call));
            edits.push(Edit::Set("tool_calls", splice::array(&calls.collect::<Vec<_>>())));
        }
        splice::edited(&item, &edits)
    }

    /// A call with the members that the server added to it.
    fn with_extra(&self, index: usize, call: &Raw) -> Raw {
        let extra = self.calls.iter().filter(|open| open.index == Some(index)).flat_map(|open| &open.extra);
        let edits: Vec<Edit<'_>> = extra.map(|member| Edit::Set(&member.key, member.value.clone())).collect();
        splice::edited(call, &edits)
    }
}

impl KeptMembers {
    /// Keeps what a delta has of them; returns its piece of reasoning.
    fn push<'a>(&mut self, delta: &'a Value, source: &SseEvent) -> &'a str {
        let details = delta["reasoning_details"].as_array().is_some_and(|details| !details.is_empty());
        let signature = delta["extra_content"].is_object();
        if let Some(written) = (details || signature).then(|| written_delta(source)).flatten() {
            let details = written.get("reasoning_details").map(|details| details.elements());
            self.reasoning_details.extend(details.unwrap_or_default());
            let signed = written.get("extra_content").filter(|extra| extra.text().contains("\"thought_signature\""));
            self.extra_content = signed.or_else(|| self.extra_content.take());
        }
        // A server may send both keys with the same text. The first one with a text is kept.
        let keys = ["reasoning_content", "reasoning"];
        let sent = keys.into_iter().filter_map(|key| delta[key].as_str().map(|piece| (key, piece)));
        let Some((key, piece)) = sent.min_by_key(|(_, piece)| piece.is_empty()) else { return "" };
        let reasoning = self.reasoning.get_or_insert(Reasoning { key, text: String::new() });
        if reasoning.text.is_empty() {
            reasoning.key = key;
        }
        reasoning.text.push_str(piece);
        piece
    }

    fn edits(self) -> Vec<Edit<'static>> {
        let reasoning = self.reasoning.map(|reasoning| Edit::Set(reasoning.key, Raw::of(&reasoning.text)));
        let details = (!self.reasoning_details.is_empty())
            .then(|| Edit::Set("reasoning_details", splice::array(&self.reasoning_details)));
        let extra = self.extra_content.map(|extra| Edit::Set("extra_content", extra));
        [reasoning, details, extra].into_iter().flatten().collect()
    }
}

impl Decoder for ChatDecoder {
    fn push(&mut self, event: &SseEvent) -> Result<Vec<ModelEvent>, ModelErrorKindWithMessage> {
        if event.data.as_ref() == b"[DONE]" {
            // Some servers never send a reason; the mark alone says that the answer is complete.
            let reason = self.reason.take().unwrap_or(StopReason::EndTurn);
            return Ok(self.end(reason));
        }
        let source = event;
        let event = wire::json(source)?;
        if event["error"].is_object() || event["error"].is_string() {
            return Err(failure(&event["error"]));
        }
        // vLLM.
        if event["object"] == "error" {
            return Err(failure(&event));
        }
        let mut events = usage(&event["usage"]).map(ModelEvent::Usage).into_iter().collect::<Vec<_>>();
        let choice = &event["choices"][0];
        events.extend(self.delta(&choice["delta"], source));
        if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
            self.reason = Some(stop_reason(reason));
        }
        Ok(events)
    }

    /// Some servers close the stream without `[DONE]`.
    fn finish(&mut self) -> Option<Vec<ModelEvent>> {
        let reason = self.reason.take()?;
        Some(self.end(reason))
    }
}

/// The delta of the first choice, as the server wrote it.
fn written_delta(source: &SseEvent) -> Option<Raw> {
    let event = Raw::parse(source.data.clone()).ok()?;
    event.get("choices")?.elements_within(1).into_iter().next()?.get("delta")
}

fn written_call(source: &SseEvent, at: usize) -> Option<Raw> {
    written_delta(source)?.get("tool_calls")?.elements().into_iter().nth(at)
}

/// The arguments of a call of the first choice, as the server wrote them.
fn written_arguments(source: &SseEvent, at: usize) -> Option<String> {
    Some(written_call(source, at)?.get("function")?.get("arguments")?.to_string())
}

/// Members of a call that Chat Completions names.
const CALL_MEMBERS: [&str; 4] = ["id", "index", "type", "function"];

fn has_extra(call: &Value) -> bool {
    let mut members = call.as_object().into_iter().flatten();
    members.any(|(key, value)| !CALL_MEMBERS.contains(&key.as_str()) && !value.is_null())
}

/// The other members of a call of the first choice, as the server wrote them.
fn written_extra(source: &SseEvent, at: usize) -> Vec<Member> {
    let members = written_call(source, at).map(|call| call.members()).unwrap_or_default().into_iter();
    let is_extra = |member: &Member| !CALL_MEMBERS.contains(&&*member.key) && member.value.kind() != JsonKind::Null;
    members.filter(is_extra).collect()
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
