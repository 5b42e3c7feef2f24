//! Newline-delimited messages over any pair of byte streams, for upstream and downstream.
//!
//! [`LineReader`] returns one message per line and skips lines that are too long; it fails on a line without an end.
//! [`LineWriter`] writes a message directly in `send`, as far as the stream accepts it without blocking; messages sent
//! during a write are queued and written by a task; a long queue is charged to the byte budget. Sending never waits. The protocol on top is in [`crate::up`] and
//! [`crate::down`].

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

use crate::{
    budget::{Charge, MemoryBudget},
    error::WireError,
    json::{
        self,
        skim::{Skimmed, Skimmer},
    },
    limit::ENDLESS_LINE,
};

/// Bytes per read.
const CHUNK: usize = 64 * 1024;
/// Largest batch, in bytes, that `send` writes directly; pipes accept no more without blocking.
const AT_ONCE: usize = 64 * 1024;
/// A buffer larger than this many bytes is freed after use.
const KEPT_BUFFER: usize = 2 * 1024 * 1024;

/// Reads messages, one per line.
pub(crate) struct LineReader<R> {
    stream: R,
    buffer: Vec<u8>,
    /// Start of the unread bytes.
    start: usize,
    /// End of the bytes already searched for a line break.
    searched: usize,
    /// Whether the stream ended without a line break.
    unended: bool,
    limit: usize,
    /// Charge for a large incomplete line.
    charge: Charge,
}

/// One line of the stream.
#[derive(Debug)]
pub(crate) enum FramedLine {
    /// Text of one message.
    Message(Bytes),
    /// A line over the limit was skipped; its id and kind, as far as found.
    TooLong(Skimmed),
}

/// Sends messages, one per line. Cloning is cheap; every clone writes to the same stream.
#[derive(Clone)]
pub(crate) struct LineWriter {
    shared: Arc<Shared>,
}

struct Shared {
    // No await under this lock.
    state: Mutex<WriteState>,
    wake: Notify,
    limit: usize,
}

struct WriteState {
    bytes: Vec<u8>,
    /// The stream; `None` during a write.
    stream: Option<Stream>,
    /// Bytes that the writing task has taken and not yet written.
    writing: usize,
    /// Charge for both, once they are more than [`AT_ONCE`].
    charge: Charge,
    /// Whether the stream still has to be flushed.
    unflushed: bool,
    closed: Option<String>,
}

type Stream = Box<dyn AsyncWrite + Send + Unpin>;

/// Result of a non-blocking write.
enum WriteOutcome {
    /// Everything was written and flushed.
    All,
    /// Everything was written but not flushed.
    Unflushed,
    /// This many bytes were written, or the stream failed; the writing task continues.
    Some(usize),
}

// === impl LineReader ===

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(stream: R, limit: usize) -> Self {
        let (buffer, charge) = (Vec::new(), Charge::default());
        Self { stream, buffer, start: 0, searched: 0, unended: false, limit, charge }
    }

    /// The same reader, whose large incomplete lines are charged to this budget. If that is exhausted, the line is skipped
    /// like one that is too long.
    pub(crate) fn charged_to(self, memory: MemoryBudget) -> Self {
        Self { charge: Charge::empty(memory), ..self }
    }

    /// Returns the next line that is not blank; `None` at the end of the stream. [`io::ErrorKind::InvalidData`] means a
    /// line without an end.
    pub(crate) async fn next(&mut self) -> io::Result<Option<FramedLine>> {
        loop {
            match memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                Some(offset) => {
                    let end = self.searched + offset;
                    if let Some(line) = self.take(end) {
                        return Ok(Some(line));
                    }
                }
                None => {
                    self.searched = self.buffer.len();
                    let length = self.buffer.len() - self.start;
                    let charged = if length <= KEPT_BUFFER { 0 } else { length + CHUNK };
                    if self.limit < length || self.charge.set(charged).is_err() {
                        return self.skim().await;
                    }
                    if self.fill().await? == 0 {
                        return Ok(self.rest());
                    }
                }
            }
        }
    }

    /// Takes the line that ends at `end`, copied at its exact size; `None` if it is blank.
    fn take(&mut self, end: usize) -> Option<FramedLine> {
        let line = &self.buffer[self.start..end];
        let line = match line.trim_ascii() {
            // The limit applies to the line before trimming, as it does for a line whose end has not been read.
            _ if self.limit < line.len() => Some(FramedLine::TooLong(Skimmer::whole(line))),
            [] => None,
            text => Some(FramedLine::Message(Bytes::copy_from_slice(text))),
        };
        self.start = end + 1;
        self.searched = self.start;
        line
    }

    async fn fill(&mut self) -> io::Result<usize> {
        if 0 < self.start {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.buffer.is_empty() && KEPT_BUFFER < self.buffer.capacity() {
            self.buffer = Vec::new();
        }
        self.buffer.reserve(CHUNK);
        self.stream.read_buf(&mut self.buffer).await
    }

    /// Takes the bytes after the last line break.
    fn rest(&mut self) -> Option<FramedLine> {
        let end = self.buffer.len();
        if end <= self.start {
            return None;
        }
        let line = self.take(end);
        self.buffer.clear();
        (self.start, self.searched) = (0, 0);
        self.unended = true;
        line
    }

    /// Whether the stream ended without a line break; the last line may be incomplete.
    pub(crate) fn ended_inside(&self) -> bool {
        self.unended
    }

    /// Skips a line that is too long, looking only for its id.
    async fn skim(&mut self) -> io::Result<Option<FramedLine>> {
        let mut skimmer = Skimmer::default();
        skimmer.skim(&self.buffer[self.start..]);
        let most = self.limit.max(CHUNK).saturating_mul(ENDLESS_LINE);
        let mut length = self.buffer.len() - self.start;
        loop {
            if most < length {
                let message = format!("more than {most} bytes without a line break");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            self.buffer = Vec::new();
            (self.start, self.searched) = (0, 0);
            if self.fill().await? == 0 {
                return Ok(Some(FramedLine::TooLong(skimmer.found())));
            }
            match memchr::memchr(b'\n', &self.buffer) {
                Some(end) => {
                    skimmer.skim(&self.buffer[..end]);
                    (self.start, self.searched) = (end + 1, end + 1);
                    return Ok(Some(FramedLine::TooLong(skimmer.found())));
                }
                None => {
                    skimmer.skim(&self.buffer);
                    length = length.saturating_add(self.buffer.len());
                }
            }
        }
    }
}

// === impl LineWriter ===

impl LineWriter {
    /// Creates a writer and the future that performs blocking writes; the future ends when the writer is closed or the
    /// stream fails. A message that does not fit into `memory` is not queued.
    pub(crate) fn new(
        stream: impl AsyncWrite + Send + Unpin + 'static,
        limit: usize,
        memory: MemoryBudget,
    ) -> (Self, impl Future<Output = io::Result<()>> + Send) {
        let state = WriteState {
            bytes: Vec::new(),
            stream: Some(Box::new(stream)),
            writing: 0,
            charge: Charge::empty(memory),
            unflushed: false,
            closed: None,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), wake: Notify::new(), limit });
        (Self { shared: Arc::clone(&shared) }, write(shared))
    }

    /// Queues a message, and writes it directly if no other write is in progress.
    pub(crate) fn send(&self, message: Bytes) -> Result<(), WireError> {
        self.queue(message, 0)
    }

    /// As [`send`](Self::send), for a small message: up to [`AT_ONCE`] bytes are queued beyond the limit and the budget.
    pub(crate) fn send_small(&self, message: Bytes) -> Result<(), WireError> {
        self.queue(message, AT_ONCE)
    }

    fn queue(&self, message: Bytes, reserve: usize) -> Result<(), WireError> {
        let message = json::one_line(message);
        let mut state = self.shared.state.lock();
        if let Some(reason) = &state.closed {
            return Err(WireError::Ended(reason.clone()));
        }
        if self.shared.limit.saturating_add(reserve) < state.bytes.len() + message.len() {
            return Err(WireError::TooLarge { what: "the write queue", limit: self.shared.limit });
        }
        let queued = state.bytes.len() + state.writing + message.len() + 1;
        if AT_ONCE < queued {
            match state.charge.set(queued) {
                Err(error) if state.charge.bytes() + reserve < queued => return Err(error.into()),
                // Charged, or within the reserve.
                _ => {}
            }
        }
        state.bytes.reserve(message.len() + 1);
        state.bytes.extend_from_slice(&message);
        state.bytes.push(b'\n');
        if AT_ONCE < state.bytes.len() {
            drop(state);
            self.shared.wake.notify_one();
        } else if let Some(stream) = state.stream.take() {
            let batch = std::mem::take(&mut state.bytes);
            drop(state);
            self.shared.write_at_once(stream, batch);
        }
        Ok(())
    }

    /// Writes the queued messages, then closes the stream.
    pub(crate) fn close(&self) {
        self.shared.state.lock().closed.get_or_insert_with(|| "closed locally".to_owned());
        self.shared.wake.notify_one();
    }
}

impl fmt::Debug for LineWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LineWriter")
    }
}

// === impl Shared ===

impl Shared {
    /// Writes without blocking, in the sender's task. Concurrent senders only queue until the stream is put back.
    fn write_at_once(&self, mut stream: Stream, mut batch: Vec<u8>) {
        let written = write_now(&mut stream, &batch);
        let mut state = self.state.lock();
        match written {
            WriteOutcome::All => batch.clear(),
            WriteOutcome::Unflushed => {
                state.unflushed = true;
                batch.clear();
            }
            WriteOutcome::Some(count) => drop(batch.drain(..count)),
        }
        batch.extend_from_slice(&state.bytes);
        state.bytes = batch;
        state.release(0);
        state.stream = Some(stream);
        let more = state.unflushed || !state.bytes.is_empty() || state.closed.is_some();
        drop(state);
        if more {
            self.wake.notify_one();
        }
    }

    /// Returns the next work of the writing task; `None` if the queue is empty or another write is in progress.
    fn next_work(&self) -> Option<Work> {
        let mut state = self.state.lock();
        let idle = state.bytes.is_empty() && !state.unflushed;
        if idle && state.closed.is_none() {
            return None;
        }
        let stream = state.stream.take()?;
        state.unflushed = false;
        state.writing = state.bytes.len();
        Some(if idle { Work::Close(stream) } else { Work::Write(stream, std::mem::take(&mut state.bytes)) })
    }

    fn put_back(&self, stream: Stream, mut batch: Vec<u8>) {
        let written = batch.len();
        batch.clear();
        let mut state = self.state.lock();
        state.writing = 0;
        state.release(written);
        if state.bytes.is_empty() && batch.capacity() <= KEPT_BUFFER {
            state.bytes = batch;
        }
        state.stream = Some(stream);
    }
}

impl WriteState {
    /// Releases the charge for written bytes, and all of it if nothing is queued.
    fn release(&mut self, written: usize) {
        let idle = self.bytes.is_empty() && self.writing == 0;
        self.charge.shrink(if idle { usize::MAX } else { written });
    }

    /// Drops the queue after an error.
    fn fail(&mut self, error: &io::Error) {
        self.closed = Some(error.to_string());
        (self.bytes, self.writing) = (Vec::new(), 0);
        self.release(0);
    }
}

/// Work of the writing task.
enum Work {
    Write(Stream, Vec<u8>),
    Close(Stream),
}

async fn write(shared: Arc<Shared>) -> io::Result<()> {
    loop {
        match shared.next_work() {
            Some(Work::Write(mut stream, batch)) => {
                let written = match stream.write_all(&batch).await {
                    Ok(()) => stream.flush().await,
                    Err(error) => Err(error),
                };
                if let Err(error) = written {
                    shared.state.lock().fail(&error);
                    return Err(error);
                }
                shared.put_back(stream, batch);
            }
            Some(Work::Close(mut stream)) => {
                // An error means that the peer closed first.
                let _closed = stream.shutdown().await;
                return Ok(());
            }
            None => shared.wake.notified().await,
        }
    }
}

/// Writes as much as the stream accepts at once. After an error the writing task writes again and gets the error.
fn write_now(stream: &mut Stream, batch: &[u8]) -> WriteOutcome {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(&mut *stream).poll_write(&mut context, batch) {
        Poll::Ready(Ok(count)) if count == batch.len() => match Pin::new(stream).poll_flush(&mut context) {
            Poll::Ready(Ok(())) => WriteOutcome::All,
            Poll::Ready(Err(_)) | Poll::Pending => WriteOutcome::Unflushed,
        },
        Poll::Ready(Ok(count)) => WriteOutcome::Some(count),
        Poll::Ready(Err(_)) | Poll::Pending => WriteOutcome::Some(0),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::{Just, any, prop, prop_oneof, proptest};
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

    use super::{FramedLine, LineReader, LineWriter};
    use crate::{
        budget::{Exhausted, MemoryBudget, OverBudget},
        error::WireError,
        property,
    };

    async fn lines(stream: impl AsyncRead + Unpin, limit: usize) -> Vec<String> {
        let mut reader = LineReader::new(stream, limit);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            lines.push(match line {
                FramedLine::Message(text) => String::from_utf8_lossy(&text).into_owned(),
                FramedLine::TooLong(skimmed) => format!("too long, id {:?}", skimmed.id),
            });
        }
        lines
    }

    #[tokio::test]
    async fn each_line_is_a_message_for_any_line_ending() {
        assert_eq!(lines(&b"{\"a\":1}\r\n\n  \n{}\nrest"[..], 100).await, ["{\"a\":1}", "{}", "rest"]);
    }

    #[tokio::test]
    async fn line_over_the_limit_is_skipped_and_its_id_reported() {
        let long = format!("{{\"result\":\"{}\",\"id\":7}}\n{{}}\n", "x".repeat(500_000));
        assert_eq!(lines(long.as_bytes(), 100).await, ["too long, id Some(7)", "{}"]);
        assert_eq!(lines(&[b'x'; 1_000][..], 100).await, ["too long, id None"]);
        // The same for a line received in one read.
        assert_eq!(lines(&b"{\"result\":\"xxxxxxxxxx\",\"id\":7}\n{}"[..], 20).await, ["too long, id Some(7)", "{}"]);
    }

    #[tokio::test]
    async fn line_without_end_is_an_error() {
        let mut reader = LineReader::new(tokio::io::repeat(b'x'), 100_000);
        let error = reader.next().await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        assert_eq!(error.to_string(), "more than 800000 bytes without a line break");
    }

    #[tokio::test]
    async fn messages_arrive_in_order_on_one_line_each() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let (writer, work) = LineWriter::new(ours, 1_000, MemoryBudget::default());
        writer.send(Bytes::from_static(b"{\"a\":\n1}")).unwrap();
        writer.send(Bytes::from_static(b"{}")).unwrap();
        assert!(writer.send(Bytes::from(vec![b'x'; 2_000])).is_err());
        writer.close();
        assert!(writer.send(Bytes::from_static(b"{}")).is_err());
        let mut text = String::new();
        let (written, read) = tokio::join!(work, theirs.read_to_string(&mut text));
        written.unwrap();
        read.unwrap();
        assert_eq!(text, "{\"a\": 1}\n{}\n");
    }

    #[tokio::test]
    async fn messages_for_a_slow_peer_are_charged_until_they_are_written() {
        let memory = MemoryBudget::new(1_000_000);
        let (ours, mut theirs) = tokio::io::duplex(64);
        let (writer, work) = LineWriter::new(ours, 10_000_000, memory.of_server("slow"));
        let message = Bytes::from(vec![b'x'; 200_000]);
        writer.send(message.clone()).unwrap();
        writer.send(message.clone()).unwrap();
        assert_eq!(memory.used(), 400_002);
        let refused = writer.send(message).unwrap_err();
        assert!(matches!(refused, WireError::OverBudget(OverBudget(Exhausted::Server))), "{refused}");
        writer.close();
        let mut text = Vec::new();
        let (written, read) = tokio::join!(work, theirs.read_to_end(&mut text));
        written.unwrap();
        read.unwrap();
        assert_eq!((text.len(), memory.used()), (400_002, 0));
    }

    #[tokio::test]
    async fn small_messages_have_a_bounded_reserve_beyond_limit_and_budget() {
        for (limit, memory) in [(10_000_000, MemoryBudget::new(400_002)), (200_000, MemoryBudget::default())] {
            let (ours, mut theirs) = tokio::io::duplex(64);
            let (writer, work) = LineWriter::new(ours, limit, memory.of_server("slow"));
            let message = |length| Bytes::from(vec![b'x'; length]);
            writer.send(message(200_000)).unwrap();
            assert!(writer.send(message(1_000)).is_err());
            let small = (0..1_000).take_while(|_| writer.send_small(message(1_000)).is_ok()).count();
            assert_eq!(small, super::AT_ONCE / 1_001, "{limit}");
            writer.close();
            let mut text = Vec::new();
            let (written, read) = tokio::join!(work, theirs.read_to_end(&mut text));
            written.unwrap();
            read.unwrap();
            assert_eq!((text.len(), memory.used()), (200_001 + small * 1_001, 0));
        }
    }

    #[tokio::test]
    async fn messages_the_stream_does_not_accept_at_once_follow_in_order() {
        let (ours, mut theirs) = tokio::io::duplex(7);
        let (writer, work) = LineWriter::new(ours, 1_000_000, MemoryBudget::default());
        let mut expected = String::new();
        let sending = async {
            for number in 0..200 {
                let message = format!("{{\"number\":{number},\"text\":\"{}\"}}", "x".repeat(number % 23));
                expected += &format!("{message}\n");
                writer.send(message.into()).unwrap();
                if number % 7 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            writer.close();
        };
        let mut text = String::new();
        let (written, read, ()) = tokio::join!(work, theirs.read_to_string(&mut text), sending);
        written.unwrap();
        read.unwrap();
        assert_eq!(text, expected);
    }

    #[tokio::test]
    async fn broken_stream_is_reported_and_closes_the_writer() {
        let (ours, theirs) = tokio::io::duplex(64);
        drop(theirs);
        let (writer, work) = LineWriter::new(ours, 1_000, MemoryBudget::default());
        writer.send(Bytes::from_static(b"{}")).unwrap();
        assert_eq!(work.await.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
        assert!(writer.send(Bytes::from_static(b"{}")).is_err());
    }

    /// Reads the lines of `bytes`, which arrive in pieces of `size` bytes.
    async fn lines_cut(bytes: &[u8], size: usize, limit: usize) -> Vec<String> {
        let (reading, mut writing) = tokio::io::duplex(size);
        let write = async {
            writing.write_all(bytes).await.unwrap();
            drop(writing);
        };
        tokio::join!(lines(reading, limit), write).0
    }

    #[tokio::test]
    async fn line_at_the_limit_is_treated_alike_for_any_piece_size() {
        let stream = b"{\"id\":7}\r\n   {}\r\n{\"id\":8}\n          \n{}";
        for limit in 1..12 {
            let whole = lines(&stream[..], limit).await;
            for size in 1..20 {
                assert_eq!(lines_cut(stream, size, limit).await, whole, "limit {limit}, cut to {size}");
            }
        }
    }

    proptest! {
        #![proptest_config(property::cases())]
        #[test]
        fn lines_do_not_depend_on_the_piece_size(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..300),
            size in 1..300_usize,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let whole = runtime.block_on(lines(&bytes[..], 50));
            assert_eq!(runtime.block_on(lines_cut(&bytes, size, 50)), whole);
            assert!(whole.iter().all(|line| !line.is_empty() && !line.contains('\n')));
        }
    }
}
