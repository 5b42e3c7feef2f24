//! A model behind HTTP: sends a request, reads its stream, and turns failures into errors that a caller can act on.

use std::{fmt, time::Duration};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use toolway_config::Secret;
use toolway_wire::{
    error::WireError,
    sse::SseDecoder,
    up::{client::HttpClient, fetch::StreamedResponse},
};
use url::Url;

use crate::{
    Model, ModelError, ModelErrorKind, ModelEvent, ModelRequest, Wire, anthropic,
    wire::{self, Decoder, WireSettings},
};

/// Bytes of one server-sent event; an answer with an image fits.
const MAX_EVENT: usize = 32 * 1024 * 1024;
/// Bytes of an error body that are read.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// Longest time without a byte of the answer.
const IDLE: Duration = Duration::from_secs(300);
/// Attempts of one request. Only a request whose answer has not begun is repeated.
const ATTEMPTS: u32 = 3;
/// Longest pause that a vendor may ask for before it is reported instead.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A configured model of a vendor.
#[derive(Clone)]
pub struct HttpModel {
    options: HttpModelOptions,
    client: HttpClient,
}

/// How to reach a model.
#[derive(Clone)]
pub struct HttpModelOptions {
    /// Name in the configuration.
    pub name: String,
    /// The wire format.
    pub wire: Wire,
    /// The vendor's name of the model.
    pub model: String,
    /// Base URL, as in the vendor's own SDK.
    pub base_url: Url,
    /// API key; `None` for servers without one.
    pub key: Option<Secret>,
    /// Additional header fields. They replace ours of the same name.
    pub headers: HeaderMap,
    /// Limit of output tokens.
    pub max_tokens: Option<u64>,
    /// Tokens that a conversation may have.
    pub context_window: Option<u64>,
    /// First pause before another attempt; doubled for each further one.
    pub pause: Duration,
}

impl HttpModel {
    /// A model that is reached through `client`, which decides which addresses may be dialled.
    pub fn new(options: HttpModelOptions, client: HttpClient) -> Self {
        Self { options, client }
    }

    fn settings(&self) -> WireSettings {
        WireSettings { model: self.options.model.clone(), max_tokens: self.options.max_tokens }
    }

    fn error(&self, kind: ModelErrorKind) -> ModelError {
        ModelError::new(&self.options.name, kind)
    }

    fn http_request(&self, request: &ModelRequest) -> Result<Request<Bytes>, ModelError> {
        let unusable = |what: &str| self.error(ModelErrorKind::InvalidAnswer(what.to_owned()));
        let encoded = wire::encode(self.options.wire, &self.settings(), request);
        let (path, body) = encoded.ok_or_else(|| unusable("this model has no HTTP wire"))?;
        let base = self.options.base_url.as_str().trim_end_matches('/');
        let mut http = Request::new(Bytes::from(body.to_string()));
        *http.method_mut() = Method::POST;
        *http.uri_mut() = format!("{base}/{path}").parse().map_err(|_| unusable("the base URL is invalid"))?;
        let headers = http.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        if self.options.wire == Wire::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
        }
        if let Some(key) = &self.options.key {
            let (name, text) = key_header(self.options.wire, key.expose());
            let value = HeaderValue::from_str(&text);
            let mut value = value.map_err(|_| self.error(ModelErrorKind::Unauthorized { status: 0 }))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        for (name, value) in &self.options.headers {
            headers.insert(name.clone(), value.clone());
        }
        Ok(http)
    }

    /// Opens the stream of an answer, with further attempts while the vendor is busy.
    async fn open(&self, request: &ModelRequest) -> Result<Answer, ModelError> {
        let http = self.http_request(request)?;
        let mut attempt = 1;
        loop {
            let error = match self.attempt(&http).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let pause = error.retry_after.unwrap_or(self.options.pause * 2_u32.pow(attempt - 1));
            if attempt == ATTEMPTS || !error.is_retryable() || pause > LONGEST_PAUSE {
                return Err(error);
            }
            tracing::warn!(model = %self.options.name, attempt, %error, "the model's request is repeated");
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    async fn attempt(&self, http: &Request<Bytes>) -> Result<Answer, ModelError> {
        let mut copy = Request::new(http.body().clone());
        (*copy.method_mut(), *copy.uri_mut()) = (http.method().clone(), http.uri().clone());
        copy.headers_mut().clone_from(http.headers());
        let opened = tokio::time::timeout(IDLE, self.client.open(copy)).await;
        let response = match opened {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.unreachable(Some(&error))),
            Err(_) => return Err(self.unreachable(None)),
        };
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let decoder = wire::decoder(self.options.wire, &self.settings());
        let decoder = decoder.ok_or_else(|| self.error(ModelErrorKind::Cut))?;
        Ok(Answer { response, sse: SseDecoder::new(MAX_EVENT), decoder, ready: Vec::new(), over: false })
    }

    fn unreachable(&self, cause: Option<&WireError>) -> ModelError {
        let base = &self.options.base_url;
        let url = format!("{}{}", base.origin().ascii_serialization(), base.path());
        let mut error = self.error(ModelErrorKind::Unreachable { url });
        error.vendor_message = Some(cause.map_or("no answer in time".to_owned(), ToString::to_string));
        error
    }

    async fn refused(&self, mut response: StreamedResponse) -> ModelError {
        let (status, retry_after) = (response.status(), retry_after(response.headers()));
        let mut body = Vec::new();
        while body.len() < MAX_ERROR_BODY {
            match tokio::time::timeout(Duration::from_secs(10), response.chunk()).await {
                Ok(Some(Ok(chunk))) => body.extend_from_slice(&chunk[..chunk.len().min(MAX_ERROR_BODY - body.len())]),
                _ => break,
            }
        }
        let message = message_of(&body);
        ModelError {
            kind: kind_of(status, message.as_deref().unwrap_or_default()),
            vendor_message: message.map(|text| wire::clean_message(&self.without_key(&text))),
            retry_after,
            model: self.options.name.clone(),
        }
    }

    /// A vendor may repeat the key in its message.
    fn without_key(&self, text: &str) -> String {
        match self.options.key.as_ref().filter(|key| !key.expose().is_empty()) {
            Some(key) => text.replace(key.expose(), "[hidden]"),
            None => text.to_owned(),
        }
    }
}

impl Model for HttpModel {
    fn name(&self) -> &str {
        &self.options.name
    }

    fn wire(&self) -> Wire {
        self.options.wire
    }

    fn context_window(&self) -> Option<u64> {
        self.options.context_window
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        let state = State::Closed(Box::new(request));
        let events = stream::unfold(state, move |state| async move {
            let mut answer = match state {
                State::Closed(request) => match self.open(&request).await {
                    Ok(answer) => Box::new(answer),
                    Err(error) => return Some((Err(error), State::Over)),
                },
                State::Open(answer) => answer,
                State::Over => return None,
            };
            let event = answer.next(self).await?;
            let state = if event.is_err() { State::Over } else { State::Open(answer) };
            Some((event, state))
        });
        events.boxed()
    }
}

enum State {
    Closed(Box<ModelRequest>),
    Open(Box<Answer>),
    Over,
}

/// An answer while it is read.
struct Answer {
    response: StreamedResponse,
    sse: SseDecoder,
    decoder: Box<dyn Decoder>,
    /// Decoded events in reverse order.
    ready: Vec<ModelEvent>,
    /// The last event was decoded.
    over: bool,
}

impl Answer {
    /// The next event; `None` after the last one. A stream that ends early is an error.
    async fn next(&mut self, model: &HttpModel) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.ready.pop() {
                self.over = matches!(event, ModelEvent::End { .. });
                return Some(Ok(event));
            }
            if self.over {
                return None;
            }
            let Ok(chunk) = tokio::time::timeout(IDLE, self.response.chunk()).await else {
                return Some(Err(model.error(ModelErrorKind::Cut)));
            };
            let decoded = match chunk {
                Some(Ok(chunk)) => self.decode(chunk),
                // The end of the body, or a broken connection after the last event.
                Some(Err(_)) | None => self.decoder.finish().ok_or((ModelErrorKind::Cut, None)),
            };
            match decoded {
                Ok(events) => self.ready = events.into_iter().rev().collect(),
                Err(error) => return Some(Err(ModelError::of_stream(&model.options.name, error))),
            }
        }
    }

    fn decode(&mut self, chunk: Bytes) -> Result<Vec<ModelEvent>, wire::ModelErrorKindWithMessage> {
        let events = self.sse.push(chunk);
        let events = events.map_err(|error| (ModelErrorKind::InvalidAnswer(error.to_string()), None))?;
        let mut decoded = Vec::new();
        for event in events.iter().filter(|event| !event.data.is_empty()) {
            decoded.extend(self.decoder.push(event)?);
        }
        Ok(decoded)
    }
}

fn key_header(wire: Wire, key: &str) -> (HeaderName, String) {
    match wire {
        Wire::Anthropic => (HeaderName::from_static("x-api-key"), key.to_owned()),
        Wire::Gemini => (HeaderName::from_static("x-goog-api-key"), key.to_owned()),
        Wire::Openai | Wire::OpenaiChat | Wire::Scripted => (header::AUTHORIZATION, format!("Bearer {key}")),
    }
}

fn kind_of(status: StatusCode, message: &str) -> ModelErrorKind {
    let number = status.as_u16();
    match number {
        401 | 403 => ModelErrorKind::Unauthorized { status: number },
        429 => ModelErrorKind::RateLimited,
        408 | 500.. => ModelErrorKind::Unavailable { status: number },
        _ => match wire::kind_of_word(message, number) {
            ModelErrorKind::ContextExceeded => ModelErrorKind::ContextExceeded,
            _ => ModelErrorKind::InvalidRequest { status: number },
        },
    }
}

/// The message in an error body: `error.message` of a JSON object, a list of one, or the text itself.
fn message_of(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body).trim().to_owned();
    let Ok(json) = serde_json::from_str::<serde_json::Value>(&text) else { return (!text.is_empty()).then_some(text) };
    let json = if json.is_array() { json[0].clone() } else { json };
    let error = &json["error"];
    let message = error["message"].as_str().or(error.as_str()).or(json["message"].as_str());
    Some(message.unwrap_or(&text).to_owned())
}

/// `retry-after-ms`, or `retry-after` in seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok().filter(|n| *n >= 0.0);
    let seconds = number("retry-after-ms").map(|millis| millis / 1_000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel").field("name", &self.options.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for HttpModelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModelOptions").field("name", &self.name).finish_non_exhaustive()
    }
}
