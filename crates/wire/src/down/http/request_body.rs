//! The body of a request, taken by the task that also drives the connection it comes over.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::{pieces::Pieces, quiet::suppress_wakes};

/// A body that wakes its connection only as long as there is more of it to come.
pub(super) struct Taken<B> {
    body: B,
    begun: bool,
}

/// Why a body is not whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotWhole {
    /// It is longer than the bound.
    TooLarge,
    /// Its connection broke, or it is not what was announced.
    BrokeOff,
}

impl<B> Taken<B> {
    pub(super) fn new(body: B) -> Self {
        Self { body, begun: false }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Taken<B> {
    /// All of it, within a bound. Most come in one piece, which is taken as it is.
    pub(super) async fn whole(mut self, limit: usize) -> Result<Bytes, NotWhole> {
        let Some(first) = self.piece(limit).await? else { return Ok(Bytes::new()) };
        if self.is_end_stream() {
            return Ok(first);
        }
        let mut pieces = Pieces::default();
        pieces.push(first);
        while let Some(piece) = self.piece(limit - pieces.len()).await? {
            pieces.push(piece);
        }
        Ok(pieces.whole())
    }

    /// The next piece of it, no longer than this.
    async fn piece(&mut self, limit: usize) -> Result<Option<Bytes>, NotWhole> {
        loop {
            let frame = match poll_fn(|context| Pin::new(&mut *self).poll_frame(context)).await {
                Some(frame) => frame.map_err(|_| NotWhole::BrokeOff)?,
                None => return Ok(None),
            };
            match frame.into_data() {
                Ok(piece) if limit < piece.len() => return Err(NotWhole::TooLarge),
                Ok(piece) => return Ok(Some(piece)),
                // Nobody reads what stands behind a body.
                Err(_trailers) => {}
            }
        }
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
        let frame = suppress_wakes(|| Pin::new(&mut self.body).poll_frame(context));
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

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, convert::Infallible};

    use bytes::Bytes;
    use futures_util::FutureExt;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::{NotWhole, Taken};

    fn pieces(sizes: &[usize], limit: usize) -> Result<Bytes, NotWhole> {
        let frames: VecDeque<_> =
            sizes.iter().map(|size| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; *size])))).collect();
        Taken::new(StreamBody::new(futures_util::stream::iter(frames))).whole(limit).now_or_never().unwrap()
    }

    #[test]
    fn a_body_is_whole_within_its_bound_however_it_is_cut() {
        for sizes in [&[][..], &[10], &[3, 7], &[1; 10], &[0, 10]] {
            let length: usize = sizes.iter().sum();
            assert_eq!(pieces(sizes, 10).unwrap().len(), length, "{sizes:?}");
        }
        for sizes in [&[11][..], &[10, 1], &[1; 11]] {
            assert_eq!(pieces(sizes, 10), Err(NotWhole::TooLarge), "{sizes:?}");
        }
    }

    #[test]
    fn one_piece_is_taken_as_it_is() {
        let body = Bytes::from_static(b"{}");
        let whole = Taken::new(Full::new(body.clone())).whole(2).now_or_never().unwrap().unwrap();
        assert_eq!(whole.as_ptr(), body.as_ptr());
    }
}
