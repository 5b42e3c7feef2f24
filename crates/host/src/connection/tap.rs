//! Observes the messages to and from one server, as sent and as received.
//!
//! Used by `-v`, dry runs and tests. A tap cannot change a message; it can only hold it back.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use toolway_wire::{
    error::WireError,
    message::Id,
    revision::Revision,
    up::transport::{Flow, HttpMode, Lane, LaneEnd, Link, LinkKind, Outbound, Sink, Transport},
};

/// Observes the messages of one connection. Its methods must not block.
pub trait Tap: Send + Sync {
    /// Called before a message is sent; decides whether it is.
    fn outgoing(&self, outbound: &Outbound) -> Passage;

    /// Called with each received message.
    fn incoming(&self, text: &Bytes);
}

/// Whether a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// The message is sent.
    Pass,
    /// The message is dropped, and gets no response.
    Hold,
}

/// A transport with a tap.
pub(super) struct Tapped {
    pub(super) inner: Arc<dyn Transport>,
    pub(super) tap: Arc<dyn Tap>,
}

struct TappedLink {
    inner: Arc<dyn Link>,
    tap: Arc<dyn Tap>,
}

struct TappedSink {
    inner: Arc<dyn Sink>,
    tap: Arc<dyn Tap>,
}

impl Transport for Tapped {
    fn target(&self) -> String {
        self.inner.target()
    }

    fn link_kind(&self) -> LinkKind {
        self.inner.link_kind()
    }

    fn open<'a>(&'a self, mode: HttpMode, sink: Arc<dyn Sink>) -> BoxFuture<'a, Result<Arc<dyn Link>, WireError>> {
        let sink = Arc::new(TappedSink { inner: sink, tap: Arc::clone(&self.tap) });
        Box::pin(async move {
            let inner = self.inner.open(mode, sink).await?;
            Ok(Arc::new(TappedLink { inner, tap: Arc::clone(&self.tap) }) as Arc<dyn Link>)
        })
    }
}

impl Link for TappedLink {
    fn send(&self, outbound: Outbound) -> Result<(), WireError> {
        match self.tap.outgoing(&outbound) {
            Passage::Pass => self.inner.send(outbound),
            Passage::Hold => Ok(()),
        }
    }

    fn deliver(&self, outbound: Outbound) -> BoxFuture<'_, Result<(), WireError>> {
        match self.tap.outgoing(&outbound) {
            Passage::Pass => self.inner.deliver(outbound),
            Passage::Hold => Box::pin(async { Ok(()) }),
        }
    }

    fn marks_writes(&self) -> bool {
        self.inner.marks_writes()
    }

    fn abandon(&self, request: u64) {
        self.inner.abandon(request);
    }

    fn begin_handshake(&self) {
        self.inner.begin_handshake();
    }

    fn resume(&self, session: &str, revision: Revision) -> bool {
        self.inner.resume(session, revision)
    }

    fn leave(&self) {
        self.inner.leave();
    }

    fn set_revision(&self, revision: Revision) {
        self.inner.set_revision(revision);
    }

    fn open_standing_stream(&self) -> BoxFuture<'_, ()> {
        self.inner.open_standing_stream()
    }

    fn session(&self) -> Option<String> {
        self.inner.session()
    }

    fn has_lost_session(&self) -> bool {
        self.inner.has_lost_session()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}

impl Sink for TappedSink {
    fn message(&self, lane: Lane, text: Bytes) -> Flow {
        self.tap.incoming(&text);
        self.inner.message(lane, text)
    }

    fn too_long(&self, lane: Lane, id: Option<Id>, limit: usize) {
        self.inner.too_long(lane, id, limit);
    }

    fn on_lane_end(&self, request: u64, end: LaneEnd) {
        if let LaneEnd::Status { body, .. } = &end {
            self.tap.incoming(body);
        }
        self.inner.on_lane_end(request, end);
    }

    fn fault(&self, error: WireError) {
        self.inner.fault(error);
    }

    fn on_session_lost(&self) {
        self.inner.on_session_lost();
    }

    fn closed(&self, why: WireError) {
        self.inner.closed(why);
    }
}

impl fmt::Debug for Tapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for TappedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
