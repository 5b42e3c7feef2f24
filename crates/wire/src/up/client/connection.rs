//! One connection: a request is written, the head of its reply is read, then the pieces of its body.
//!
//! Nothing runs by itself. Whoever waits drives it, reading and writing: a server may answer before it has heard all.

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
    chunks::{ChunkDecoder, BodyPart},
    head::{self, HeadLimits, BodyLength, ResponseHead},
};
use crate::{error::WireError, up::connector::HttpStream};

/// Read at once at first; a body that fills it is read in larger pieces.
const AT_FIRST: usize = 8 * 1024;
/// Read at once at most.
const AT_MOST: usize = 256 * 1024;
/// Interim answers to one request.
const INTERIM: usize = 256;

/// A connection, and how far it is.
#[derive(Debug)]
pub(super) struct HttpConnection {
    stream: HttpStream,
    bound: HeadLimits,
    /// What came and was not taken yet, and how much of it is no head yet.
    input: BytesMut,
    seen: usize,
    read_at_once: usize,
    /// The request, and how much of both is written.
    head: Vec<u8>,
    body: Bytes,
    written: usize,
    /// Whether a byte of it may have gone out.
    write_started: bool,
    interim: usize,
    left: BodyRemaining,
    /// Whether another request may follow this one.
    keep_alive: bool,
}

/// What is left to come of a body.
#[derive(Debug)]
enum BodyRemaining {
    Nothing,
    Sized(u64),
    Chunked(ChunkDecoder),
    UntilClose,
}

/// A request that got no reply.
#[derive(Debug)]
pub(super) struct SendFailure {
    pub(super) error: WireError,
    /// Not a byte of it was written.
    pub(super) unsent: bool,
}

impl HttpConnection {
    pub(super) fn new(stream: HttpStream, bound: HeadLimits) -> Self {
        Self {
            stream,
            bound,
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

    /// The request that is sent next; it goes out as the reply is waited for.
    pub(super) fn begin(&mut self, method: &Method, path: &str, host: &HeaderValue, fields: &[u8], body: &Bytes) {
        head::write(&mut self.head, method, path, host, fields, body.len());
        self.body = body.clone();
        (self.written, self.write_started, self.interim, self.keep_alive) = (0, false, 0, false);
    }

    /// Writes the request and reads until the head of its reply is there.
    pub(super) fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<Result<ResponseHead, SendFailure>> {
        // A server that has answered and closed hears no more, and its answer counts.
        let broken = match self.poll_write(context) {
            Poll::Ready(Err(error)) => Some(error),
            Poll::Ready(Ok(())) | Poll::Pending => None,
        };
        let failed = |connection: &Self, error: WireError| SendFailure { error, unsent: !connection.write_started };
        loop {
            match head::read(&mut self.input, &mut self.seen, self.bound) {
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
                        || "the connection was closed before an answer".to_owned(),
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

    /// Takes the head of a reply; nothing where the reply itself is still to come.
    fn accept_head(&mut self, head: ResponseHead) -> Result<Option<ResponseHead>, WireError> {
        // Nobody asks for another protocol: a switch to one is an answer, and the last.
        if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS {
            self.interim += 1;
            let enough = INTERIM < self.interim;
            return if enough {
                Err(WireError::TooLarge { what: "number of interim answers", limit: INTERIM })
            } else {
                Ok(None)
            };
        }
        self.keep_alive = head.keep_alive && !head.status.is_informational();
        self.left = match head.body_length {
            BodyLength::Sized(0) => BodyRemaining::Nothing,
            BodyLength::Sized(size) => BodyRemaining::Sized(size),
            BodyLength::Chunked => BodyRemaining::Chunked(ChunkDecoder::new(self.bound.bytes)),
            BodyLength::UntilClose => BodyRemaining::UntilClose,
        };
        Ok(Some(head))
    }

    /// The next piece of the body; none after the last.
    pub(super) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, WireError>>> {
        loop {
            match self.take_buffered() {
                Ok(BodyPart::Piece(piece)) => return Poll::Ready(Some(Ok(piece))),
                Ok(BodyPart::Over) => return Poll::Ready(None),
                Ok(BodyPart::More) => {}
                Err(error) => return Poll::Ready(Some(Err(self.mark_broken(error)))),
            }
            // What is left of the request goes on; whether it can is seen in what comes back.
            drop(self.poll_write(context));
            match ready!(self.poll_read(context)) {
                Ok(true) => {}
                Ok(false) if matches!(self.left, BodyRemaining::UntilClose) => self.left = BodyRemaining::Nothing,
                Ok(false) => return Poll::Ready(Some(Err(self.mark_broken(truncated_body())))),
                Err(error) => return Poll::Ready(Some(Err(self.mark_broken(WireError::Ended(error.to_string()))))),
            }
        }
    }

    /// Reads the rest of a body whose size was announced to where it is wanted, without a copy on the way.
    pub(super) fn poll_rest(&mut self, context: &mut Context<'_>, to: &mut BytesMut) -> Poll<Result<(), WireError>> {
        let came = self.take_buffered()?;
        if let BodyPart::Piece(piece) = came {
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

    /// The next piece of what has come.
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
            _ if self.input.is_empty() => Ok(BodyPart::More),
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

    /// Nothing more comes.
    fn mark_broken(&mut self, error: WireError) -> WireError {
        self.left = BodyRemaining::Nothing;
        self.keep_alive = false;
        error
    }

    /// Whether the body has come to its end.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.left, BodyRemaining::Nothing)
    }

    /// Whether another request can go over it: all was said and heard, and nothing came that nobody asked for. Of what
    /// a large reply needed nothing is kept.
    pub(super) fn is_reusable(&mut self) -> bool {
        let said = self.head.len() + self.body.len() <= self.written;
        let over = self.keep_alive && said && self.is_over() && self.input.is_empty();
        self.body = Bytes::new();
        if AT_FIRST < self.read_at_once {
            (self.input, self.read_at_once) = (BytesMut::new(), AT_FIRST);
        }
        over && self.is_quiet()
    }

    /// Whether nothing has come, no end either. It is looked at however much was done in the same turn.
    pub(super) fn is_quiet(&mut self) -> bool {
        let (mut byte, stream) = ([0], &mut self.stream);
        let look = poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut ReadBuf::new(&mut byte)));
        pin!(unconstrained(look)).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Writes what is left of the request.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.head.len() + self.body.len() {
            let (head, body) = match self.head.get(self.written..) {
                Some(head) => (head, &self.body[..]),
                None => (&[][..], &self.body[self.written - self.head.len()..]),
            };
            let slices = [IoSlice::new(head), IoSlice::new(body)];
            // What has gone out below a layer of its own is not told when it fails.
            self.write_started |= self.stream.is_layered();
            match ready!(Pin::new(&mut self.stream).poll_write_vectored(context, &slices))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                size => self.written += size,
            }
            self.write_started = true;
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Reads what has come; false at the end.
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
    WireError::Ended("the connection was closed before the end of an answer".to_owned())
}

#[cfg(test)]
mod tests;
