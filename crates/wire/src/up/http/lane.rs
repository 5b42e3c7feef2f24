//! What comes back on one lane: a JSON body, a stream of events, or a status.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{StatusCode, header};

use crate::{
    error::WireError,
    limit::Limits,
    pieces::Pieces,
    sse::{SseDecoder, SseEvent},
    up::{
        client::HttpResponse,
        transport::{Flow, Lane, LaneEnd, Sink},
    },
};

/// Of an error's body no more is kept.
const STATUS_BODY: usize = 256 * 1024;
/// Bodies up to this size are copied out of the buffer they came in.
const SMALL: usize = 4 * 1024;
/// How long a stream may stay open after its answer.
const LAST_CHUNK: Duration = Duration::from_millis(250);

/// The type of one body.
const JSON: &str = "application/json";

/// How a lane ended.
pub(super) enum LaneOutcome {
    /// For good.
    Lane(LaneEnd),
    /// In the middle; perhaps it can be taken up again.
    Broken(BrokenStream),
}

/// A stream that closed before the answer.
#[derive(Debug, Default)]
pub(super) struct BrokenStream {
    /// The last event seen, without which it cannot be taken up again.
    pub(super) last_event: Option<String>,
    /// How long the server wants to be left alone, in milliseconds.
    pub(super) retry: Option<u64>,
    /// Whether anything came since it was last taken up.
    pub(super) progressed: bool,
    /// What broke it; nothing where the server closed it in good order.
    pub(super) error: Option<WireError>,
}

/// Reads a lane to its end, handing every message to the sink.
pub(super) async fn read(sink: &dyn Sink, lane: Lane, response: &mut HttpResponse, limits: &Limits) -> LaneOutcome {
    let status = response.status();
    // All but one body is large to wait for, and on the heap: most wait for one body.
    if !status.is_success() {
        return LaneOutcome::Lane(Box::pin(status_end(response, limits)).await);
    }
    match content_type(response) {
        kind if kind.eq_ignore_ascii_case(JSON) => LaneOutcome::Lane(read_json(sink, lane, response, limits).await),
        kind if kind.eq_ignore_ascii_case("text/event-stream") => {
            Box::pin(read_events(sink, lane, response, limits)).await
        }
        _ if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => LaneOutcome::Lane(LaneEnd::Accepted),
        kind => LaneOutcome::Lane(LaneEnd::Failed(WireError::protocol(format!("an answer of type `{kind}`")))),
    }
}

/// Whether a good answer comes as one body, with nothing before it.
pub(super) fn is_one_body(response: &HttpResponse) -> bool {
    response.status() == StatusCode::OK && content_type(response).eq_ignore_ascii_case(JSON)
}

/// The type of a reply, without its parameters.
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
    let mut broken = BrokenStream::default();
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
        for event in events {
            broken.note(&event);
            if let Some(message) = event_message(event)
                && sink.message(lane, message) == Flow::Done
                && lane != Lane::Standing
            {
                // The server ends the stream right after the answer; then its connection can be used again.
                finish(response).await;
                return LaneOutcome::Lane(LaneEnd::Over);
            }
        }
    }
    LaneOutcome::Broken(broken)
}

/// Reads what may still stand between the answer and the end of its stream; a server that leaves it open loses it.
async fn finish(response: &mut HttpResponse) {
    drop(tokio::time::timeout(LAST_CHUNK, async { while let Some(Ok(_)) = response.chunk().await {} }).await);
}

/// The reply to a notification or an answer of ours: taken, or a status that says why not.
pub(super) async fn read_acknowledgement(response: &mut HttpResponse, limits: &Limits) -> LaneEnd {
    if response.status().is_success() {
        finish(response).await;
        return LaneEnd::Accepted;
    }
    status_end(response, limits).await
}

async fn read_json(sink: &dyn Sink, lane: Lane, response: &mut HttpResponse, limits: &Limits) -> LaneEnd {
    let status = response.status();
    match collect(response, limits.message_bytes).await {
        Ok(body) if body.is_empty() && status != StatusCode::OK => LaneEnd::Accepted,
        Ok(body) => {
            sink.message(lane, body);
            LaneEnd::Over
        }
        Err(error) => LaneEnd::Failed(error),
    }
}

async fn status_end(response: &mut HttpResponse, limits: &Limits) -> LaneEnd {
    let status = response.status();
    // A body that is too long or breaks off says nothing worth waiting for.
    let body = collect(response, limits.message_bytes.min(STATUS_BODY)).await.unwrap_or_default();
    LaneEnd::Status { status, body }
}

/// The whole body, within a bound.
async fn collect(response: &mut HttpResponse, limit: usize) -> Result<Bytes, WireError> {
    let too_large = || WireError::TooLarge { what: "message", limit };
    let announced = response.size();
    if announced.is_some_and(|size| (limit as u64) < size) {
        return Err(too_large());
    }
    let announced = announced.and_then(|size| usize::try_from(size).ok());
    // A large one is read where it stays.
    if let Some(size) = announced.filter(|size| SMALL < *size) {
        let mut whole = BytesMut::with_capacity(size);
        response.rest(&mut whole).await?;
        return Ok(whole.freeze());
    }
    let Some(first) = response.chunk().await.transpose()? else { return Ok(Bytes::new()) };
    if announced == Some(first.len()) {
        // Nothing more can come; the connection is kept when its end has been seen.
        if !response.is_over() {
            response.chunk().await.transpose()?;
        }
        // A small body is copied, so that the buffer it came in can be read into again.
        return Ok(Bytes::copy_from_slice(&first));
    }
    let mut pieces = Pieces::default();
    pieces.push(first);
    while pieces.len() <= limit {
        match response.chunk().await.transpose()? {
            Some(chunk) => pieces.push(chunk),
            None => return Ok(pieces.whole()),
        }
    }
    Err(too_large())
}

/// The message an event carries; other kinds of events and empty ones carry none.
pub(super) fn event_message(event: SseEvent) -> Option<Bytes> {
    let named = event.name.as_deref().unwrap_or("message");
    (named == "message" && !event.data.is_empty()).then_some(event.data)
}

impl BrokenStream {
    /// The end of a lane that is not taken up again.
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
