//! What the HTTP downstream sends: one message, or events as they come, with a sign of life while nothing does.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::{
    sync::mpsc,
    time::{Instant, Sleep},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::two_paths::Hold;
use crate::{
    down::{
        accent::Said,
        session::Session,
        stream::{Event, Reader},
    },
    sse,
};

/// How long a caller that lost its stream waits before it asks for the rest.
const RETRY_MILLIS: u64 = 1_000;

/// The body of a response.
pub struct ResponseBody(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Events {
        first: Option<Said>,
        rest: mpsc::Receiver<Said>,
        alive: Alive,
    },
    /// The one stream of the old transport: it begins with where to post.
    Conversation {
        _hold: Hold,
        endpoint: Option<Bytes>,
        reader: Reader,
        alive: Alive,
    },
    /// Of a session: it begins with the place where it stands.
    Stream {
        session: Arc<Session>,
        reader: Reader,
        begun: bool,
        alive: Alive,
    },
    /// One that ends when its reader may no longer read it.
    Until {
        body: Box<ResponseBody>,
        over: Pin<Box<WaitForCancellationFutureOwned>>,
    },
}

/// Speaks when nobody else does.
struct Alive {
    every: Duration,
    next: Pin<Box<Sleep>>,
}

impl ResponseBody {
    /// A body of one piece.
    pub fn whole(message: Bytes) -> Self {
        Self(Kind::Whole(Some(message).filter(|message| !message.is_empty())))
    }

    /// The same body, which ends when `over` is cancelled. One of a single piece is as good as sent.
    #[must_use]
    pub fn until(self, over: CancellationToken) -> Self {
        match self.0 {
            Kind::Whole(_) => self,
            _ => Self(Kind::Until { body: Box::new(self), over: Box::pin(over.cancelled_owned()) }),
        }
    }

    pub(super) fn events(first: Option<Said>, rest: mpsc::Receiver<Said>, keep_alive: Duration) -> Self {
        Self(Kind::Events { first, rest, alive: Alive::new(keep_alive) })
    }

    pub(super) fn conversation(hold: Hold, endpoint: Bytes, reader: Reader, keep_alive: Duration) -> Self {
        let (endpoint, alive) = (Some(endpoint), Alive::new(keep_alive));
        Self(Kind::Conversation { _hold: hold, endpoint, reader, alive })
    }

    pub(super) fn stream(session: Arc<Session>, reader: Reader, keep_alive: Duration) -> Self {
        Self(Kind::Stream { session, reader, begun: false, alive: Alive::new(keep_alive) })
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
            Kind::Events { first, rest, alive } => match first.take() {
                Some(said) => (Poll::Ready(Some(sse::encode(said.message))), alive),
                None => (rest.poll_recv(context).map(|said| said.map(|said| sse::encode(said.message))), alive),
            },
            Kind::Conversation { endpoint, reader, alive, .. } => match endpoint.take() {
                Some(endpoint) => (Poll::Ready(Some(endpoint)), alive),
                None => (reader.poll_next(context).map(|event| event.map(|it| sse::encode(it.said.message))), alive),
            },
            Kind::Stream { reader, begun, alive, .. } if !*begun => {
                *begun = true;
                (Poll::Ready(Some(sse::encode_opening(&place(reader, reader.position()), RETRY_MILLIS))), alive)
            }
            Kind::Stream { session, reader, alive, .. } => match reader.poll_next(context) {
                Poll::Ready(Some(Event { number, said })) => {
                    (Poll::Ready(Some(sse::encode_with_id(&place(reader, number + 1), said.message))), alive)
                }
                Poll::Ready(None) => {
                    if reader.stream().is_over() {
                        session.streams.lock().taken(reader.stream());
                    }
                    return Poll::Ready(None);
                }
                Poll::Pending => (Poll::Pending, alive),
            },
        };
        match event {
            Poll::Ready(Some(event)) => {
                alive.wind();
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
            Kind::Events { .. } | Kind::Stream { .. } | Kind::Conversation { .. } | Kind::Until { .. } => {
                SizeHint::default()
            }
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        // It was not idle until now.
        if let Kind::Stream { session, .. } = &self.0 {
            session.touch();
        }
    }
}

/// The name of a place on a stream: which stream, and which event comes next.
fn place(reader: &Reader, next: u64) -> String {
    format!("{}-{next}", reader.stream().name)
}

impl Alive {
    fn new(every: Duration) -> Self {
        Self { every, next: Box::pin(tokio::time::sleep(every)) }
    }

    fn wind(&mut self) {
        self.next.as_mut().reset(Instant::now() + self.every);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let due = self.next.as_mut().poll(context);
        if due.is_ready() {
            self.wind();
        }
        due
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseBody")
    }
}
