//! The body of a request, taken by the task that also drives the connection it comes over.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Body, Frame, SizeHint};

use crate::quiet::quietly;

/// A body that wakes its connection only as long as there is more of it to come.
pub(super) struct Taken<B> {
    body: B,
    begun: bool,
}

impl<B> Taken<B> {
    pub(super) fn new(body: B) -> Self {
        Self { body, begun: false }
    }
}

impl<B: Body + Unpin> Body for Taken<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let first = !std::mem::replace(&mut self.begun, true);
        let frame = quietly(|| Pin::new(&mut self.body).poll_frame(context));
        // The connection may wait until the body is wanted, and until there is room for the next piece.
        let concerns_it = match &frame {
            Poll::Pending => first,
            Poll::Ready(piece) => piece.is_some() && !self.body.is_end_stream(),
        };
        if concerns_it {
            context.waker().wake_by_ref();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
