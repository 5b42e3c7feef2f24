//! Request bodies, read by the task that also drives their connection.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, SizeHint};

use crate::{
    budget::{MemoryBudget, OverBudget},
    quiet::suppress_wakes,
};

/// A complete body of at most this many bytes is not charged; the number of concurrent requests bounds these.
const UNCHARGED: usize = 16 * 1024;

/// A body that wakes its connection only while more data is to come.
pub(super) struct RequestBody<B> {
    body: B,
    begun: bool,
}

/// Error of reading a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    /// Longer than the limit.
    TooLarge,
    /// The byte budget is exhausted.
    OverBudget(OverBudget),
    /// The connection failed, or the length is not the announced one.
    Incomplete,
}

impl<B> RequestBody<B> {
    pub(super) fn new(body: B) -> Self {
        Self { body, begun: false }
    }
}

impl<B: Body<Data = Bytes> + Unpin> RequestBody<B> {
    /// Reads the whole body, within a limit. A body of one piece is not copied. Its bytes hold their charge as long as a
    /// part of them is in use.
    pub(super) async fn whole(mut self, limit: usize, memory: &MemoryBudget) -> Result<Bytes, BodyError> {
        let Some(first) = self.piece(limit).await? else { return Ok(Bytes::new()) };
        if self.is_end_stream() && first.len() <= UNCHARGED {
            return Ok(first);
        }
        let mut charge = memory.charge(first.len()).map_err(BodyError::OverBudget)?;
        if self.is_end_stream() {
            return Ok(Arc::new(charge).attach(first));
        }
        // One allocation, which goes back to the system as a whole; kept pieces would leave gaps in the heaps of threads.
        let announced = self.size_hint().upper().and_then(|rest| usize::try_from(rest).ok()).unwrap_or_default();
        let mut whole = BytesMut::with_capacity(first.len().saturating_add(announced).min(limit));
        whole.extend_from_slice(&first);
        drop(first);
        while let Some(piece) = self.piece(limit - whole.len()).await? {
            charge.grow(piece.len()).map_err(BodyError::OverBudget)?;
            whole.extend_from_slice(&piece);
        }
        Ok(Arc::new(charge).attach(whole.freeze()))
    }

    /// Reads the next piece, at most `limit` bytes.
    async fn piece(&mut self, limit: usize) -> Result<Option<Bytes>, BodyError> {
        loop {
            let frame = match poll_fn(|context| Pin::new(&mut *self).poll_frame(context)).await {
                Some(frame) => frame.map_err(|_| BodyError::Incomplete)?,
                None => return Ok(None),
            };
            match frame.into_data() {
                Ok(piece) if limit < piece.len() => return Err(BodyError::TooLarge),
                Ok(piece) => return Ok(Some(piece)),
                // Trailers are ignored.
                Err(_trailers) => {}
            }
        }
    }
}

impl<B: Body + Unpin> Body for RequestBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let first = !std::mem::replace(&mut self.begun, true);
        let frame = suppress_wakes(|| Pin::new(&mut self.body).poll_frame(context));
        // The connection may be waiting for the body to be read or for space for the next piece.
        let wake = match &frame {
            Poll::Pending => first,
            Poll::Ready(piece) => piece.is_some() && !self.body.is_end_stream(),
        };
        if wake {
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

    use super::{BodyError, MemoryBudget, RequestBody};

    fn pieces(sizes: &[usize], limit: usize) -> Result<Bytes, BodyError> {
        let frames: VecDeque<_> =
            sizes.iter().map(|size| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; *size])))).collect();
        RequestBody::new(StreamBody::new(futures_util::stream::iter(frames)))
            .whole(limit, &MemoryBudget::default())
            .now_or_never()
            .unwrap()
    }

    #[test]
    fn body_is_read_within_its_limit_in_any_pieces() {
        for sizes in [&[][..], &[10], &[3, 7], &[1; 10], &[0, 10]] {
            let length: usize = sizes.iter().sum();
            assert_eq!(pieces(sizes, 10).unwrap().len(), length, "{sizes:?}");
        }
        for sizes in [&[11][..], &[10, 1], &[1; 11]] {
            assert_eq!(pieces(sizes, 10), Err(BodyError::TooLarge), "{sizes:?}");
        }
    }

    #[test]
    fn single_piece_is_not_copied() {
        let body = Bytes::from_static(b"{}");
        let whole = RequestBody::new(Full::new(body.clone()))
            .whole(2, &MemoryBudget::default())
            .now_or_never()
            .unwrap()
            .unwrap();
        assert_eq!(whole.as_ptr(), body.as_ptr());
    }
}
