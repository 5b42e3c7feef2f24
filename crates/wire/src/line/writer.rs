//! Sends one message per line, directly as far as the stream accepts it without blocking.
//!
//! Messages sent during a write are queued and written by a task; a long queue is charged to the byte budget. Sending never
//! waits.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

use super::KEPT_BUFFER;
use crate::{
    budget::{Charge, MemoryBudget},
    error::WireError,
    json,
};

/// Largest batch, in bytes, that `send` writes directly; pipes accept no more without blocking.
const AT_ONCE: usize = 64 * 1024;

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
    use tokio::io::AsyncReadExt;

    use super::LineWriter;
    use crate::{
        budget::{Exhausted, MemoryBudget, OverBudget},
        error::WireError,
    };

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
}
