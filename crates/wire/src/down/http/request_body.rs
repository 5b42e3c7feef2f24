//! Request bodies, read by the task that also drives their connection.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::{
    budget::{Charge, MemoryBudget, OverBudget},
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Longer than the limit.
    #[error("the request body is too large")]
    TooLarge,
    /// The byte budget is exhausted.
    #[error(transparent)]
    OverBudget(OverBudget),
    /// The connection failed, or the length is not the announced one.
    #[error("the request body is incomplete")]
    Incomplete,
}

/// Reads the body of a request that is not an MCP message, within a limit and a byte budget. The bytes hold their charge
/// until the last part of them is dropped.
pub async fn read_body(body: Incoming, limit: usize, memory: &MemoryBudget) -> Result<Bytes, BodyError> {
    RequestBody::new(body).whole(limit, memory).await
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
        let mut whole = Vec::from(first);
        while let Some(piece) = self.piece(limit - whole.len()).await? {
            self.make_room(&mut whole, piece.len(), limit, &mut charge)?;
            whole.extend_from_slice(&piece);
        }
        whole.shrink_to_fit();
        charge.shrink(charge.bytes().saturating_sub(whole.capacity()));
        Ok(Arc::new(charge).attach(whole.into()))
    }

    /// Makes room for a piece that has arrived. Every allocation is charged first and at most doubles what is there: an
    /// announced length costs nothing until its bytes arrive. There is one allocation at a time, which goes back to the
    /// system as a whole; kept pieces would leave gaps in the heaps of threads.
    fn make_room(&self, whole: &mut Vec<u8>, piece: usize, limit: usize, charge: &mut Charge) -> Result<(), BodyError> {
        let needed = whole.len() + piece;
        if needed <= whole.capacity() {
            return Ok(());
        }
        let rest = self.size_hint().upper().and_then(|rest| usize::try_from(rest).ok()).unwrap_or(usize::MAX);
        let capacity = needed.saturating_mul(2).min(needed.saturating_add(rest)).min(limit);
        charge.grow(capacity.saturating_sub(charge.bytes())).map_err(BodyError::OverBudget)?;
        whole.reserve_exact(capacity - whole.len());
        Ok(())
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
    use std::{
        collections::VecDeque,
        convert::Infallible,
        pin::Pin,
        task::{Context, Poll},
    };

    use bytes::Bytes;
    use futures_util::FutureExt;
    use http_body_util::{Full, StreamBody};
    use hyper::body::{Body, Frame, SizeHint};

    use super::{BodyError, MemoryBudget, RequestBody};

    fn pieces(sizes: &[usize], limit: usize) -> Result<Bytes, BodyError> {
        let frames: VecDeque<_> =
            sizes.iter().map(|size| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; *size])))).collect();
        RequestBody::new(StreamBody::new(futures_util::stream::iter(frames)))
            .whole(limit, &MemoryBudget::default())
            .now_or_never()
            .unwrap()
    }

    /// A body of a known length, of which some pieces of 10,000 bytes have arrived.
    struct Announced {
        rest: u64,
        pieces: usize,
    }

    impl Body for Announced {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.rest == 0 {
                return Poll::Ready(None);
            }
            if self.pieces == 0 {
                return Poll::Pending;
            }
            (self.pieces, self.rest) = (self.pieces - 1, self.rest - 10_000);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b'x'; 10_000])))))
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.rest)
        }
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
    fn announced_length_is_not_charged_before_its_bytes_arrive() {
        let memory = MemoryBudget::new(1_000_000);
        let mut sent = Announced { rest: 10_000_000, pieces: 2 };
        let mut reading = Box::pin(RequestBody::new(&mut sent).whole(10_000_000, &memory));
        assert!((&mut reading).now_or_never().is_none(), "it waits for the third piece");
        assert!((20_000..=40_000).contains(&memory.used()), "{}", memory.used());
        drop(reading);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn whole_body_is_charged_with_its_length() {
        let memory = MemoryBudget::new(1_000_000);
        let mut sent = Announced { rest: 70_000, pieces: 7 };
        let whole = RequestBody::new(&mut sent).whole(100_000, &memory).now_or_never().unwrap().unwrap();
        assert_eq!((whole.len(), memory.used()), (70_000, 70_000));
        let refused = Announced { rest: 10_000_000, pieces: 1_000 };
        let refused = RequestBody::new(refused).whole(10_000_000, &memory).now_or_never().unwrap();
        assert!(matches!(refused, Err(BodyError::OverBudget(_))), "{refused:?}");
        drop(whole);
        assert_eq!(memory.used(), 0);
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
