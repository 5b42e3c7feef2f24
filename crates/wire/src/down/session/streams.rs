//! The streams of one session that can be taken up again by whoever lost its connection.
//!
//! A stream is known from the moment its first event is shown. One that is over stays until its reader has had all of
//! it, and a small one a little longer, because what was handed to a connection may not have arrived.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    down::stream::{Bounds, Stream, Writer},
    limit,
};

#[derive(Debug)]
pub(in crate::down) struct Streams {
    bounds: Bounds,
    next: u64,
    /// Oldest first.
    known: VecDeque<Arc<Stream>>,
}

impl Streams {
    /// No stream yet but the standing one.
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { bounds, next: 1, known: VecDeque::new() }
    }

    /// A new stream, which nobody has seen yet.
    pub(in crate::down) fn begin(&mut self) -> (Arc<Stream>, Writer) {
        let name = self.next;
        self.next += 1;
        Stream::new(name, self.bounds)
    }

    /// It is shown: from now on it can be asked for.
    pub(in crate::down) fn announce(&mut self, stream: &Arc<Stream>) {
        self.known.push_back(Arc::clone(stream));
        while limit::KEPT_STREAMS < self.over().count()
            || limit::KEPT_STREAM_BYTES < self.over().map(|one| one.bytes()).sum()
        {
            let Some(oldest) = self.over().next().map(|one| one.name) else { break };
            self.forget(oldest);
        }
    }

    /// The stream of this name, if it is still there.
    pub(in crate::down) fn find(&self, name: u64) -> Option<Arc<Stream>> {
        self.known.iter().find(|stream| stream.name == name).map(Arc::clone)
    }

    /// Its reader has had all of it.
    pub(in crate::down) fn taken(&mut self, stream: &Stream) {
        if limit::TAKEN_STREAM_BYTES < stream.bytes() {
            self.forget(stream.name);
        }
    }

    /// Whether somebody reads one of them.
    pub(super) fn has_reader(&self) -> bool {
        self.known.iter().any(|stream| stream.has_reader())
    }

    fn over(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.known.iter().filter(|stream| stream.is_over() && !stream.has_reader())
    }

    fn forget(&mut self, name: u64) {
        self.known.retain(|stream| stream.name != name);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::Streams;
    use crate::{
        down::{accent::Said, stream::Bounds},
        limit,
    };

    #[tokio::test]
    async fn streams_that_are_over_are_kept_up_to_a_bound_and_open_ones_always() {
        let mut streams = Streams::new(Bounds { events: 8, bytes: 1_000 });
        let (open, _writer) = streams.begin();
        streams.announce(&open);
        for _ in 0..2 * limit::KEPT_STREAMS {
            let (stream, writer) = streams.begin();
            streams.announce(&stream);
            writer.say(Said::last(Bytes::from_static(b"{}"))).await;
        }
        assert!(streams.find(open.name).is_some(), "it is not over");
        assert!(streams.find(2).is_none() && streams.find(2 * limit::KEPT_STREAMS as u64).is_some());
        assert!(streams.find(999_999).is_none());
    }

    #[tokio::test]
    async fn a_large_one_goes_when_it_was_taken() {
        let mut streams = Streams::new(Bounds { events: 8, bytes: 1_000 });
        for (size, kept) in [(10, true), (limit::TAKEN_STREAM_BYTES + 1, false)] {
            let (stream, writer) = streams.begin();
            streams.announce(&stream);
            writer.say(Said::last(Bytes::from(vec![b' '; size]))).await;
            drop(writer);
            streams.taken(&stream);
            assert_eq!(streams.find(stream.name).is_some(), kept, "{size}");
        }
    }
}
