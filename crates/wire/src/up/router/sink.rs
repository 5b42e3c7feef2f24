//! Receives the messages of a link, parses them once and passes them to the router.
//!
//! Each link has its own sink, so that messages of an earlier link are ignored.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;

use super::{HandshakeReply, PendingRequest, Router};
use crate::{
    error::WireError,
    message::{BadMessage, Envelope, Id, Problem},
    notice::Notice,
    up::{
        handshake,
        transport::{Flow, Lane, LaneEnd, Sink},
    },
};

impl Sink for Router {
    fn message(&self, lane: Lane, text: Bytes) -> Flow {
        // Only a batch is parsed twice.
        let batch = Envelope::is_batch(&text).then(|| text.clone());
        let (bad, text) = match (Envelope::read(text, &self.limits), batch) {
            (Ok(envelope), _) => return self.dispatch(lane, envelope),
            (Err(bad), Some(text)) if bad.problem == Problem::Batch => (bad, text),
            (Err(bad), _) => return self.handle_bad_message(lane, bad),
        };
        let flows: Vec<Flow> = match Envelope::split_batch(&text, &self.limits) {
            Some(Ok(parts)) if self.accepts_batches() => {
                parts.into_iter().map(|part| self.message(lane, part)).collect()
            }
            Some(Ok(parts)) => parts.into_iter().filter_map(|part| self.handle_unexpected_batch(lane, part)).collect(),
            Some(Err(problem)) => return self.handle_bad_message(lane, BadMessage { problem, ..bad }),
            None => Vec::new(),
        };
        match (flows.is_empty(), flows.contains(&Flow::Done)) {
            (true, _) => self.handle_bad_message(lane, bad),
            (false, true) => Flow::Done,
            (false, false) => Flow::Continue,
        }
    }

    fn too_long(&self, lane: Lane, id: Option<Id>, limit: usize) {
        self.handle_bad_message(lane, BadMessage { problem: Problem::TooLarge { limit }, id, is_request: false });
    }

    fn on_lane_end(&self, request: u64, end: LaneEnd) {
        match self.forget(request) {
            Some(PendingRequest::Handshake(sender)) => drop(sender.send(HandshakeReply::Lane(end))),
            Some(PendingRequest::Call(call)) => call.on_lane_end(self, end),
            Some(PendingRequest::Listen(listen)) => listen.on_lane_end(end),
            None => {}
        }
    }

    fn fault(&self, error: WireError) {
        tracing::debug!(%error, "protocol violation by the server");
        drop(self.notices.send(Notice::Fault(error.cut())));
    }

    /// No request is pending that would renew the session, so it is renewed here for subscriptions.
    fn on_session_lost(&self) {
        let Some(router) = self.shared() else { return };
        self.spawn(async move {
            if let Err(error) = handshake::renew_session(&router).await {
                router.fault(error);
            }
        });
    }

    /// During the handshake another link may follow; after it, the connection has ended.
    fn closed(&self, why: WireError) {
        if self.accent.read().is_some() {
            return self.shut_down(why);
        }
        self.why_closed.lock().get_or_insert(why.clone());
        self.fail_everything(&why);
    }
}

/// Sink of one link; ignores messages after another link was opened.
pub(super) struct LinkSink {
    router: Arc<Router>,
    generation: u64,
}

impl LinkSink {
    /// Creates the sink of the link with this generation number.
    pub(super) fn new(router: Arc<Router>, generation: u64) -> Self {
        Self { router, generation }
    }

    fn current(&self) -> Option<&Router> {
        (self.router.generation.load(Ordering::Relaxed) == self.generation).then_some(&*self.router)
    }
}

impl Sink for LinkSink {
    fn message(&self, lane: Lane, text: Bytes) -> Flow {
        self.current().map_or(Flow::Done, |router| router.message(lane, text))
    }

    fn too_long(&self, lane: Lane, id: Option<Id>, limit: usize) {
        if let Some(router) = self.current() {
            router.too_long(lane, id, limit);
        }
    }

    fn on_lane_end(&self, request: u64, end: LaneEnd) {
        if let Some(router) = self.current() {
            router.on_lane_end(request, end);
        }
    }

    fn fault(&self, error: WireError) {
        if let Some(router) = self.current() {
            router.fault(error);
        }
    }

    fn on_session_lost(&self) {
        if let Some(router) = self.current() {
            router.on_session_lost();
        }
    }

    fn closed(&self, why: WireError) {
        if let Some(router) = self.current() {
            router.closed(why);
        }
    }
}
