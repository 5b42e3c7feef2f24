//! One stream of a session: what is said on it, in order, and what may have to be said again.
//!
//! Bounded in number and bytes. What its reader has had gives way first. A reader that is there but slow makes only its
//! own writers wait; without one nothing waits: the oldest notification gives way, and a notification that is waiting
//! already is not put there twice. Questions and answers are never dropped.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::accent::Said;

/// A stream.
#[derive(Debug)]
pub(super) struct Stream {
    /// Unique within its session.
    pub(super) name: u64,
    bounds: Bounds,
    // Nothing awaits under this lock.
    state: Mutex<State>,
}

/// How much of a stream is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) events: usize,
    pub(super) bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Oldest first.
    kept: VecDeque<Event>,
    /// The number of the next event.
    next: u64,
    /// From here on its reader has not had them.
    unread: u64,
    writers: usize,
    /// Who reads, by number; the newest is the one.
    reader: Option<u64>,
    readers: u64,
    /// Since when nobody reads.
    left: Option<Instant>,
    waiting_reader: Option<Waker>,
    waiting_writers: Vec<Waker>,
}

/// One thing said, and its number on the stream.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) number: u64,
    pub(super) said: Said,
}

/// Says things; with the last writer the stream ends.
#[derive(Debug)]
pub(super) struct Writer(Arc<Stream>);

/// Hears them; letting go of it leaves the stream to the next reader.
#[derive(Debug)]
pub(super) struct Reader {
    stream: Arc<Stream>,
    number: u64,
}

impl Stream {
    /// A stream and the first who writes on it.
    pub(super) fn new(name: u64, bounds: Bounds) -> (Arc<Self>, Writer) {
        let state = State { writers: 1, left: Some(Instant::now()), ..State::default() };
        let stream = Arc::new(Self { name, bounds, state: Mutex::new(state) });
        (Arc::clone(&stream), Writer(stream))
    }

    /// Reads on where the last reader stopped; none while there is one.
    pub(super) fn read(self: &Arc<Self>) -> Option<Reader> {
        let state = self.state.lock();
        let from = state.reader.is_none().then_some(state.unread)?;
        drop(state);
        Some(self.read_from(from))
    }

    /// Reads from this event on, or from the oldest that is kept; whoever reads now is sent away.
    pub(super) fn read_from(self: &Arc<Self>, number: u64) -> Reader {
        let mut state = self.state.lock();
        state.readers += 1;
        state.reader = Some(state.readers);
        state.left = None;
        state.unread = number.min(state.next);
        state.waiting_reader.take().into_iter().for_each(Waker::wake);
        Reader { stream: Arc::clone(self), number: state.readers }
    }

    /// Whether somebody reads.
    pub(super) fn has_reader(&self) -> bool {
        self.state.lock().reader.is_some()
    }

    /// Whether nothing more will be said.
    pub(super) fn is_over(&self) -> bool {
        self.state.lock().writers == 0
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.state.lock().bytes(0)
    }

    /// Whether the event before this one was ever said here.
    pub(super) fn knows(&self, number: u64) -> bool {
        number <= self.state.lock().next
    }
}

impl State {
    fn bytes(&self, from: u64) -> usize {
        self.kept.iter().filter(|event| from <= event.number).map(|event| event.said.message.len()).sum()
    }

    fn is_full(&self, bounds: Bounds, from: u64) -> bool {
        let events = self.kept.iter().filter(|event| from <= event.number).count();
        bounds.events <= events || bounds.bytes <= self.bytes(from)
    }

    fn is_over(&self, bounds: Bounds) -> bool {
        bounds.events < self.kept.len() || bounds.bytes < self.bytes(0)
    }

    /// What was read gives way, as far as the bounds ask for it; where nobody reads, old notifications do.
    fn trim(&mut self, bounds: Bounds) {
        while self.is_over(bounds) && self.kept.front().is_some_and(|event| event.number < self.unread) {
            self.kept.pop_front();
        }
        while self.reader.is_none() && self.is_over(bounds) {
            let oldest = self.kept.iter().position(|event| event.said.is_notification());
            if oldest.and_then(|oldest| self.kept.remove(oldest)).is_none() {
                break;
            }
        }
    }

    fn push(&mut self, said: Said, bounds: Bounds) {
        if self.reader.is_none() && said.is_notification() {
            let waiting = |event: &Event| self.unread <= event.number && event.said.message == said.message;
            if self.kept.iter().any(waiting) {
                return;
            }
        }
        self.kept.push_back(Event { number: self.next, said });
        self.next += 1;
        self.trim(bounds);
        self.waiting_reader.take().into_iter().for_each(Waker::wake);
    }
}

// === impl Writer ===

impl Writer {
    /// Says something as soon as there is room for it.
    pub(super) async fn say(&self, said: Said) {
        poll_fn(|context| self.poll_room(context)).await;
        self.0.state.lock().push(said, self.0.bounds);
    }

    /// Says something if there is room for it at once.
    pub(super) fn try_say(&self, said: Said) -> bool {
        let mut state = self.0.state.lock();
        let room = state.reader.is_none() || !state.is_full(self.0.bounds, state.unread);
        if room {
            state.push(said, self.0.bounds);
        }
        room
    }

    /// Resolves when nobody has read for so long.
    pub(super) async fn unheard(&self, time: Duration) {
        loop {
            let now = Instant::now();
            let left = self.0.state.lock().left;
            match left.unwrap_or(now) + time {
                over if over <= now => return,
                // A reader that leaves meanwhile is found out then.
                later => tokio::time::sleep_until(later).await,
            }
        }
    }

    fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.0.state.lock();
        if state.reader.is_none() || !state.is_full(self.0.bounds, state.unread) {
            return Poll::Ready(());
        }
        state.waiting_writers.push(context.waker().clone());
        Poll::Pending
    }
}

impl Clone for Writer {
    fn clone(&self) -> Self {
        self.0.state.lock().writers += 1;
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.writers -= 1;
        if state.writers == 0 {
            state.waiting_reader.take().into_iter().for_each(Waker::wake);
        }
    }
}

// === impl Reader ===

impl Reader {
    /// The stream it reads.
    pub(super) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// The number of the event it reads next.
    pub(super) fn position(&self) -> u64 {
        self.stream.state.lock().unread
    }

    /// The next event; none when the stream is over, or another reader has come.
    pub(super) fn poll_next(&self, context: &Context<'_>) -> Poll<Option<Event>> {
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
        state.trim(self.stream.bounds);
        state.waiting_writers.drain(..).for_each(Waker::wake);
        Poll::Ready(Some(event))
    }

    /// The next event, waited for.
    pub(super) async fn next(&self) -> Option<Event> {
        poll_fn(|context| self.poll_next(context)).await
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.stream.state.lock();
        if state.reader == Some(self.number) {
            state.reader = None;
            state.left = Some(Instant::now());
            state.waiting_writers.drain(..).for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use bytes::Bytes;

    use super::{Bounds, Reader, Stream};
    use crate::down::accent::Said;

    const BOUNDS: Bounds = Bounds { events: 3, bytes: 1_000 };

    fn note(text: &str) -> Said {
        Said::more(Bytes::from(format!(r#"{{"method":"{text}"}}"#)))
    }

    async fn read(reader: &Reader) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(10), reader.next()).await {
            numbers.push(event.number);
        }
        numbers
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_is_read_again_as_far_as_it_is_kept() {
        let (stream, writer) = Stream::new(1, BOUNDS);
        let reader = stream.read().unwrap();
        for text in ["a", "b", "c", "d", "e"] {
            writer.say(note(text)).await;
            assert_eq!(read(&reader).await.len(), 1);
        }
        assert!(stream.read().is_none(), "there is a reader");
        let again = stream.read_from(1);
        assert_eq!(read(&again).await, [2, 3, 4], "the rest is gone");
        assert!(reader.next().await.is_none(), "there is one reader");
        drop(writer);
        assert!(again.next().await.is_none() && stream.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_reader_old_notifications_give_way_and_answers_do_not() {
        let (stream, writer) = Stream::new(1, BOUNDS);
        writer.say(note("a")).await;
        writer.say(Said::last(Bytes::from("{}"))).await;
        for text in ["b", "b", "c", "d", "e"] {
            writer.say(note(text)).await;
        }
        assert_eq!(read(&stream.read().unwrap()).await, [1, 4, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_makes_its_writers_wait_and_one_that_leaves_lets_them_go() {
        let (stream, writer) = Stream::new(1, BOUNDS);
        let reader = stream.read().unwrap();
        for text in ["a", "b", "c"] {
            writer.say(note(text)).await;
        }
        assert!(!writer.try_say(note("d")));
        let waiting = tokio::time::timeout(Duration::from_secs(60), writer.say(note("d"))).await;
        assert!(waiting.is_err(), "there is no room");
        assert_eq!(reader.next().await.unwrap().number, 0);
        writer.say(note("d")).await;
        let say = writer.say(note("e"));
        drop(reader);
        say.await;
        assert_eq!(Arc::strong_count(&stream), 2, "the stream and its writer");
    }
}
