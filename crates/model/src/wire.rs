//! What the four wire formats have in common: a request as JSON, and a decoder of its stream.

use std::{borrow::Cow, collections::HashSet};

use serde_json::Value;
use toolway_wire::{
    json::Raw,
    message::splice::{self, Edit},
    sse::SseEvent,
};

use crate::{
    Message, ModelErrorKind, ModelEvent, ModelRequest, Vendor, anthropic, gemini, openai, openai_chat, raw_json,
};

/// Settings of one model that a request contains.
#[derive(Clone, Debug)]
pub(crate) struct WireSettings {
    /// The vendor's name of the model.
    pub(crate) model: String,
    /// Configured limit of output tokens.
    pub(crate) max_tokens: Option<u64>,
    /// Whether the vendor is OpenAI itself and not a compatible server.
    pub(crate) at_openai: bool,
}

/// Decodes the stream of one answer.
pub(crate) trait Decoder: Send {
    /// Decodes one event.
    fn push(&mut self, event: &SseEvent) -> Result<Vec<ModelEvent>, ModelErrorKindWithMessage>;

    /// Called when the stream ends without an [`ModelEvent::End`]. Returns the last events if the answer is complete.
    fn finish(&mut self) -> Option<Vec<ModelEvent>> {
        None
    }
}

/// An error inside a stream, with the vendor's message.
pub(crate) type ModelErrorKindWithMessage = (ModelErrorKind, Option<String>);

/// The path of a request below the base URL, and its JSON.
pub(crate) fn encode(vendor: Vendor, settings: &WireSettings, request: &ModelRequest) -> Option<(String, Raw)> {
    match vendor {
        Vendor::Anthropic => Some(("v1/messages".to_owned(), anthropic::encode(settings, request))),
        Vendor::Openai => Some(("responses".to_owned(), openai::encode(settings, request))),
        Vendor::OpenaiChat => Some(("chat/completions".to_owned(), openai_chat::encode(settings, request))),
        Vendor::Gemini => {
            let model = settings.model.trim_start_matches("models/");
            let path = format!("v1beta/models/{model}:streamGenerateContent?alt=sse");
            Some((path, gemini::encode(settings, request)))
        }
        Vendor::Scripted => None,
    }
}

/// The decoder of a wire's stream.
pub(crate) fn decoder(vendor: Vendor, settings: &WireSettings) -> Option<Box<dyn Decoder>> {
    let model = settings.model.clone();
    match vendor {
        Vendor::Anthropic => Some(Box::new(anthropic::AnthropicDecoder::new(model))),
        Vendor::Openai => Some(Box::new(openai::ResponsesDecoder::new(model))),
        Vendor::OpenaiChat => Some(Box::new(openai_chat::ChatDecoder::new(model))),
        Vendor::Gemini => Some(Box::new(gemini::GeminiDecoder::new(model))),
        Vendor::Scripted => None,
    }
}

/// The JSON of an event's data, to be looked at.
pub(crate) fn json(event: &SseEvent) -> Result<Value, ModelErrorKindWithMessage> {
    serde_json::from_slice(&event.data).or_else(|error| {
        let not_json = |_| (ModelErrorKind::InvalidAnswer(format!("an event is not JSON: {error}")), None);
        Raw::parse(event.data.clone()).map(|raw| raw_json::value_of(&raw)).map_err(not_json)
    })
}

/// The text of an event's data, for what is kept or sent on.
pub(crate) fn raw(event: &SseEvent) -> Result<Raw, ModelErrorKindWithMessage> {
    Raw::parse(event.data.clone())
        .map_err(|error| (ModelErrorKind::InvalidAnswer(format!("an event is not JSON: {error}")), None))
}

/// A request with its list of messages, whose texts stay as they are.
pub(crate) fn with_list(body: &Value, key: &str, list: &[Raw]) -> Raw {
    splice::edited(&Raw::of(body), &[Edit::Set(key, splice::array(list))])
}

/// A text member, empty if it is missing.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Ids of calls on a wire that restricts them. Ids of messages that are sent back raw stay as they are; others may come
/// from another vendor and are replaced if they are too long or have other characters than `[A-Za-z0-9_-]`.
pub(crate) struct CallIds<'a> {
    raw: HashSet<&'a str>,
}

impl<'a> CallIds<'a> {
    /// Longest id that all wires accept.
    const LONGEST: usize = 40;

    pub(crate) fn of(vendor: Vendor, settings: &WireSettings, messages: &'a [Message]) -> Self {
        let raw = messages.iter().filter(|message| message.raw_for(vendor, &settings.model).is_some());
        Self { raw: raw.flat_map(Message::tool_calls).map(|call| call.id.as_str()).collect() }
    }

    /// The id on the wire; the same for a call and its result.
    pub(crate) fn on_wire<'b>(&self, id: &'b str) -> Cow<'b, str> {
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if self.raw.contains(id) || ((1..=Self::LONGEST).contains(&id.len()) && id.bytes().all(valid)) {
            return id.into();
        }
        // FNV-1a: the same in every run, so that the vendor's cache of the conversation stays valid.
        let digest =
            |seed: u64| id.bytes().fold(seed, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        format!("call_{:016x}{:016x}", digest(0xcbf2_9ce4_8422_2325), digest(0x6c62_272e_07bb_0142)).into()
    }
}

/// The kind of an error that a vendor names by a word, in a stream or in a body.
pub(crate) fn kind_of_word(word: &str, status: u16) -> ModelErrorKind {
    let word = word.to_ascii_lowercase();
    let contains = |parts: &[&str]| parts.iter().any(|part| word.contains(part));
    if contains(&[
        "context_length",
        "context length",
        "context window",
        "context size",
        "exceed_context",
        "prompt is too long",
        "too many tokens",
        "exceeds the maximum number of tokens",
    ]) {
        ModelErrorKind::ContextExceeded
    } else if contains(&["rate_limit", "resource_exhausted", "insufficient_quota"]) {
        ModelErrorKind::RateLimited
    } else if contains(&[
        "authentication",
        "permission",
        "unauthenticated",
        "invalid_api_key",
        "api_key_invalid",
        "api key not valid",
    ]) {
        ModelErrorKind::Unauthorized { status }
    } else if contains(&["overloaded", "server_error", "api_error", "internal", "unavailable", "timeout"]) {
        ModelErrorKind::Unavailable { status }
    } else {
        ModelErrorKind::InvalidRequest { status }
    }
}

/// The text of a vendor's message, bounded and without control characters.
pub(crate) fn clean_message(text: &str) -> String {
    const LONGEST: usize = 500;
    let mut letters = text.chars().filter(|letter| !letter.is_control());
    let mut clean: String = letters.by_ref().take(LONGEST).collect();
    if letters.next().is_some() {
        clean.push('…');
    }
    clean
}
