//! `/api/v1/events`: one stream of all events, which resumes after `Last-Event-ID`.

use futures_util::stream::StreamExt;
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use super::Answered;
use crate::{access::Session, console::Console, error::ApiError, reply};

/// Streams at the same time.
const MAX_STREAMS: usize = 32;

pub(super) fn stream(console: &Console, session: &Session, headers: &HeaderMap) -> Answered {
    let too_many = || {
        let message = format!("more than {MAX_STREAMS} pages of this console are open");
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", message).hint("close some of them")
    };
    let open = console.streams.open(MAX_STREAMS).ok_or_else(too_many)?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let expired = tokio::time::sleep_until(Instant::from_std(session.expires));
    let events = console.ring.read(last).take_until(expired).map(move |event| {
        // Counted until the stream is dropped.
        let _open = &open;
        event
    });
    Ok(reply::events(events.boxed()).map(|body| body.until(console.draining.clone())))
}
