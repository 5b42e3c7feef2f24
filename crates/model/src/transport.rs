//! A model behind HTTP: sends a request and reads its stream. `transport/failure.rs` interprets refusals,
//! `transport/listing.rs` asks for the vendor's models.

mod failure;
mod listing;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use serde_json::Value;
use tokio::time::Instant;
use toolway_config::Secret;
use toolway_wire::{
    error::WireError,
    sse::SseDecoder,
    up::{client::HttpClient, fetch::StreamedResponse},
};
use url::Url;

use crate::{
    Encoding, Model, ModelError, ModelErrorKind, ModelEvent, ModelRequest, SentRequest, Vendor, anthropic,
    wire::{self, Decoder, WireSettings},
};

/// Bytes of one server-sent event; an answer with an image fits.
const MAX_EVENT: usize = 16 * 1024 * 1024;
/// Bytes of a whole answer.
const MAX_ANSWER: usize = 32 * 1024 * 1024;
/// Bytes of an error body that are read.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// Longest time without a byte of the answer.
const IDLE: Duration = Duration::from_secs(300);
/// Attempts of one request. Only a request whose answer has not begun is repeated.
const ATTEMPTS: u32 = 3;
/// Longest pause that a vendor may ask for before it is reported instead.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Shortest value of a configured header that is hidden in a vendor's message.
const SECRET: usize = 8;
/// How long the end of the body may take after the last event. A body that was read to its end leaves the connection
/// for the next request.
const DRAIN: Duration = Duration::from_millis(100);

/// A configured model of a vendor.
#[derive(Clone)]
pub struct HttpModel {
    options: HttpModelOptions,
    client: HttpClient,
    /// The vendor refused a request because of its answer schema; further requests have none.
    refuses_schema: Arc<AtomicBool>,
}

/// How to reach a model.
#[derive(Clone)]
pub struct HttpModelOptions {
    /// Name in the configuration.
    pub name: String,
    /// Vendor, which decides the wire format.
    pub vendor: Vendor,
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
        Self { options, client, refuses_schema: Arc::default() }
    }

    fn settings(&self) -> WireSettings {
        let at_openai = self.options.base_url.host_str() == Some("api.openai.com");
        WireSettings { model: self.options.model.clone(), max_tokens: self.options.max_tokens, at_openai }
    }

    fn error(&self, kind: ModelErrorKind) -> ModelError {
        ModelError::new(&self.options.name, kind)
    }

    fn encoding(&self) -> Encoding {
        let WireSettings { model, max_tokens, at_openai } = self.settings();
        Encoding { vendor: self.options.vendor, model, max_tokens, at_openai, is_text_only: false }
    }

    fn http_request(&self, request: &ModelRequest) -> Result<Request<Bytes>, ModelError> {
        let unusable = |what: &str| self.error(ModelErrorKind::InvalidAnswer(what.to_owned()));
        let encoded = wire::encode(self.options.vendor, &self.settings(), request);
        let (path, body) = encoded.ok_or_else(|| unusable("this model is not reached over HTTP"))?;
        let mut http = Request::new(Bytes::from(body.to_string()));
        *http.method_mut() = Method::POST;
        *http.uri_mut() = self.url(&path).as_str().parse().map_err(|_| unusable("the base URL is invalid"))?;
        let headers = http.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        self.add_headers(headers)?;
        Ok(http)
    }

    /// Adds the headers of every request: version, key and configured ones.
    fn add_headers(&self, headers: &mut HeaderMap) -> Result<(), ModelError> {
        if self.options.vendor == Vendor::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
        }
        if let Some((name, value)) = self.key_field()? {
            headers.insert(name, value);
        }
        for (name, value) in &self.options.headers {
            headers.insert(name.clone(), value.clone());
        }
        Ok(())
    }

    /// The URL of a request: `path` below the base URL, whose query is kept.
    fn url(&self, path: &str) -> Url {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let mut url = self.options.base_url.clone();
        url.set_path(&format!("{}/{path}", self.options.base_url.path().trim_end_matches('/')));
        let queries: Vec<&str> = [self.options.base_url.query(), query].into_iter().flatten().collect();
        url.set_query((!queries.is_empty()).then(|| queries.join("&")).as_deref());
        url
    }

    fn key_field(&self) -> Result<Option<(HeaderName, HeaderValue)>, ModelError> {
        // A key that was read from a file may end with a line break.
        let Some(key) = self.options.key.as_ref().map(|key| key.expose().trim()) else { return Ok(None) };
        let (name, text) = key_header(self.options.vendor, key);
        let Ok(mut value) = HeaderValue::from_str(&text) else {
            let mut error = self.error(ModelErrorKind::Unauthorized { status: 0 });
            error.vendor_message = Some("it contains characters that are not valid in an HTTP header".to_owned());
            return Err(error);
        };
        value.set_sensitive(true);
        Ok(Some((name, value)))
    }

    /// Opens the stream of an answer. A request that is refused with an answer schema is repeated without it: older
    /// models and compatible servers do not know it, or not together with tools. What was sent is added to `sent`.
    async fn open(&self, request: &ModelRequest, sent: &mut Vec<SentRequest>) -> Result<Answer, ModelError> {
        let mut note = |http: &Request<Bytes>, answer_schema: Option<&Value>| {
            let encoding = self.encoding();
            let answer_schema = answer_schema.cloned();
            sent.push(SentRequest { encoding, answer_schema, body: http.body().clone() });
        };
        let with_schema = self.http_request(request)?;
        if request.answer_schema.is_none() {
            note(&with_schema, None);
            return self.open_patiently(with_schema).await;
        }
        let without = self.http_request(&ModelRequest { answer_schema: None, ..request.clone() })?;
        if self.refuses_schema.load(Ordering::Relaxed) || with_schema.body() == without.body() {
            note(&without, None);
            return self.open_patiently(without).await;
        }
        note(&with_schema, request.answer_schema.as_ref());
        match self.open_patiently(with_schema).await {
            Err(error) if matches!(error.kind, ModelErrorKind::InvalidRequest { .. }) => {
                note(&without, None);
                let answer = self.open_patiently(without).await?;
                tracing::warn!(model = %self.options.name, %error, "the vendor rejects the answer schema; asking without it");
                self.refuses_schema.store(true, Ordering::Relaxed);
                Ok(answer)
            }
            opened => opened,
        }
    }

    /// Opens the stream of an answer, with further attempts while the vendor is busy.
    async fn open_patiently(&self, http: Request<Bytes>) -> Result<Answer, ModelError> {
        let mut attempt = 1;
        loop {
            let began = Instant::now();
            let error = match self.attempt(&http).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let pause = error.retry_after.unwrap_or(self.options.pause * 2_u32.pow(attempt - 1));
            if attempt == ATTEMPTS || !is_repeatable(&error, began.elapsed()) || pause > LONGEST_PAUSE {
                return Err(error);
            }
            tracing::warn!(model = %self.options.name, attempt, %error, "repeating the request to the model");
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
            return Err(self.read_refusal(response).await);
        }
        let media_type = failure::media_type(response.headers());
        if !media_type.is_empty() && media_type != "text/event-stream" {
            return Err(self.not_a_stream(&media_type, response).await);
        }
        let decoder = wire::decoder(self.options.vendor, &self.settings());
        let decoder = decoder.ok_or_else(|| self.error(ModelErrorKind::Cut))?;
        let (sse, ready) = (SseDecoder::new(MAX_EVENT), Vec::new());
        Ok(Answer { response, sse, decoder, ready, unread: MAX_ANSWER, over: false })
    }

    fn unreachable(&self, cause: Option<&WireError>) -> ModelError {
        let base = &self.options.base_url;
        let url = format!("{}{}", base.origin().ascii_serialization(), base.path());
        let mut error = self.error(ModelErrorKind::Unreachable { url });
        error.vendor_message = Some(match cause {
            Some(WireError::Unreachable { reason, .. }) => reason.clone(),
            Some(other) => other.to_string(),
            None => "no answer in time".to_owned(),
        });
        error
    }

    async fn read_refusal(&self, mut response: StreamedResponse) -> ModelError {
        let (status, headers) = (response.status(), response.headers().clone());
        let body = error_body(&mut response).await;
        let refusal = failure::Refusal::read(&body);
        ModelError {
            kind: refusal.kind(status),
            retry_after: refusal.retry_after(&headers, SystemTime::now()),
            vendor_message: refusal.message.map(|text| self.clean(&text)),
            model: self.options.name.clone(),
        }
    }

    /// Success, but no event stream: a proxy's page, or an error with the wrong status.
    async fn not_a_stream(&self, media_type: &str, mut response: StreamedResponse) -> ModelError {
        let body = error_body(&mut response).await;
        let what = format!("`{}` instead of an event stream", self.clean(media_type));
        let mut error = self.error(ModelErrorKind::InvalidAnswer(what));
        error.vendor_message = failure::Refusal::read(&body).message.map(|text| self.clean(&text));
        error
    }

    /// An error inside a stream.
    fn failed(&self, (kind, message): wire::ModelErrorKindWithMessage) -> ModelError {
        ModelError { vendor_message: message.map(|text| self.clean(&text)), ..self.error(kind) }
    }

    /// A vendor's text, bounded and without our key and configured header values, which a vendor may repeat.
    fn clean(&self, text: &str) -> String {
        let key = self.options.key.as_ref().map(|key| key.expose().trim()).filter(|key| !key.is_empty());
        let values = self.options.headers.values().filter_map(|value| value.to_str().ok());
        // Without the scheme, as in `Bearer KEY`. Short values are words such as `true`.
        let values = values.filter_map(|value| value.split_whitespace().last()).filter(|value| value.len() >= SECRET);
        let hidden =
            key.into_iter().chain(values).fold(text.to_owned(), |text, secret| text.replace(secret, "[hidden]"));
        wire::clean_message(&hidden)
    }
}

/// Whether a request is sent again. One that the vendor left unanswered for the longest time is not: the vendor may still
/// work on it, and would begin anew.
fn is_repeatable(error: &ModelError, waited: Duration) -> bool {
    error.is_retryable() && waited < IDLE
}

async fn error_body(response: &mut StreamedResponse) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < MAX_ERROR_BODY {
        match tokio::time::timeout(Duration::from_secs(10), response.chunk()).await {
            Ok(Some(Ok(chunk))) => body.extend_from_slice(&chunk[..chunk.len().min(MAX_ERROR_BODY - body.len())]),
            _ => break,
        }
    }
    body
}

impl Model for HttpModel {
    fn name(&self) -> &str {
        &self.options.name
    }

    fn vendor(&self) -> Vendor {
        self.options.vendor
    }

    fn context_window(&self) -> Option<u64> {
        self.options.context_window
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        let opened = async move {
            let mut sent = Vec::new();
            let state = match self.open(&request, &mut sent).await {
                Ok(answer) => State::Open(Box::new(answer)),
                Err(error) => State::Failed(error),
            };
            let answer = stream::unfold(state, move |state| async move {
                let mut answer = match state {
                    State::Open(answer) => answer,
                    State::Failed(error) => return Some((Err(error), State::Over)),
                    State::Over => return None,
                };
                let event = answer.next(self).await?;
                let state = if event.is_err() { State::Over } else { State::Open(answer) };
                Some((event, state))
            });
            stream::iter(sent.into_iter().map(|sent| Ok(ModelEvent::Sent(sent)))).chain(answer)
        };
        stream::once(opened).flatten().boxed()
    }
}

enum State {
    Open(Box<Answer>),
    Failed(ModelError),
    Over,
}

/// An answer while it is read.
struct Answer {
    response: StreamedResponse,
    sse: SseDecoder,
    decoder: Box<dyn Decoder>,
    /// Decoded events in reverse order.
    ready: Vec<ModelEvent>,
    /// Bytes that the rest of the answer may have.
    unread: usize,
    /// The last event was decoded.
    over: bool,
}

impl Answer {
    /// The next event; `None` after the last one. A stream that ends early is an error.
    async fn next(&mut self, model: &HttpModel) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.ready.pop() {
                if matches!(event, ModelEvent::End { .. }) {
                    self.over = true;
                    self.ready.clear();
                    // Now, because a reader may stop at this event.
                    self.drain().await;
                }
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
                Err(error) => return Some(Err(model.failed(error))),
            }
        }
    }

    /// Reads to the end of the body, if it follows at once.
    async fn drain(&mut self) {
        let rest = async { while let Some(Ok(_)) = self.response.chunk().await {} };
        // A vendor that keeps the body open loses the connection.
        let _drained = tokio::time::timeout(DRAIN, rest).await;
    }

    fn decode(&mut self, chunk: Bytes) -> Result<Vec<ModelEvent>, wire::ModelErrorKindWithMessage> {
        let too_large = || WireError::TooLarge { what: "answer", limit: MAX_ANSWER };
        let rest = self.unread.checked_sub(chunk.len()).ok_or_else(too_large);
        let events = rest.and_then(|rest| {
            self.unread = rest;
            self.sse.push(chunk)
        });
        let events = events.map_err(|error| (ModelErrorKind::InvalidAnswer(error.to_string()), None))?;
        let mut decoded = Vec::new();
        for event in events.iter().filter(|event| !event.data.is_empty()) {
            decoded.extend(self.decoder.push(event)?);
        }
        Ok(decoded)
    }
}

fn key_header(vendor: Vendor, key: &str) -> (HeaderName, String) {
    match vendor {
        Vendor::Anthropic => (HeaderName::from_static("x-api-key"), key.to_owned()),
        Vendor::Gemini => (HeaderName::from_static("x-goog-api-key"), key.to_owned()),
        Vendor::Openai | Vendor::OpenaiChat | Vendor::Scripted => (header::AUTHORIZATION, format!("Bearer {key}")),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_the_vendor_may_still_work_on_is_not_sent_again() {
        let error = ModelError::new("m", ModelErrorKind::Unreachable { url: "http://127.0.0.1/".to_owned() });
        assert!(is_repeatable(&error, Duration::from_secs(20)), "a connection that broke");
        assert!(!is_repeatable(&error, IDLE), "no answer in time");
    }
}
