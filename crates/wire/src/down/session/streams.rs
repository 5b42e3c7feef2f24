//! Streams of one session that a client can resume after it lost its connection.
//!
//! A stream can be resumed from its first event on. A finished stream is kept until its reader has received all of it,
//! a small one a little longer, because what was written to a connection may not have arrived.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    budget::MemoryBudget,
    down::stream::{SessionStream, StreamLimits, StreamWriter},
    limit,
};

#[derive(Debug)]
pub(in crate::down) struct SessionStreams {
    limits: StreamLimits,
    memory: MemoryBudget,
    next: u64,
    /// Resumable streams, oldest first.
    known: VecDeque<Arc<SessionStream>>,
}

impl SessionStreams {
    /// No streams except the standing one.
    pub(super) fn new(limits: StreamLimits, memory: MemoryBudget) -> Self {
        Self { limits, memory, next: 1, known: VecDeque::new() }
    }

    /// Creates a stream that cannot be resumed yet.
    pub(in crate::down) fn begin(&mut self) -> (Arc<SessionStream>, StreamWriter) {
        let name = self.next;
        self.next += 1;
        SessionStream::new(name, self.limits, self.memory.clone())
    }

    /// Makes a stream resumable and evicts the oldest finished ones over the limit.
    pub(in crate::down) fn announce(&mut self, stream: &Arc<SessionStream>) {
        self.known.push_back(Arc::clone(stream));
        while limit::KEPT_STREAMS < self.finished().count()
            || limit::KEPT_STREAM_BYTES < self.finished().map(|one| one.bytes()).sum()
        {
            let Some(oldest) = self.finished().next().map(|one| one.name) else { break };
            self.forget(oldest);
        }
    }

    /// Forgets the oldest finished stream without a reader; returns whether there was one.
    pub(super) fn forget_oldest(&mut self) -> bool {
        let oldest = self.finished().next().map(|one| one.name);
        oldest.inspect(|oldest| self.forget(*oldest)).is_some()
    }

    /// The stream with this name, if it is still kept.
    pub(in crate::down) fn find(&self, name: u64) -> Option<Arc<SessionStream>> {
        self.known.iter().find(|stream| stream.name == name).map(Arc::clone)
    }

    /// Its reader has received all of it: forgets it if it is large.
    pub(in crate::down) fn finished_reading(&mut self, stream: &SessionStream) {
        if limit::TAKEN_STREAM_BYTES < stream.bytes() {
            self.forget(stream.name);
        }
    }

    /// Whether one of them has a reader.
    pub(super) fn has_reader(&self) -> bool {
        self.known.iter().any(|stream| stream.has_reader())
    }

    fn finished(&self) -> impl Iterator<Item = &Arc<SessionStream>> {
        self.known.iter().filter(|stream| stream.is_finished() && !stream.has_reader())
    }

    fn forget(&mut self, name: u64) {
        self.known.retain(|stream| stream.name != name);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{MemoryBudget, SessionStreams};
    use crate::{
        down::{accent::OutgoingMessage, stream::StreamLimits},
        limit,
    };

    #[tokio::test]
    async fn finished_streams_are_kept_up_to_a_limit_and_open_ones_always() {
        let mut streams = SessionStreams::new(StreamLimits { events: 8, bytes: 1_000 }, MemoryBudget::default());
        let (open, _writer) = streams.begin();
        streams.announce(&open);
        for _ in 0..2 * limit::KEPT_STREAMS {
            let (stream, writer) = streams.begin();
            streams.announce(&stream);
            writer.send(OutgoingMessage::response(Bytes::from_static(b"{}"))).await;
        }
        assert!(streams.find(open.name).is_some(), "it is not finished");
        assert!(streams.find(2).is_none() && streams.find(2 * limit::KEPT_STREAMS as u64).is_some());
        assert!(streams.find(999_999).is_none());
    }

    #[tokio::test]
    async fn large_stream_is_forgotten_once_read() {
        let mut streams = SessionStreams::new(StreamLimits { events: 8, bytes: 1_000 }, MemoryBudget::default());
        for (size, kept) in [(10, true), (limit::TAKEN_STREAM_BYTES + 1, false)] {
            let (stream, writer) = streams.begin();
            streams.announce(&stream);
            writer.send(OutgoingMessage::response(Bytes::from(vec![b' '; size]))).await;
            drop(writer);
            streams.finished_reading(&stream);
            assert_eq!(streams.find(stream.name).is_some(), kept, "{size}");
        }
    }
}
