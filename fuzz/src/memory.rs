//! A stream in memory: it takes everything that is written, and then returns prepared chunks.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    vec,
};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that is silent until something is written to it, and then ready until its chunks end.
#[derive(Debug)]
pub struct MemoryStream {
    rest: vec::IntoIter<Bytes>,
    chunk: Bytes,
    end: End,
    /// Whether something was written.
    asked: bool,
}

/// What follows the last chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer closes the stream.
    Closed,
    /// The peer sends nothing more.
    Silent,
}

impl MemoryStream {
    /// A stream of these chunks.
    pub fn new(chunks: Vec<Bytes>, end: End) -> Self {
        Self { rest: chunks.into_iter(), chunk: Bytes::new(), end, asked: false }
    }

    /// As for a connection without TLS.
    pub fn is_layered(&self) -> bool {
        false
    }

    /// The next bytes, at most `room`; `None` if the peer is silent.
    fn take(&mut self, room: usize) -> Option<Bytes> {
        if !self.asked {
            return None;
        }
        if self.chunk.is_empty() {
            match self.rest.next() {
                Some(chunk) => self.chunk = chunk,
                None if self.end == End::Silent => return None,
                None => {}
            }
        }
        Some(self.chunk.split_to(self.chunk.len().min(room)))
    }
}

impl AsyncRead for MemoryStream {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(bytes) = self.take(buffer.remaining()) else { return Poll::Pending };
        buffer.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MemoryStream {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.asked = true;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Read for MemoryStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(bytes) = self.take(buffer.remaining()) else { return Poll::Pending };
        buffer.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for MemoryStream {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.asked = true;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
