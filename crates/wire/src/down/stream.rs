//! One stream of a session: its events in order, kept so that a client can read them again.
//!
//! Limited in number and bytes. Events that were read are dropped first. A slow reader makes only its own writers wait.
//! Without a reader nothing waits: the oldest notification is dropped, and a notification equal to a queued one is not
//! queued again. Requests and responses are never dropped.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::accent::OutgoingMessage;
use crate::budget::MemoryBudget;

/// One event stream with at most one reader.
#[derive(Debug)]
pub(super) struct SessionStream {
    /// Number of the stream, unique within its session.
    pub(super) name: u64,
    limits: StreamLimits,
    /// Charged for notifications that are not charged yet.
    memory: MemoryBudget,
    // Nothing awaits under this lock.
    state: Mutex<State>,
}

/// Maximum size of the kept part of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamLimits {
    pub(super) events: usize,
    pub(super) bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Kept events, oldest first.
    kept: VecDeque<StreamEvent>,
    /// Number of the next event.
    next: u64,
    /// Number of the first unread event.
    unread: u64,
    writers: usize,
    /// Number of the current reader; a new reader replaces it.
    reader: Option<u64>,
    readers: u64,
    /// Time since which there is no reader.
    reader_left: Option<Instant>,
    waiting_reader: Option<Waker>,
    waiting_writers: Vec<Waker>,
}

/// One message and its number on the stream.
#[derive(Clone, Debug)]
pub(super) struct StreamEvent {
    pub(super) number: u64,
    pub(super) message: OutgoingMessage,
}

/// Writes to a stream, which ends when the last writer is dropped.
#[derive(Debug)]
pub(super) struct StreamWriter(Arc<SessionStream>);

/// Reads a stream; when it is dropped, another reader can continue.
#[derive(Debug)]
pub(super) struct StreamReader {
    stream: Arc<SessionStream>,
    number: u64,
}

impl SessionStream {
    /// A stream and its first writer.
    pub(super) fn new(name: u64, limits: StreamLimits, memory: MemoryBudget) -> (Arc<Self>, StreamWriter) {
        let state = State { writers: 1, reader_left: Some(Instant::now()), ..State::default() };
        let stream = Arc::new(Self { name, limits, memory, state: Mutex::new(state) });
        (Arc::clone(&stream), StreamWriter(stream))
    }

    /// Reads on where the last reader stopped; `None` while there is a reader.
    pub(super) fn read(self: &Arc<Self>) -> Option<StreamReader> {
        let state = self.state.lock();
        let from = state.reader.is_none().then_some(state.unread)?;
        drop(state);
        Some(self.read_from(from))
    }

    /// Reads from this event on, or from the oldest kept one; replaces the current reader.
    pub(super) fn read_from(self: &Arc<Self>, number: u64) -> StreamReader {
        let mut state = self.state.lock();
        state.readers += 1;
        state.reader = Some(state.readers);
        state.reader_left = None;
        state.unread = number.min(state.next);
        state.waiting_reader.take().into_iter().for_each(Waker::wake);
        StreamReader { stream: Arc::clone(self), number: state.readers }
    }

    /// Whether there is a reader.
    pub(super) fn has_reader(&self) -> bool {
        self.state.lock().reader.is_some()
    }

    /// Whether all writers are gone.
    pub(super) fn is_finished(&self) -> bool {
        self.state.lock().writers == 0
    }

    /// Number of kept bytes.
    pub(super) fn bytes(&self) -> usize {
        self.state.lock().bytes(0)
    }

    /// Whether events up to this number exist.
    pub(super) fn knows(&self, number: u64) -> bool {
        number <= self.state.lock().next
    }
}

impl State {
    fn bytes(&self, from: u64) -> usize {
        self.kept.iter().filter(|event| from <= event.number).map(|event| event.message.bytes.len()).sum()
    }

    fn is_full(&self, limits: StreamLimits, from: u64) -> bool {
        let events = self.kept.iter().filter(|event| from <= event.number).count();
        limits.events <= events || limits.bytes <= self.bytes(from)
    }

    fn exceeds(&self, limits: StreamLimits) -> bool {
        limits.events < self.kept.len() || limits.bytes < self.bytes(0)
    }

    /// Drops read events over the limits and, without a reader, the oldest notifications.
    fn trim(&mut self, limits: StreamLimits) {
        while self.exceeds(limits) && self.kept.front().is_some_and(|event| event.number < self.unread) {
            self.kept.pop_front();
        }
        while self.reader.is_none() && self.exceeds(limits) {
            let oldest = self.kept.iter().position(|event| event.message.is_notification());
            if oldest.and_then(|oldest| self.kept.remove(oldest)).is_none() {
                break;
            }
        }
    }

    fn push(&mut self, message: OutgoingMessage, limits: StreamLimits) {
        if self.reader.is_none() && message.is_notification() {
            let waiting = |event: &StreamEvent| self.unread <= event.number && event.message.bytes == message.bytes;
            if self.kept.iter().any(waiting) {
                return;
            }
        }
        self.kept.push_back(StreamEvent { number: self.next, message });
        self.next += 1;
        self.trim(limits);
        self.waiting_reader.take().into_iter().for_each(Waker::wake);
    }
}

// === impl StreamWriter ===

impl StreamWriter {
    /// Sends a message as soon as there is space.
    pub(super) async fn send(&self, message: OutgoingMessage) {
        poll_fn(|context| self.poll_space(context)).await;
        let Some(message) = self.charged(message) else { return };
        self.0.state.lock().push(message, self.0.limits);
    }

    /// Sends a message if there is space now.
    pub(super) fn try_send(&self, message: OutgoingMessage) -> bool {
        let Some(message) = self.charged(message) else { return false };
        let mut state = self.0.state.lock();
        let room = state.reader.is_none() || !state.is_full(self.0.limits, state.unread);
        if room {
            state.push(message, self.0.limits);
        }
        room
    }

    /// A message with its charge; `None` if it is a notification for which the byte budget has no space.
    fn charged(&self, message: OutgoingMessage) -> Option<OutgoingMessage> {
        if message.is_notification() { message.charged(&self.0.memory, None, || false) } else { Some(message) }
    }

    /// Resolves when there was no reader for this long.
    pub(super) async fn unread_for(&self, time: Duration) {
        loop {
            let now = Instant::now();
            let reader_left = self.0.state.lock().reader_left;
            match reader_left.unwrap_or(now) + time {
                over if over <= now => return,
                // A reader that leaves meanwhile is noticed then.
                later => tokio::time::sleep_until(later).await,
            }
        }
    }

    fn poll_space(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.0.state.lock();
        if state.reader.is_none() || !state.is_full(self.0.limits, state.unread) {
            return Poll::Ready(());
        }
        state.waiting_writers.push(context.waker().clone());
        Poll::Pending
    }
}

impl Clone for StreamWriter {
    fn clone(&self) -> Self {
        self.0.state.lock().writers += 1;
        Self(Arc::clone(&self.0))
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.writers -= 1;
        if state.writers == 0 {
            state.waiting_reader.take().into_iter().for_each(Waker::wake);
        }
    }
}

// === impl StreamReader ===

impl StreamReader {
    /// The stream being read.
    pub(super) fn stream(&self) -> &Arc<SessionStream> {
        &self.stream
    }

    /// Number of the next event to read.
    pub(super) fn position(&self) -> u64 {
        self.stream.state.lock().unread
    }

    /// The next event; `None` when the stream has ended or another reader has replaced this one.
    pub(super) fn poll_next(&self, context: &Context<'_>) -> Poll<Option<StreamEvent>> {
        let mut state = self.stream.state.lock();
        if state.reader != Some(self.number) {
            return Poll::Ready(None);
        }
        let index = state.kept.partition_point(|event| event.number < state.unread);
        let Some(event) = state.kept.get(index).cloned() else {
            if state.writers == 0 {
                return Poll::Ready(None);
            }
            state.waiting_reader = Some(context.waker().clone());
            return Poll::Pending;
        };
        state.unread = event.number + 1;
        state.trim(self.stream.limits);
        state.waiting_writers.drain(..).for_each(Waker::wake);
        Poll::Ready(Some(event))
    }

    /// Waits for the next event.
    pub(super) async fn next(&self) -> Option<StreamEvent> {
        poll_fn(|context| self.poll_next(context)).await
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut state = self.stream.state.lock();
        if state.reader == Some(self.number) {
            state.reader = None;
            state.reader_left = Some(Instant::now());
            state.waiting_writers.drain(..).for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use bytes::Bytes;

    use super::{MemoryBudget, SessionStream, StreamLimits, StreamReader};
    use crate::down::accent::OutgoingMessage;

    const LIMITS: StreamLimits = StreamLimits { events: 3, bytes: 1_000 };

    fn note(text: &str) -> OutgoingMessage {
        OutgoingMessage::notification(Bytes::from(format!(r#"{{"method":"{text}"}}"#)))
    }

    async fn read(reader: &StreamReader) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(10), reader.next()).await {
            numbers.push(event.number);
        }
        numbers
    }

    #[tokio::test(start_paused = true)]
    async fn kept_events_can_be_read_again() {
        let (stream, writer) = SessionStream::new(1, LIMITS, MemoryBudget::default());
        let reader = stream.read().unwrap();
        for text in ["a", "b", "c", "d", "e"] {
            writer.send(note(text)).await;
            assert_eq!(read(&reader).await.len(), 1);
        }
        assert!(stream.read().is_none(), "there is a reader");
        let again = stream.read_from(1);
        assert_eq!(read(&again).await, [2, 3, 4], "the rest is gone");
        assert!(reader.next().await.is_none(), "there is one reader");
        drop(writer);
        assert!(again.next().await.is_none() && stream.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_reader_old_notifications_are_dropped_and_responses_are_not() {
        let (stream, writer) = SessionStream::new(1, LIMITS, MemoryBudget::default());
        writer.send(note("a")).await;
        writer.send(OutgoingMessage::response(Bytes::from("{}"))).await;
        for text in ["b", "b", "c", "d", "e"] {
            writer.send(note(text)).await;
        }
        assert_eq!(read(&stream.read().unwrap()).await, [1, 4, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_reader_makes_writers_wait_until_it_leaves() {
        let (stream, writer) = SessionStream::new(1, LIMITS, MemoryBudget::default());
        let reader = stream.read().unwrap();
        for text in ["a", "b", "c"] {
            writer.send(note(text)).await;
        }
        assert!(!writer.try_send(note("d")));
        let waiting = tokio::time::timeout(Duration::from_secs(60), writer.send(note("d"))).await;
        assert!(waiting.is_err(), "there is no room");
        assert_eq!(reader.next().await.unwrap().number, 0);
        writer.send(note("d")).await;
        let sending = writer.send(note("e"));
        drop(reader);
        sending.await;
        assert_eq!(Arc::strong_count(&stream), 2, "the stream and its writer");
    }
}
