//! Response bodies: one message, or events as they come, with keep-alive comments in between.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use hyper::body::{Body, Frame, SizeHint};
use tokio::{
    sync::mpsc,
    time::{Instant, Sleep},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::http_sse::SseSessionGuard;
use crate::{
    down::{
        accent::OutgoingMessage,
        session::DownstreamSession,
        stream::{StreamEvent, StreamReader},
    },
    sse,
};

/// Delay after which a client that lost its stream should resume it.
const RETRY_MILLIS: u64 = 1_000;

/// Body of an HTTP response.
pub struct ResponseBody(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Events {
        first: Option<OutgoingMessage>,
        rest: mpsc::Receiver<OutgoingMessage>,
        alive: KeepAlive,
    },
    /// The stream of the HTTP+SSE transport; begins with the `endpoint` event.
    HttpSse {
        _hold: SseSessionGuard,
        endpoint: Option<Bytes>,
        reader: StreamReader,
        alive: KeepAlive,
    },
    /// A stream of a session; begins with an event id to resume from, or a comment if the revision has no such event.
    Stream {
        session: Arc<DownstreamSession>,
        reader: StreamReader,
        begun: bool,
        alive: KeepAlive,
    },
    /// Encoded events of the embedding server.
    Pieces {
        pieces: BoxStream<'static, Bytes>,
        alive: KeepAlive,
    },
    /// The body of another gateway, as it comes: its events have keep-alive comments in between already.
    Relayed(BoxStream<'static, Bytes>),
    /// A body that ends when the client loses access.
    Until {
        body: Box<ResponseBody>,
        over: Pin<Box<WaitForCancellationFutureOwned>>,
    },
}

/// Timer for keep-alive comments.
struct KeepAlive {
    every: Duration,
    next: Pin<Box<Sleep>>,
}

impl ResponseBody {
    /// A complete body.
    pub fn whole(message: Bytes) -> Self {
        Self(Kind::Whole(Some(message).filter(|message| !message.is_empty())))
    }

    /// The same body, which ends when `over` is cancelled. A complete body is not affected.
    #[must_use]
    pub fn until(self, over: CancellationToken) -> Self {
        match self.0 {
            Kind::Whole(_) => self,
            _ => Self(Kind::Until { body: Box::new(self), over: Box::pin(over.cancelled_owned()) }),
        }
    }

    /// An event stream of the embedding server: its encoded events, with keep-alive comments in between.
    pub fn pieces(pieces: BoxStream<'static, Bytes>, keep_alive: Duration) -> Self {
        Self(Kind::Pieces { pieces, alive: KeepAlive::new(keep_alive) })
    }

    /// The body of another gateway, in pieces of any size.
    pub fn relayed(pieces: BoxStream<'static, Bytes>) -> Self {
        Self(Kind::Relayed(pieces))
    }

    pub(super) fn events(
        first: Option<OutgoingMessage>,
        rest: mpsc::Receiver<OutgoingMessage>,
        keep_alive: Duration,
    ) -> Self {
        Self(Kind::Events { first, rest, alive: KeepAlive::new(keep_alive) })
    }

    pub(super) fn http_sse(
        guard: SseSessionGuard,
        endpoint: Bytes,
        reader: StreamReader,
        keep_alive: Duration,
    ) -> Self {
        let (endpoint, alive) = (Some(endpoint), KeepAlive::new(keep_alive));
        Self(Kind::HttpSse { _hold: guard, endpoint, reader, alive })
    }

    pub(super) fn stream(session: Arc<DownstreamSession>, reader: StreamReader, keep_alive: Duration) -> Self {
        Self(Kind::Stream { session, reader, begun: false, alive: KeepAlive::new(keep_alive) })
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (event, alive) = match &mut self.0 {
            Kind::Until { body, over } => match over.as_mut().poll(context) {
                Poll::Ready(()) => return Poll::Ready(None),
                Poll::Pending => return Pin::new(&mut **body).poll_frame(context),
            },
            Kind::Whole(message) => return Poll::Ready(message.take().map(|message| Ok(Frame::data(message)))),
            Kind::Relayed(pieces) => {
                return pieces.poll_next_unpin(context).map(|piece| piece.map(Frame::data).map(Ok));
            }
            Kind::Pieces { pieces, alive } => (pieces.poll_next_unpin(context), alive),
            Kind::Events { first, rest, alive } => match first.take() {
                Some(message) => (Poll::Ready(Some(message.framed(sse::encode))), alive),
                None => {
                    (rest.poll_recv(context).map(|message| message.map(|message| message.framed(sse::encode))), alive)
                }
            },
            Kind::HttpSse { endpoint, reader, alive, .. } => match endpoint.take() {
                Some(endpoint) => (Poll::Ready(Some(endpoint)), alive),
                None => (reader.poll_next(context).map(|event| event.map(|it| it.message.framed(sse::encode))), alive),
            },
            Kind::Stream { session, reader, begun, alive } if !*begun => {
                *begun = true;
                let opening = if session.caller.revision.has_opening_event() {
                    sse::encode_opening(&event_id(reader, reader.position()), RETRY_MILLIS)
                } else {
                    sse::keep_alive_comment()
                };
                (Poll::Ready(Some(opening)), alive)
            }
            Kind::Stream { session, reader, alive, .. } => match reader.poll_next(context) {
                Poll::Ready(Some(StreamEvent { number, message })) => (
                    Poll::Ready(Some(
                        message.framed(|bytes| sse::encode_with_id(&event_id(reader, number + 1), bytes)),
                    )),
                    alive,
                ),
                Poll::Ready(None) => {
                    if reader.stream().is_finished() {
                        session.streams.lock().finished_reading(reader.stream());
                    }
                    return Poll::Ready(None);
                }
                Poll::Pending => (Poll::Pending, alive),
            },
        };
        match event {
            Poll::Ready(Some(event)) => {
                alive.reset();
                Poll::Ready(Some(Ok(Frame::data(event))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => alive.poll(context).map(|()| Some(Ok(Frame::data(sse::keep_alive_comment())))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(message) => SizeHint::with_exact(message.as_ref().map_or(0, |message| message.len() as u64)),
            Kind::Pieces { .. }
            | Kind::Relayed(_)
            | Kind::Events { .. }
            | Kind::Stream { .. }
            | Kind::HttpSse { .. }
            | Kind::Until { .. } => SizeHint::default(),
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        // The session was not idle while it was read.
        if let Kind::Stream { session, .. } = &self.0 {
            session.touch();
        }
    }
}

/// Event id: stream name and number of the next event.
fn event_id(reader: &StreamReader, next: u64) -> String {
    format!("{}-{next}", reader.stream().name)
}

impl KeepAlive {
    fn new(every: Duration) -> Self {
        Self { every, next: Box::pin(tokio::time::sleep(every)) }
    }

    fn reset(&mut self) {
        self.next.as_mut().reset(Instant::now() + self.every);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let due = self.next.as_mut().poll(context);
        if due.is_ready() {
            self.reset();
        }
        due
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseBody")
    }
}
