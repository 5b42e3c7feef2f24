//! What comes back on one lane: a JSON body, a stream of events, or a status.

use bytes::{Bytes, BytesMut};
use http::{StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::request::Reply;
use crate::{
    error::WireError,
    limit::Limits,
    sse::{Decoder, Event},
    up::transport::{Flow, Lane, LaneEnd, Sink},
};

/// Of an error's body no more is kept.
const STATUS_BODY: usize = 256 * 1024;

/// How a lane ended.
pub(super) enum End {
    /// For good.
    Lane(LaneEnd),
    /// In the middle; perhaps it can be taken up again.
    Broken(Broken),
}

/// A stream that closed before the answer.
#[derive(Debug, Default)]
pub(super) struct Broken {
    /// The last event seen, without which it cannot be taken up again.
    pub(super) last_event: Option<String>,
    /// How long the server wants to be left alone, in milliseconds.
    pub(super) retry: Option<u64>,
    /// Whether anything came since it was last taken up.
    pub(super) progressed: bool,
}

/// Reads a lane to its end, handing every message to the sink.
pub(super) async fn read(sink: &dyn Sink, lane: Lane, response: Reply, limits: &Limits) -> End {
    let status = response.status();
    if !status.is_success() {
        return End::Lane(status_end(response, limits).await);
    }
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "text/event-stream" => read_events(sink, lane, response.into_body(), limits).await,
        "application/json" => End::Lane(read_json(sink, lane, response, limits).await),
        _ if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => End::Lane(LaneEnd::Accepted),
        _ => End::Lane(LaneEnd::Failed(WireError::protocol(format!("an answer of type `{kind}`")))),
    }
}

/// Reads the events of a stream to its end.
pub(super) async fn read_events(sink: &dyn Sink, lane: Lane, mut body: Incoming, limits: &Limits) -> End {
    let mut decoder = Decoder::new(limits.event_bytes);
    let mut broken = Broken::default();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { break };
        let Ok(chunk) = frame.into_data() else { continue };
        let events = match decoder.push(chunk) {
            Ok(events) => events,
            Err(error) => return End::Lane(LaneEnd::Failed(error)),
        };
        for event in events {
            broken.note(&event);
            if let Some(message) = message(event) {
                if sink.message(lane, message) == Flow::Done && lane != Lane::Standing {
                    return End::Lane(LaneEnd::Over);
                }
            }
        }
    }
    End::Broken(broken)
}

/// The reply to a notification or an answer of ours: taken, or a status that says why not.
pub(super) async fn acknowledged(response: Reply, limits: &Limits) -> LaneEnd {
    if response.status().is_success() {
        return LaneEnd::Accepted;
    }
    status_end(response, limits).await
}

async fn read_json(sink: &dyn Sink, lane: Lane, response: Reply, limits: &Limits) -> LaneEnd {
    let status = response.status();
    match collect(response.into_body(), limits.message_bytes).await {
        Ok(body) if body.is_empty() && status != StatusCode::OK => LaneEnd::Accepted,
        Ok(body) => {
            sink.message(lane, body);
            LaneEnd::Over
        }
        Err(error) => LaneEnd::Failed(error),
    }
}

async fn status_end(response: Reply, limits: &Limits) -> LaneEnd {
    let status = response.status();
    // A body that is too long or breaks off says nothing worth waiting for.
    let body = collect(response.into_body(), limits.message_bytes.min(STATUS_BODY)).await.unwrap_or_default();
    LaneEnd::Status { status, body }
}

/// The whole body, within a bound. One frame is taken as it is; more are copied together once.
async fn collect(mut body: Incoming, limit: usize) -> Result<Bytes, WireError> {
    let too_large = || WireError::TooLarge { what: "message", limit };
    if body.size_hint().exact().is_some_and(|size| (limit as u64) < size) {
        return Err(too_large());
    }
    let (mut frames, mut size) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| WireError::Ended(format!("the answer broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        size += data.len();
        if limit < size {
            return Err(too_large());
        }
        frames.push(data);
    }
    if frames.len() < 2 {
        return Ok(frames.pop().unwrap_or_default());
    }
    let mut whole = BytesMut::with_capacity(size);
    frames.iter().for_each(|frame| whole.extend_from_slice(frame));
    Ok(whole.freeze())
}

/// The message an event carries; other kinds of events and empty ones carry none.
pub(super) fn message(event: Event) -> Option<Bytes> {
    let named = event.name.as_deref().unwrap_or("message");
    (named == "message" && !event.data.is_empty()).then_some(event.data)
}

impl Broken {
    pub(super) fn note(&mut self, event: &Event) {
        self.progressed = true;
        if let Some(id) = &event.id {
            self.last_event = Some(id.clone());
        }
        self.retry = event.retry.or(self.retry);
    }
}
