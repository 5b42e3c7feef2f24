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
    message::Id,
    peer::PeerResponse,
    sse,
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
    let lost = id.map(|id| sse::encode(unknown(Some(&id))));
    let charge = Charge::empty(memory.clone());
    let open = Some(OpenEvents { pieces, held: BytesMut::new(), charge, memory, lost, taken_over });
    let events = stream::unfold(open, |open| async {
        let mut open = open?;
        loop {
            let piece = tokio::select! {
                piece = open.pieces.next() => piece.map(|piece| piece.map_err(BrokenOff::from)),
                () = &mut open.taken_over => Some(Err(BrokenOff::TakenOver)),
            };
            let Some(piece) = piece else { return Some((open.held.freeze(), None)) };
            match piece.and_then(|piece| Ok(open.complete(piece)?)) {
                Ok(Some(whole)) => return Some((whole, Some(open))),
                Ok(None) => {}
                Err(problem) => {
                    tracing::warn!(%problem, "a response that was forwarded has broken off");
                    return open.lost.map(|event| (event, None));
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
    /// The event that is sent if the stream breaks off.
    lost: Option<Bytes>,
    /// Resolves once the other gateway was taken over.
    taken_over: BoxFuture<'static, ()>,
}

impl OpenEvents {
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

/// What ends an event.
const END: &[u8] = b"\n\n";
