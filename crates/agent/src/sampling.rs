//! Answers sampling requests of servers with a model, as far as the configuration allows.
//!
//! A request is translated to the model's request and the answer back. What a model cannot take (audio, tools) is refused
//! before anything is sent. Temperature and stop sequences are wishes, which are not passed on.

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures_util::{StreamExt, future::BoxFuture};
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolway_config::{PolicyMode, SamplingPermission, ServerName};
use toolway_host::{
    call::CallId,
    sampling::{SampledMessage, Sampler, SamplingDecision, SamplingDetails, SamplingOffer, SamplingRequest, refused},
};
use toolway_model::{Image, Message, Model, ModelEvent, ModelRequest, Part, Role, StopReason};
use toolway_wire::{exchange::Answer, json::Raw, message::RpcError};

/// Most tokens of an answer where the configuration sets no maximum.
const DEFAULT_MAX_TOKENS: u64 = 4_096;

/// Requests of one call that are answered at most: a server could ask without end.
const MAX_REQUESTS_OF_A_CALL: u32 = 20;
/// Calls whose requests are counted; the oldest are forgotten.
const COUNTED_CALLS: usize = 1_000;

/// Answers sampling requests of the servers that may ask.
pub struct ModelSampler {
    servers: BTreeMap<ServerName, ServerSampling>,
    attended: Attended,
    requests: RequestCounts<CallId>,
}

/// Number of requests by call. Ids of calls are in the order of time.
#[derive(Debug)]
struct RequestCounts<K>(
    // Nothing awaits under this lock.
    Mutex<BTreeMap<K, u32>>,
);

/// What one server may ask.
#[derive(Clone, Debug)]
pub struct ServerSampling {
    /// Whether it may ask.
    pub permission: SamplingPermission,
    /// Most tokens of an answer; `None`: a default.
    pub max_tokens: Option<u32>,
    /// The model that answers.
    pub model: Arc<dyn Model>,
    /// Why this model was chosen.
    pub reason: String,
}

/// Whether a person can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attended {
    /// There is a person.
    ByPerson,
    /// What would be asked passes in mode `allow` and is refused otherwise.
    Unattended(PolicyMode),
}

/// A request as the model gets it.
#[derive(Debug)]
struct Translated {
    system: String,
    messages: Vec<Message>,
    max_tokens: u64,
}

// === impl ModelSampler ===

impl ModelSampler {
    /// Answers these servers.
    pub fn new(servers: BTreeMap<ServerName, ServerSampling>, attended: Attended) -> Self {
        Self { servers, attended, requests: RequestCounts(Mutex::default()) }
    }

    async fn answer(&self, request: SamplingRequest) -> Result<Raw, RpcError> {
        let server = &request.server;
        if !request.origin.call.is_some_and(|call| self.requests.add(call)) {
            let why = format!("a call can ask {MAX_REQUESTS_OF_A_CALL} times at most");
            return Err(refused(server, &why));
        }
        let sampling = self.servers.get(server).ok_or_else(|| refused(server, "`sampling.allow` is `never`"))?;
        let translated = Translated::of(request.request.params.as_ref(), sampling.max_tokens)?;
        let wanted = ModelRequest {
            system: translated.system,
            messages: translated.messages,
            max_tokens: Some(translated.max_tokens),
            ..ModelRequest::default()
        };
        let mut events = sampling.model.stream(wanted);
        while let Some(event) = events.next().await {
            match event {
                Ok(ModelEvent::End { reason, message }) => return Ok(result(&message, &reason, sampling.model.name())),
                Ok(_) => {}
                // The text of a vendor is for the operator.
                Err(error) => {
                    tracing::warn!(server = server.as_str(), %error, "the model did not answer a sampling request");
                    return Err(RpcError::new(RpcError::INTERNAL, "the model did not answer"));
                }
            }
        }
        Err(RpcError::new(RpcError::INTERNAL, "the model did not answer"))
    }
}

impl<K: Ord> RequestCounts<K> {
    /// Counts a request of a call; `false` if that is one too many.
    fn add(&self, call: K) -> bool {
        let mut counts = self.0.lock();
        let number = counts.entry(call).or_default();
        *number = number.saturating_add(1);
        let is_within = *number <= MAX_REQUESTS_OF_A_CALL;
        while COUNTED_CALLS < counts.len() {
            counts.pop_first();
        }
        is_within
    }
}

impl Sampler for ModelSampler {
    fn offer(&self, server: &ServerName) -> SamplingOffer {
        let can_be_asked = match self.servers.get(server).map(|sampling| sampling.permission) {
            None | Some(SamplingPermission::Never) => false,
            Some(SamplingPermission::Always) => true,
            Some(SamplingPermission::Ask) => {
                self.attended != Attended::Unattended(PolicyMode::Ask)
                    && self.attended != Attended::Unattended(PolicyMode::Writes)
            }
        };
        if can_be_asked { SamplingOffer::Messages } else { SamplingOffer::Nothing }
    }

    fn decide(&self, request: &SamplingRequest) -> SamplingDecision {
        let server = &request.server;
        let sampling = match self.servers.get(server) {
            Some(sampling) if sampling.permission != SamplingPermission::Never => sampling,
            _ => return SamplingDecision::Refused(refused(server, "`sampling.allow` is `never`")),
        };
        let translated = match Translated::of(request.request.params.as_ref(), sampling.max_tokens) {
            Ok(translated) => translated,
            Err(error) => return SamplingDecision::Refused(error),
        };
        match (sampling.permission, self.attended) {
            (SamplingPermission::Always, _) | (_, Attended::Unattended(PolicyMode::Allow)) => SamplingDecision::Allowed,
            (_, Attended::Unattended(_)) => {
                SamplingDecision::Refused(refused(server, "no user can be asked, and `sampling.allow` is `ask`"))
            }
            (_, Attended::ByPerson) => {
                let temperature = request.request.params.as_ref().and_then(|params| params.get("temperature"));
                SamplingDecision::Ask(Box::new(SamplingDetails {
                    messages: translated.messages.iter().map(shown).collect(),
                    system: Some(translated.system).filter(|system| !system.is_empty()),
                    temperature: temperature.map(|number| number.to_string()),
                    max_tokens: translated.max_tokens,
                    tools: Vec::new(),
                    model: sampling.model.name().to_owned(),
                    reason: sampling.reason.clone(),
                }))
            }
        }
    }

    fn sample(&self, request: SamplingRequest) -> BoxFuture<'_, Answer> {
        Box::pin(async move { self.answer(request).await.map_or_else(Answer::Refused, Answer::Given) })
    }
}

impl fmt::Debug for ModelSampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSampler").field("servers", &self.servers.keys()).finish_non_exhaustive()
    }
}

// === impl Translated ===

impl Translated {
    fn of(params: Option<&Raw>, max_tokens: Option<u32>) -> Result<Self, RpcError> {
        let params: Value = params.and_then(|params| params.read().ok()).ok_or_else(|| invalid("no params"))?;
        if params.get("tools").is_some() || params.get("toolChoice").is_some() {
            return Err(invalid("tools were not declared"));
        }
        let wanted = params["maxTokens"].as_u64().filter(|wanted| 0 < *wanted);
        let wanted = wanted.ok_or_else(|| invalid("`maxTokens` is missing or not a positive number"))?;
        let most = max_tokens.map_or(DEFAULT_MAX_TOKENS, u64::from);
        let messages = params["messages"].as_array().filter(|messages| !messages.is_empty());
        let messages = messages.ok_or_else(|| invalid("`messages` is missing or empty"))?;
        Ok(Self {
            system: params["systemPrompt"].as_str().unwrap_or_default().to_owned(),
            messages: messages.iter().map(message).collect::<Result<_, _>>()?,
            max_tokens: wanted.min(most),
        })
    }
}

fn message(message: &Value) -> Result<Message, RpcError> {
    let role = match message["role"].as_str() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return Err(invalid("the role of a message is neither `user` nor `assistant`")),
    };
    let parts = match &message["content"] {
        Value::Array(blocks) => blocks.iter().map(part).collect::<Result<_, _>>()?,
        block => vec![part(block)?],
    };
    Ok(Message { role, parts, raw: None })
}

fn part(block: &Value) -> Result<Part, RpcError> {
    let text = |key: &str| block[key].as_str().map(str::to_owned);
    match block["type"].as_str() {
        Some("text") => Ok(Part::Text { text: text("text").ok_or_else(|| invalid("a text block has no `text`"))? }),
        Some("image") => match (text("mimeType"), text("data")) {
            (Some(mime_type), Some(data)) => Ok(Part::Image(Image { mime_type, data })),
            _ => Err(invalid("an image has no `mimeType` or no `data`")),
        },
        Some(kind) => Err(invalid(&format!("content of type `{}` cannot be sent to the model", first_words(kind)))),
        None => Err(invalid("a content block has no `type`")),
    }
}

fn first_words(text: &str) -> String {
    text.chars().take(40).collect()
}

fn invalid(why: &str) -> RpcError {
    RpcError::new(RpcError::INVALID_PARAMS, &format!("invalid sampling request: {why}"))
}

/// A message as a person sees it.
fn shown(message: &Message) -> SampledMessage {
    let parts = message.parts.iter().map(|part| match part {
        Part::Text { text } => text.clone(),
        Part::Image(image) => format!("[image: {}, {} bytes in base64]", image.mime_type, image.data.len()),
        _ => String::new(),
    });
    let role = if message.role == Role::Assistant { "assistant" } else { "user" };
    SampledMessage { role: role.to_owned(), text: parts.collect::<Vec<_>>().join("\n") }
}

/// The answer as the protocol has it.
fn result(message: &Message, reason: &StopReason, model: &str) -> Raw {
    let reason = match reason {
        StopReason::EndTurn => "endTurn",
        StopReason::MaxTokens => "maxTokens",
        StopReason::ToolCalls => "toolUse",
        StopReason::Refused => "refusal",
        StopReason::Other(word) => word,
    };
    let content = json!({ "type": "text", "text": message.text() });
    Raw::of(&json!({ "role": "assistant", "content": content, "model": model, "stopReason": reason }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolway_wire::json::Raw;

    use super::{COUNTED_CALLS, MAX_REQUESTS_OF_A_CALL, RequestCounts, Translated};

    #[test]
    fn each_call_has_its_share_of_requests_and_old_calls_are_forgotten() {
        let counts = RequestCounts(parking_lot::Mutex::default());
        assert!((0..MAX_REQUESTS_OF_A_CALL).all(|_| counts.add(1)));
        assert!(!counts.add(1) && counts.add(2));
        assert!((3..2 * COUNTED_CALLS).all(|call| counts.add(call)));
        assert_eq!(counts.0.lock().len(), COUNTED_CALLS);
    }

    fn read(params: &serde_json::Value, max_tokens: Option<u32>) -> Result<Translated, String> {
        Translated::of(Some(&Raw::of(params)), max_tokens).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn messages_system_prompt_and_the_smaller_maximum_are_taken() {
        let params = json!({
            "messages": [
                { "role": "user", "content": { "type": "text", "text": "one" } },
                { "role": "assistant", "content": [{ "type": "text", "text": "two" }] },
                { "role": "user", "content": { "type": "image", "mimeType": "image/png", "data": "AAAA" } },
            ],
            "systemPrompt": "short", "maxTokens": 9000, "includeContext": "allServers",
        });
        let translated = read(&params, None).unwrap();
        assert_eq!((translated.messages.len(), translated.system.as_str(), translated.max_tokens), (3, "short", 4096));
        assert_eq!(read(&params, Some(100)).unwrap().max_tokens, 100);
    }

    #[test]
    fn requests_that_the_model_cannot_take_are_refused_before_it_is_asked() {
        let text = json!({ "type": "text", "text": "x" });
        let message = |content: &serde_json::Value| json!([{ "role": "user", "content": content }]);
        for (params, why) in [
            (json!({ "messages": message(&text) }), "maxTokens"),
            (json!({ "messages": [], "maxTokens": 1 }), "messages"),
            (json!({ "messages": message(&text), "maxTokens": 1, "tools": [] }), "tools"),
            (json!({ "messages": message(&json!({ "type": "audio" })), "maxTokens": 1 }), "audio"),
            (json!({ "messages": message(&json!({ "type": "text" })), "maxTokens": 1 }), "`text`"),
            (json!({ "messages": [{ "role": "system", "content": text }], "maxTokens": 1 }), "role"),
        ] {
            let error = read(&params, None).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
