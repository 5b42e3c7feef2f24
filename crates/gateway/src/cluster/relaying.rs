//! Passes the response of another gateway on as it comes, within the budget of the client that reads it.
//!
//! A response that breaks off is ended with an error for the request: its outcome is unknown.

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use futures_util::{
    future::BoxFuture,
    stream::{self, BoxStream, StreamExt},
};
use http::{HeaderName, Response, header};
use toolway_wire::{
    budget::{Charge, MemoryBudget, OverBudget},
    down::http::ResponseBody,
    header as mcp,
    limit::Limits,
    message::{Envelope, Id, MessageKind},
    peer::PeerResponse,
    sse::{self, SseDecoder},
};

use super::forwarding::{outcome_unknown, unknown};

/// Headers of a response that a client gets from the gateway that has answered.
const RELAYED: [HeaderName; 7] = [
    header::CONTENT_TYPE,
    header::CACHE_CONTROL,
    header::RETRY_AFTER,
    header::ALLOW,
    header::WWW_AUTHENTICATE,
    mcp::SESSION_ID,
    HeaderName::from_static("x-accel-buffering"),
];
/// Largest event that is held back until it is complete.
const MAX_HELD: usize = 1024 * 1024;
/// Largest piece of a stream that is passed on without a charge; the number of connections bounds these.
const UNCHARGED: usize = 16 * 1024;

/// What is kept of a response that is relayed.
pub(crate) struct RelayBounds {
    /// Largest body that is no stream.
    pub(crate) body_bytes: usize,
    /// The budget of the client.
    pub(crate) memory: MemoryBudget,
}

/// The response of another gateway, for the client whose request has this id. If it breaks off or exceeds its bounds, or if that
/// gateway is taken over before its end, the client is told that the outcome is unknown.
pub(crate) async fn relayed(
    answer: PeerResponse,
    id: Option<Id>,
    bounds: RelayBounds,
    taken_over: BoxFuture<'static, ()>,
) -> Response<ResponseBody> {
    let status = answer.response.status();
    let headers = answer.response.headers().clone();
    let is_stream = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == b"text/event-stream");
    let mut response = if is_stream {
        Response::new(ResponseBody::relayed(events(answer.pieces(), id, bounds.memory, taken_over)))
    } else {
        let body = tokio::select! {
            body = whole(answer.pieces(), &bounds) => body,
            () = taken_over => Err(BrokenOff::TakenOver),
        };
        match body {
            Ok(body) => Response::new(ResponseBody::whole(body)),
            Err(problem) => {
                tracing::warn!(%problem, "a response that was forwarded has broken off");
                return outcome_unknown(id.as_ref());
            }
        }
    };
    *response.status_mut() = status;
    for name in &RELAYED {
        for value in headers.get_all(name) {
            response.headers_mut().append(name, value.clone());
        }
    }
    response
}

type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// Why the end of a response is not passed on.
#[derive(Debug, thiserror::Error)]
enum BrokenOff {
    #[error(transparent)]
    Lost(#[from] io::Error),
    #[error("the gateway was taken over")]
    TakenOver,
    #[error("the response is too large")]
    TooLarge,
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
}

/// A body that is no stream. It holds its charge until the client has read it.
async fn whole(mut pieces: Pieces, bounds: &RelayBounds) -> Result<Bytes, BrokenOff> {
    let mut body = Vec::new();
    let mut charge = Charge::empty(bounds.memory.clone());
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        let needed = body.len() + piece.len();
        if bounds.body_bytes < needed {
            return Err(BrokenOff::TooLarge);
        }
        if body.capacity() < needed {
            let capacity = needed.saturating_mul(2).min(bounds.body_bytes);
            charge.set(capacity)?;
            body.reserve_exact(capacity - body.len());
        }
        body.extend_from_slice(&piece);
    }
    body.shrink_to_fit();
    charge.shrink(charge.bytes().saturating_sub(body.capacity()));
    Ok(Arc::new(charge).attach(body.into()))
}

/// The events of a stream, each whole, and one more if the stream breaks off before its end.
fn events(
    pieces: Pieces,
    id: Option<Id>,
    memory: MemoryBudget,
    taken_over: BoxFuture<'static, ()>,
) -> BoxStream<'static, Bytes> {
    let charge = Charge::empty(memory.clone());
    let given = Given::Whole(Bytes::new());
    let open = Some(OpenEvents { pieces, held: BytesMut::new(), charge, memory, id, given, taken_over });
    let events = stream::unfold(open, |open| async {
        let mut open = open?;
        loop {
            let piece = tokio::select! {
                piece = open.pieces.next() => piece.map(|piece| piece.map_err(BrokenOff::from)),
                () = &mut open.taken_over => Some(Err(BrokenOff::TakenOver)),
            };
            let Some(piece) = piece else { return Some((open.held.freeze(), None)) };
            match piece.and_then(|piece| Ok(open.complete(piece)?)) {
                Ok(Some(whole)) => {
                    open.note(&whole);
                    return Some((whole, Some(open)));
                }
                Ok(None) => {}
                Err(problem) => {
                    tracing::warn!(%problem, "a response that was forwarded has broken off");
                    return open.lost().map(|event| (event, None));
                }
            }
        }
    });
    Box::pin(events.filter(|piece| std::future::ready(!piece.is_empty())))
}

/// A stream that is relayed.
struct OpenEvents {
    pieces: Pieces,
    /// The beginning of an event.
    held: BytesMut,
    /// Of what is held.
    charge: Charge,
    memory: MemoryBudget,
    /// Of the request, which is told so if the stream breaks off.
    id: Option<Id>,
    given: Given,
    /// Resolves once the other gateway was taken over.
    taken_over: BoxFuture<'static, ()>,
}

/// What the client was given last.
enum Given {
    /// Whole events.
    Whole(Bytes),
    /// A part of an event that is too long to be held, without its end.
    Part,
    /// The end of such an event.
    LongEnd,
}

impl OpenEvents {
    fn note(&mut self, bytes: &Bytes) {
        self.given = match self.given {
            _ if !bytes.ends_with(END) => Given::Part,
            Given::Part => Given::LongEnd,
            Given::Whole(_) | Given::LongEnd => Given::Whole(bytes.clone()),
        };
    }

    /// The event that ends a stream which has broken off; `None` if the client has its response.
    fn lost(&self) -> Option<Bytes> {
        let id = self.id.as_ref()?;
        let event = sse::encode(unknown(Some(id)));
        match &self.given {
            Given::Whole(events) if has_response(events, id) => None,
            Given::Whole(_) => Some(event),
            // The client may read it only after the end of the line before it.
            Given::Part => Some([END, &event].concat().into()),
            // Nothing else is that long, and nothing follows it but the end.
            Given::LongEnd => None,
        }
    }

    /// The events that are complete with this piece. They hold their charge until the client has read them.
    fn complete(&mut self, piece: Bytes) -> Result<Option<Bytes>, OverBudget> {
        if self.held.is_empty() && piece.ends_with(END) {
            if piece.len() <= UNCHARGED {
                return Ok(Some(piece));
            }
            return Ok(Some(Arc::new(self.memory.charge(piece.len())?).attach(piece)));
        }
        self.charge.grow(piece.len())?;
        self.held.extend_from_slice(&piece);
        let end = self.held.windows(END.len()).rposition(|window| window == END).map(|at| at + END.len());
        let end = end.or_else(|| (MAX_HELD < self.held.len()).then_some(self.held.len()));
        let Some(end) = end else { return Ok(None) };
        let whole = self.held.split_to(end).freeze();
        let mut charge = std::mem::replace(&mut self.charge, Charge::empty(self.memory.clone()));
        charge.shrink(self.held.len());
        self.charge.grow(self.held.len())?;
        Ok(Some(Arc::new(charge).attach(whole)))
    }
}

/// Whether these events, which are whole, have the response to the request with this id.
fn has_response(events: &Bytes, id: &Id) -> bool {
    let limits = Limits { message_bytes: events.len(), ..Limits::default() };
    let decoded = SseDecoder::new(events.len()).push(events.clone()).unwrap_or_default();
    let messages = decoded.into_iter().filter_map(|event| Envelope::read(event.data, &limits).ok());
    let is_response = |envelope: &Envelope| matches!(envelope.kind(), MessageKind::Result | MessageKind::Error);
    messages.filter(is_response).any(|response| response.id() == Some(id))
}

/// What ends an event.
const END: &[u8] = b"\n\n";

#[cfg(test)]
mod tests {
    use std::io;

    use bytes::Bytes;
    use futures_util::{StreamExt, stream};
    use serde_json::Value;
    use toolway_wire::{
        budget::MemoryBudget,
        limit::Limits,
        message::Envelope,
        sse::{SseDecoder, encode},
    };

    use super::{MAX_HELD, events};

    /// The messages that a client reads of a stream that breaks off after these pieces. What is not a message is null.
    async fn broken_off(pieces: &[Bytes]) -> Vec<Value> {
        let request = Envelope::read(Bytes::from(r#"{"jsonrpc":"2.0","id":7,"method":"x"}"#), &Limits::default());
        let pieces: Vec<_> = pieces.iter().cloned().map(Ok).chain([Err(io::ErrorKind::BrokenPipe.into())]).collect();
        let (id, memory) = (request.unwrap().id().cloned(), MemoryBudget::default());
        let read = events(stream::iter(pieces).boxed(), id, memory, Box::pin(std::future::pending()));
        let read: Vec<u8> = read.collect::<Vec<_>>().await.concat();
        let events = SseDecoder::new(usize::MAX).push(read.into()).unwrap();
        events.iter().map(|event| serde_json::from_slice(&event.data).unwrap_or_default()).collect()
    }

    fn message(id: u64, filler: usize) -> Bytes {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":"{}"}}}}"#, "x".repeat(filler)).into()
    }

    #[tokio::test]
    async fn a_stream_that_breaks_off_ends_with_an_error() {
        for before in [&[][..], &[encode(message(8, 1))], &[encode(message(8, 1)), Bytes::from("data: {\"js")]] {
            let read = broken_off(before).await;
            let last = read.last().unwrap();
            assert_eq!((&last["id"], &last["error"]["data"]["outcome"]), (&7.into(), &"unknown".into()), "{last}");
        }
    }

    #[tokio::test]
    async fn an_error_in_the_middle_of_a_long_event_can_be_read() {
        let long = encode(message(7, 2 * MAX_HELD));
        let read = broken_off(&[long.slice(..MAX_HELD + MAX_HELD / 2)]).await;
        assert_eq!((&read[0], &read[1]["error"]["data"]["outcome"]), (&Value::Null, &"unknown".into()));
    }

    #[tokio::test]
    async fn a_response_that_was_passed_on_is_the_only_one() {
        let long = encode(message(7, 2 * MAX_HELD));
        let parts = [long.slice(..MAX_HELD + 9), long.slice(MAX_HELD + 9..)];
        for pieces in [&[encode(message(7, 1))][..], &[encode(message(8, 1)), encode(message(7, 1))], &parts] {
            let read = broken_off(pieces).await;
            assert!(read.iter().all(|message| message.get("error").is_none()), "{}", read.len());
        }
    }
}
