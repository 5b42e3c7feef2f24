//! What the HTTP face sends: one message, or events as they come, with a sign of life while nothing does.

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

use crate::{
    down::{accent::Said, session::Session},
    sse,
};

/// The body of a response.
pub struct FaceBody(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Events { first: Option<Said>, rest: mpsc::Receiver<Said>, alive: Alive },
    Standing { session: Arc<Session>, messages: Option<mpsc::Receiver<Bytes>>, alive: Alive },
}

/// Speaks when nobody else does.
struct Alive {
    every: Duration,
    next: Pin<Box<Sleep>>,
}

impl FaceBody {
    /// A body of one piece.
    pub fn whole(message: Bytes) -> Self {
        Self(Kind::Whole(Some(message).filter(|message| !message.is_empty())))
    }

    pub(super) fn events(first: Said, rest: mpsc::Receiver<Said>, keep_alive: Duration) -> Self {
        Self(Kind::Events { first: Some(first), rest, alive: Alive::new(keep_alive) })
    }

    pub(super) fn standing(session: Arc<Session>, messages: mpsc::Receiver<Bytes>, keep_alive: Duration) -> Self {
        Self(Kind::Standing { session, messages: Some(messages), alive: Alive::new(keep_alive) })
    }
}

impl Body for FaceBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (message, alive) = match &mut self.0 {
            Kind::Whole(message) => return Poll::Ready(message.take().map(|message| Ok(Frame::data(message)))),
            Kind::Events { first, rest, alive } => match first.take() {
                Some(said) => (Poll::Ready(Some(said.message)), alive),
                None => (rest.poll_recv(context).map(|said| said.map(|said| said.message)), alive),
            },
            Kind::Standing { messages, alive, .. } => match messages {
                Some(messages) => (messages.poll_recv(context), alive),
                None => return Poll::Ready(None),
            },
        };
        match message {
            Poll::Ready(Some(message)) => {
                alive.wind();
                Poll::Ready(Some(Ok(Frame::data(sse::encode(message)))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => alive.poll(context).map(|()| Some(Ok(Frame::data(sse::comment())))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(message) => SizeHint::with_exact(message.as_ref().map_or(0, |message| message.len() as u64)),
            Kind::Events { .. } | Kind::Standing { .. } => SizeHint::default(),
        }
    }
}

impl Drop for FaceBody {
    fn drop(&mut self) {
        if let Kind::Standing { session, messages, .. } = &mut self.0
            && let Some(messages) = messages.take()
        {
            session.return_stream(messages);
        }
    }
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

impl fmt::Debug for FaceBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaceBody")
    }
}
