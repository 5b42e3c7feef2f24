//! The last events, kept for streams that are slow or were interrupted. Streams read from here; nothing else is buffered.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::watch;
use toolway_wire::budget::{Charge, MemoryBudget};

use crate::marked;

/// Events that are kept.
pub(crate) const MAX_EVENTS: usize = 2_000;
/// Bytes of these events.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of one event; pages read everything again instead of getting a larger one.
const MAX_EVENT_BYTES: usize = MAX_BYTES * 3 / 4;
/// Bytes that a stream takes at a time, unless one event is larger; a stream that is not read keeps no more alive.
const MAX_TAKEN: usize = 256 * 1024;

/// The ring of events. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct EventRing {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Distinguishes the ids of this process from those of an earlier one.
    run: String,
    // Nothing awaits under this lock.
    kept: Mutex<Kept>,
    /// Number of the next event.
    next: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Bytes>,
    bytes: usize,
    /// Number of the next event.
    next: u64,
    /// Events before this one cannot be resumed from, although they may be kept.
    resumable_from: u64,
    /// Charge for the events.
    charge: Charge,
}

/// What a stream reads next.
enum Reading {
    Events(Vec<Bytes>, u64),
    Lost(u64),
    Nothing,
}

impl EventRing {
    pub(crate) fn new(run: String, memory: MemoryBudget) -> Self {
        let kept = Mutex::new(Kept { charge: Charge::empty(memory), ..Kept::default() });
        let shared = Shared { run, kept, next: watch::Sender::new(0) };
        Self { shared: Arc::new(shared) }
    }

    /// Adds an event of a kind.
    pub(crate) fn publish(&self, kind: &'static str, data: &impl Serialize) {
        let Ok(data) = serde_json::to_string(data).map(marked::outgoing) else { return };
        let (kind, data) = if data.len() <= MAX_EVENT_BYTES { (kind, data) } else { ("reset", "{}".to_owned()) };
        let mut kept = self.shared.kept.lock();
        let number = kept.next;
        let event = Bytes::from(format!("id: {}-{}\nevent: {kind}\ndata: {data}\n\n", self.shared.run, number + 1));
        kept.bytes += event.len();
        kept.events.push_back(event);
        kept.next = number + 1;
        while !kept.fits() {
            let dropped = kept.events.pop_front().map_or(0, |event| event.len());
            kept.bytes -= dropped;
        }
        drop(kept);
        self.shared.next.send_replace(number + 1);
    }

    /// Events may have been missed from here on: streams that resume from earlier get a `reset`.
    pub(crate) fn interrupt(&self) {
        let mut kept = self.shared.kept.lock();
        kept.resumable_from = kept.next + 1;
    }

    /// Encoded events from now on, or after the event `last` that a browser has seen. Begins with `reset` if events
    /// after `last` are lost.
    pub(crate) fn read(&self, last: Option<&str>) -> BoxStream<'static, Bytes> {
        let (mut opening, next) = (b"retry: 1000\n\n".to_vec(), self.shared.kept.lock().next);
        let start = match last {
            None => next,
            Some(last) => self.resume(last).unwrap_or_else(|| {
                opening.extend(self.reset(next));
                next
            }),
        };
        let changed = self.shared.next.subscribe();
        let opening = stream::iter([Bytes::from(opening)]);
        let rest = stream::unfold((self.clone(), changed, start), |(ring, mut changed, at)| async move {
            loop {
                changed.mark_unchanged();
                match ring.after(at) {
                    Reading::Events(events, next) => return Some((events, (ring, changed, next))),
                    Reading::Lost(next) => return Some((vec![ring.reset(next)], (ring, changed, next))),
                    Reading::Nothing => changed.changed().await.ok()?,
                }
            }
        });
        opening.chain(rest.flat_map(stream::iter)).boxed()
    }

    /// The number of the event after `last`, if all events since are kept.
    fn resume(&self, last: &str) -> Option<u64> {
        let (run, number) = last.rsplit_once('-')?;
        let number: u64 = number.parse().ok().filter(|_| run == self.shared.run)?;
        let kept = self.shared.kept.lock();
        (kept.first() <= number && kept.resumable_from <= number && number <= kept.next).then_some(number)
    }

    fn after(&self, at: u64) -> Reading {
        let kept = self.shared.kept.lock();
        if at == kept.next {
            return Reading::Nothing;
        }
        match at.checked_sub(kept.first()).and_then(|skip| usize::try_from(skip).ok()) {
            Some(skip) => {
                let mut taken = 0;
                let fits = |event: &&Bytes| {
                    taken += event.len();
                    taken == event.len() || taken <= MAX_TAKEN
                };
                let events: Vec<Bytes> = kept.events.iter().skip(skip).take_while(fits).cloned().collect();
                let next = at + events.len() as u64;
                Reading::Events(events, next)
            }
            None => Reading::Lost(kept.next),
        }
    }

    fn reset(&self, next: u64) -> Bytes {
        Bytes::from(format!("id: {}-{next}\nevent: reset\ndata: {{}}\n\n", self.shared.run))
    }
}

impl Kept {
    /// Whether the events are within their bounds and the byte budget. The newest one stays, whatever its size.
    fn fits(&mut self) -> bool {
        let bytes = self.bytes;
        self.events.len() <= 1
            || (self.events.len() <= MAX_EVENTS && bytes <= MAX_BYTES && self.charge.set(bytes).is_ok())
    }

    /// Number of the oldest event that is kept.
    fn first(&self) -> u64 {
        self.next - self.events.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::{FutureExt, StreamExt, stream::BoxStream};
    use serde_json::json;

    use super::{EventRing, MAX_BYTES, MAX_EVENTS, MAX_TAKEN, MemoryBudget, Reading};

    /// All events that can be read without waiting, without the opening.
    fn now(stream: &mut BoxStream<'static, Bytes>) -> Vec<String> {
        let mut read = Vec::new();
        while let Some(Some(event)) = stream.next().now_or_never() {
            read.push(String::from_utf8(event.to_vec()).unwrap());
        }
        read
    }

    #[test]
    fn stream_begins_now_and_resumes_after_the_last_event() {
        let ring = EventRing::new("r".to_owned(), MemoryBudget::default());
        ring.publish("call", &json!({ "n": 1 }));
        let mut stream = ring.read(None);
        assert_eq!(now(&mut stream), ["retry: 1000\n\n"]);
        ring.publish("call", &json!({ "n": 2 }));
        assert_eq!(now(&mut stream), ["id: r-2\nevent: call\ndata: {\"n\":2}\n\n"]);
        let resumed = now(&mut ring.read(Some("r-1")));
        assert!(resumed[0] == "retry: 1000\n\n" && resumed[1].contains("\"n\":2"), "{resumed:?}");
    }

    #[test]
    fn lost_events_and_foreign_ids_are_a_reset() {
        let ring = EventRing::new("r".to_owned(), MemoryBudget::default());
        let mut slow = ring.read(None);
        now(&mut slow);
        (0..=MAX_EVENTS).for_each(|n| ring.publish("call", &n));
        assert!(now(&mut slow)[0].contains("event: reset"));
        for last in ["r-0", "other-5", "nonsense", "r-99999", "r-x"] {
            assert!(now(&mut ring.read(Some(last)))[0].contains("event: reset"), "{last}");
        }
        ring.interrupt();
        assert!(now(&mut ring.read(Some("r-2001")))[0].contains("event: reset"));
    }

    #[test]
    fn kept_bytes_are_bounded() {
        let ring = EventRing::new("r".to_owned(), MemoryBudget::default());
        let large = "x".repeat(MAX_BYTES / 4);
        (0..8).for_each(|_| ring.publish("chat", &large));
        let kept = ring.shared.kept.lock();
        assert!(kept.bytes <= MAX_BYTES && kept.events.len() == 3, "{}", kept.events.len());
    }

    #[test]
    fn an_event_that_is_too_large_is_a_reset() {
        let ring = EventRing::new("r".to_owned(), MemoryBudget::default());
        let mut stream = ring.read(None);
        now(&mut stream);
        ring.publish("call", &1);
        ring.publish("chat", &"x".repeat(MAX_BYTES));
        assert_eq!(now(&mut stream)[1], "id: r-2\nevent: reset\ndata: {}\n\n");
        assert_eq!(ring.shared.kept.lock().events.len(), 2, "earlier events are kept");
    }

    #[test]
    fn a_stream_takes_few_events_at_a_time_and_gets_all_of_them() {
        let ring = EventRing::new("r".to_owned(), MemoryBudget::default());
        let mut stream = ring.read(None);
        now(&mut stream);
        let large = "x".repeat(MAX_TAKEN);
        (0..3).for_each(|_| ring.publish("chat", &large));
        (0..10).for_each(|n| ring.publish("call", &n));
        let Reading::Events(taken, next) = ring.after(0) else { panic!("events are there") };
        assert_eq!((taken.len(), next), (1, 1));
        let ids: Vec<String> = now(&mut stream).iter().map(|event| event.lines().next().unwrap().to_owned()).collect();
        assert_eq!(ids, (1..=13).map(|n| format!("id: r-{n}")).collect::<Vec<_>>());
    }
}
