//! Reads the response of one lane: a JSON body, an event stream, or an HTTP error.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{StatusCode, header};

use crate::{
    budget::{Charge, MemoryBudget},
    error::WireError,
    limit::Limits,
    pieces::Pieces,
    sse::{SseDecoder, SseEvent},
    up::{
        client::HttpResponse,
        transport::{Flow, Lane, LaneEnd, Sink},
    },
};

/// Largest error body in bytes.
const STATUS_BODY: usize = 256 * 1024;
/// Largest part of the body of a refusal that is kept, in bytes.
const REFUSAL_BODY: usize = 1024;
/// Time limit for the body of a refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(500);
/// Bodies up to this size, in bytes, are copied, so that the read buffer can be reused.
const SMALL: usize = 4 * 1024;
/// How long to wait for the end of a stream after its response.
const LAST_CHUNK: Duration = Duration::from_millis(250);

/// Content type of a single body.
const JSON: &str = "application/json";

/// Result of reading a lane.
pub(super) enum LaneOutcome {
    /// The lane has ended.
    Lane(LaneEnd),
    /// The stream closed before the response; it may be resumable.
    Broken(BrokenStream),
}

/// State of a stream that closed before the response.
#[derive(Debug, Default)]
pub(super) struct BrokenStream {
    /// Id of the last event; without it the stream cannot be resumed.
    pub(super) last_event: Option<String>,
    /// `retry` delay of the server in milliseconds.
    pub(super) retry: Option<u64>,
    /// Whether an event arrived since the last attempt.
    pub(super) progressed: bool,
    /// The error; `None` if the server closed the stream normally.
    pub(super) error: Option<WireError>,
}

/// Reads a lane to its end and passes every message to the sink.
pub(super) async fn read(sink: &dyn Sink, lane: Lane, response: &mut HttpResponse, limits: &Limits) -> LaneOutcome {
    let status = response.status();
    // Most lanes are a single body; the other, larger futures are boxed.
    if !status.is_success() {
        return LaneOutcome::Lane(Box::pin(status_end(response, limits)).await);
    }
    match content_type(response) {
        kind if kind.eq_ignore_ascii_case(JSON) => LaneOutcome::Lane(read_json(sink, lane, response, limits).await),
        kind if kind.eq_ignore_ascii_case("text/event-stream") => {
            Box::pin(read_events(sink, lane, response, limits)).await
        }
        _ if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => LaneOutcome::Lane(LaneEnd::Accepted),
        // A page for people: not an MCP endpoint.
        kind if kind.eq_ignore_ascii_case("text/html") => {
            LaneOutcome::Lane(Box::pin(status_end(response, limits)).await)
        }
        kind => LaneOutcome::Lane(LaneEnd::Failed(WireError::protocol(format!("unexpected content type `{kind}`")))),
    }
}

/// Whether a successful response is a single JSON body.
pub(super) fn is_one_body(response: &HttpResponse) -> bool {
    response.status() == StatusCode::OK && content_type(response).eq_ignore_ascii_case(JSON)
}

/// Content type without parameters.
fn content_type(response: &HttpResponse) -> &str {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind == JSON {
        return kind;
    }
    kind.split(';').next().unwrap_or_default().trim()
}

/// Reads the events of a stream to its end.
async fn read_events(sink: &dyn Sink, lane: Lane, response: &mut HttpResponse, limits: &Limits) -> LaneOutcome {
    let mut decoder = SseDecoder::new(limits.event_bytes);
    let (mut broken, mut charge) = (BrokenStream::default(), Charge::empty(limits.memory.clone()));
    while let Some(chunk) = response.chunk().await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(error) => {
                broken.error = Some(error);
                break;
            }
        };
        let events = match decoder.push(chunk) {
            Ok(events) => events,
            Err(error) => return LaneOutcome::Lane(LaneEnd::Failed(error)),
        };
        if let Err(error) = charge.set(decoder.incomplete_bytes()) {
            return LaneOutcome::Lane(LaneEnd::Failed(error.into()));
        }
        for event in events {
            broken.note(&event);
            if let Some(message) = event_message(event)
                && sink.message(lane, message) == Flow::Done
                && lane != Lane::Standing
            {
                // The server ends the stream right after the response; then its connection can be reused.
                finish(response).await;
                return LaneOutcome::Lane(LaneEnd::Over);
            }
        }
    }
    LaneOutcome::Broken(broken)
}

/// Reads up to the end of the stream after its response; if the server leaves it open, the connection is not reused.
async fn finish(response: &mut HttpResponse) {
    drop(tokio::time::timeout(LAST_CHUNK, async { while let Some(Ok(_)) = response.chunk().await {} }).await);
}

/// Reads the HTTP response to a notification or a response of ours.
pub(super) async fn read_acknowledgement(response: &mut HttpResponse, limits: &Limits) -> LaneEnd {
    if response.status().is_success() {
        finish(response).await;
        return LaneEnd::Accepted;
    }
    status_end(response, limits).await
}

async fn read_json(sink: &dyn Sink, lane: Lane, response: &mut HttpResponse, limits: &Limits) -> LaneEnd {
    let status = response.status();
    match collect(response, limits.message_bytes, &limits.memory).await {
        Ok(body) if body.is_empty() && status != StatusCode::OK => LaneEnd::Accepted,
        Ok(body) => {
            sink.message(lane, body);
            LaneEnd::Over
        }
        Err(error) => LaneEnd::Failed(error),
    }
}

/// Start of the body of a refusal; empty if it does not arrive soon.
pub(super) async fn start_of_body(response: &mut HttpResponse) -> String {
    let piece = tokio::time::timeout(REFUSAL_TIMEOUT, response.chunk()).await;
    let piece = piece.ok().flatten().and_then(Result::ok).unwrap_or_default();
    String::from_utf8_lossy(&piece[..piece.len().min(REFUSAL_BODY)]).into_owned()
}

async fn status_end(response: &mut HttpResponse, limits: &Limits) -> LaneEnd {
    let status = response.status();
    // A body that is too long or truncated is ignored.
    let body = collect(response, limits.message_bytes.min(STATUS_BODY), &limits.memory).await.unwrap_or_default();
    LaneEnd::Status { status, body }
}

/// Reads the whole body, up to `limit` bytes. An incomplete body is charged to `memory`.
async fn collect(response: &mut HttpResponse, limit: usize, memory: &MemoryBudget) -> Result<Bytes, WireError> {
    let too_large = || WireError::TooLarge { what: "message", limit };
    let length = response.size();
    if length.is_some_and(|size| (limit as u64) < size) {
        return Err(too_large());
    }
    let length = length.and_then(|size| usize::try_from(size).ok());
    // A large body is read directly into its final buffer.
    if let Some(size) = length.filter(|size| SMALL < *size) {
        let _charge = memory.charge(size)?;
        let mut whole = BytesMut::with_capacity(size);
        response.rest(&mut whole).await?;
        return Ok(whole.freeze());
    }
    let Some(first) = response.chunk().await.transpose()? else { return Ok(Bytes::new()) };
    if length == Some(first.len()) {
        // The body is complete; reading its end returns the connection to the pool.
        if !response.is_over() {
            response.chunk().await.transpose()?;
        }
        // Copied, so that the read buffer can be reused.
        return Ok(Bytes::copy_from_slice(&first));
    }
    let (mut pieces, mut charge) = (Pieces::default(), memory.charge(first.len())?);
    pieces.push(first);
    while pieces.len() <= limit {
        match response.chunk().await.transpose()? {
            Some(chunk) => {
                charge.grow(chunk.len())?;
                pieces.push(chunk);
            }
            None => return Ok(pieces.whole()),
        }
    }
    Err(too_large())
}

/// Returns the message of an event; `None` for other event types and empty events.
pub(super) fn event_message(event: SseEvent) -> Option<Bytes> {
    let named = event.name.as_deref().unwrap_or("message");
    (named == "message" && !event.data.is_empty()).then_some(event.data)
}

impl BrokenStream {
    /// The end of the lane if the stream is not resumed.
    pub(super) fn into_lane_end(self) -> LaneEnd {
        self.error.map_or(LaneEnd::Over, LaneEnd::Failed)
    }

    pub(super) fn note(&mut self, event: &SseEvent) {
        self.progressed = true;
        if let Some(id) = &event.id {
            self.last_event = Some(id.clone());
        }
        self.retry = event.retry.or(self.retry);
    }
}
