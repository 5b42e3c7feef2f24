//! One HTTP/1.1 connection: writes a request, reads the head of its response, then its body in pieces.
//!
//! The connection has no task; the waiting task drives it. It reads and writes at the same time, because a server may
//! respond before it has received the whole request.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::{Pin, pin},
    task::{Context, Poll, Waker, ready},
};

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderValue, Method, StatusCode};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    task::unconstrained,
};

use super::{
    chunks::{BodyPart, ChunkDecoder},
    head::{self, BodyLength, HeadLimits, ResponseHead},
};
use crate::{error::WireError, up::connector::HttpStream};

/// Initial read size in bytes; doubled while reads fill it.
const AT_FIRST: usize = 8 * 1024;
/// Largest read size in bytes.
const AT_MOST: usize = 256 * 1024;
/// Largest number of interim (1xx) responses to one request.
const INTERIM: usize = 256;

/// A connection and the state of its current request.
#[derive(Debug)]
pub(super) struct HttpConnection {
    stream: HttpStream,
    head_limits: HeadLimits,
    /// Received bytes that are not consumed yet, and how many of them were searched for the end of the head.
    input: BytesMut,
    seen: usize,
    read_at_once: usize,
    /// Head and body of the request, and how many bytes of both are written.
    head: Vec<u8>,
    body: Bytes,
    written: usize,
    /// Whether a byte of the request may have reached the network.
    write_started: bool,
    interim: usize,
    left: BodyRemaining,
    /// Whether another request may use the connection after this one.
    keep_alive: bool,
}

/// Rest of a response body.
#[derive(Debug)]
enum BodyRemaining {
    Nothing,
    Sized(u64),
    Chunked(ChunkDecoder),
    UntilClose,
}

/// A request that got no response.
#[derive(Debug)]
pub(super) struct SendFailure {
    pub(super) error: WireError,
    /// Whether no byte of it was written, so that it can be repeated.
    pub(super) unsent: bool,
}

impl HttpConnection {
    pub(super) fn new(stream: HttpStream, head_limits: HeadLimits) -> Self {
        Self {
            stream,
            head_limits,
            input: BytesMut::new(),
            seen: 0,
            read_at_once: AT_FIRST,
            head: Vec::new(),
            body: Bytes::new(),
            written: 0,
            write_started: false,
            interim: 0,
            left: BodyRemaining::Nothing,
            keep_alive: false,
        }
    }

    /// Prepares the next request; it is written while polling for the response.
    pub(super) fn begin(&mut self, method: &Method, path: &str, host: &HeaderValue, fields: &[u8], body: &Bytes) {
        head::write(&mut self.head, method, path, host, fields, body.len());
        self.body = body.clone();
        (self.written, self.write_started, self.interim, self.keep_alive) = (0, false, 0, false);
    }

    /// Writes the request and reads the head of its response.
    pub(super) fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<Result<ResponseHead, SendFailure>> {
        // After a write error the server may already have responded; its response counts.
        let broken = match self.poll_write(context) {
            Poll::Ready(Err(error)) => Some(error),
            Poll::Ready(Ok(())) | Poll::Pending => None,
        };
        let failed = |connection: &Self, error: WireError| SendFailure { error, unsent: !connection.write_started };
        loop {
            match head::read(&mut self.input, &mut self.seen, self.head_limits) {
                Ok(Some(head)) => match self.accept_head(head) {
                    Ok(Some(head)) => return Poll::Ready(Ok(head)),
                    Ok(None) => continue,
                    Err(error) => return Poll::Ready(Err(failed(self, error))),
                },
                Ok(None) => {}
                Err(error) => return Poll::Ready(Err(failed(self, error))),
            }
            match self.poll_read(context) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => {
                    let why = broken.map_or_else(
                        || "the server closed the connection before responding".to_owned(),
                        |error| error.to_string(),
                    );
                    return Poll::Ready(Err(failed(self, WireError::Ended(why))));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(failed(self, WireError::Ended(error.to_string())))),
                Poll::Pending => {
                    return match broken {
                        Some(error) => Poll::Ready(Err(failed(self, WireError::Ended(error.to_string())))),
                        None => Poll::Pending,
                    };
                }
            }
        }
    }

    /// Accepts the head of a response; `None` for an interim response.
    fn accept_head(&mut self, head: ResponseHead) -> Result<Option<ResponseHead>, WireError> {
        // We never request an upgrade: 101 is treated as a final response, and the connection is not reused.
        if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS {
            self.interim += 1;
            let too_many = INTERIM < self.interim;
            return if too_many {
                Err(WireError::TooLarge { what: "number of interim responses", limit: INTERIM })
            } else {
                Ok(None)
            };
        }
        self.keep_alive = head.keep_alive && !head.status.is_informational();
        self.left = match head.body_length {
            BodyLength::Sized(0) => BodyRemaining::Nothing,
            BodyLength::Sized(size) => BodyRemaining::Sized(size),
            BodyLength::Chunked => BodyRemaining::Chunked(ChunkDecoder::new(self.head_limits.bytes)),
            BodyLength::UntilClose => BodyRemaining::UntilClose,
        };
        Ok(Some(head))
    }

    /// Reads the next piece of the body; `None` after the last.
    pub(super) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, WireError>>> {
        loop {
            match self.take_buffered() {
                Ok(BodyPart::Piece(piece)) => return Poll::Ready(Some(Ok(piece))),
                Ok(BodyPart::Over) => return Poll::Ready(None),
                Ok(BodyPart::NeedInput) => {}
                Err(error) => return Poll::Ready(Some(Err(self.mark_broken(error)))),
            }
            // Continues to write the request; a write error shows in the next read.
            drop(self.poll_write(context));
            match ready!(self.poll_read(context)) {
                Ok(true) => {}
                Ok(false) if matches!(self.left, BodyRemaining::UntilClose) => self.left = BodyRemaining::Nothing,
                Ok(false) => return Poll::Ready(Some(Err(self.mark_broken(truncated_body())))),
                Err(error) => return Poll::Ready(Some(Err(self.mark_broken(WireError::Ended(error.to_string()))))),
            }
        }
    }

    /// Reads the rest of a body of known length directly into `to`.
    pub(super) fn poll_rest(&mut self, context: &mut Context<'_>, to: &mut BytesMut) -> Poll<Result<(), WireError>> {
        let buffered = self.take_buffered()?;
        if let BodyPart::Piece(piece) = buffered {
            to.extend_from_slice(&piece);
        }
        while let BodyRemaining::Sized(left) = self.left {
            drop(self.poll_write(context));
            let mut room = (&mut *to).limit(usize::try_from(left).unwrap_or(usize::MAX));
            let read = ready!(pin!(self.stream.read_buf(&mut room)).poll(context));
            match read {
                Ok(0) => return Poll::Ready(Err(self.mark_broken(truncated_body()))),
                Ok(size) if size as u64 == left => self.left = BodyRemaining::Nothing,
                Ok(size) => self.left = BodyRemaining::Sized(left - size as u64),
                Err(error) => return Poll::Ready(Err(self.mark_broken(WireError::Ended(error.to_string())))),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes the next piece of the body from the received bytes.
    fn take_buffered(&mut self) -> Result<BodyPart, WireError> {
        match &mut self.left {
            BodyRemaining::Nothing => Ok(BodyPart::Over),
            BodyRemaining::Chunked(chunks) => {
                let next = chunks.next(&mut self.input)?;
                if next == BodyPart::Over {
                    self.left = BodyRemaining::Nothing;
                }
                Ok(next)
            }
            _ if self.input.is_empty() => Ok(BodyPart::NeedInput),
            BodyRemaining::UntilClose => Ok(BodyPart::Piece(self.input.split().freeze())),
            BodyRemaining::Sized(left) => {
                let size = usize::try_from(*left).unwrap_or(usize::MAX).min(self.input.len());
                *left -= size as u64;
                if *left == 0 {
                    self.left = BodyRemaining::Nothing;
                }
                Ok(BodyPart::Piece(self.input.split_to(size).freeze()))
            }
        }
    }

    /// Ends the body after an error; the connection is not reused.
    fn mark_broken(&mut self, error: WireError) -> WireError {
        self.left = BodyRemaining::Nothing;
        self.keep_alive = false;
        error
    }

    /// Whether the body has ended.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.left, BodyRemaining::Nothing)
    }

    /// Whether another request can use the connection: request and response are complete, and there is no unexpected input.
    /// Frees the buffers of a large response.
    pub(super) fn is_reusable(&mut self) -> bool {
        let sent = self.head.len() + self.body.len() <= self.written;
        let over = self.keep_alive && sent && self.is_over() && self.input.is_empty();
        self.body = Bytes::new();
        if AT_FIRST < self.read_at_once {
            (self.input, self.read_at_once) = (BytesMut::new(), AT_FIRST);
        }
        over && self.is_quiet()
    }

    /// Whether the stream has neither input nor end. Checked outside of tokio's cooperative budget.
    pub(super) fn is_quiet(&mut self) -> bool {
        let (mut byte, stream) = ([0], &mut self.stream);
        let read = poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut ReadBuf::new(&mut byte)));
        pin!(unconstrained(read)).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Writes the rest of the request.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.head.len() + self.body.len() {
            let (head, body) = match self.head.get(self.written..) {
                Some(head) => (head, &self.body[..]),
                None => (&[][..], &self.body[self.written - self.head.len()..]),
            };
            let slices = [IoSlice::new(head), IoSlice::new(body)];
            // A layer such as TLS may have sent bytes even if its write fails.
            self.write_started |= self.stream.is_layered();
            match ready!(Pin::new(&mut self.stream).poll_write_vectored(context, &slices))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                size => self.written += size,
            }
            self.write_started = true;
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Reads more input; false at the end of the stream.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        self.input.reserve(self.read_at_once);
        let mut room = (&mut self.input).limit(self.read_at_once);
        let size = ready!(pin!(self.stream.read_buf(&mut room)).poll(context))?;
        if self.read_at_once <= size {
            self.read_at_once = (self.read_at_once * 2).min(AT_MOST);
        }
        Poll::Ready(Ok(size != 0))
    }
}

fn truncated_body() -> WireError {
    WireError::Ended("the server closed the connection in the middle of a response".to_owned())
}

#[cfg(test)]
mod tests;
