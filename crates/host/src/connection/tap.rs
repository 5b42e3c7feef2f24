//! A look at the wire: every message to and from one server, as it is sent and as it came.
//!
//! For `-v`, for a dry run, and for whoever wants to know what a server asked. A tap sees the text and changes
//! nothing; all it can do is keep a message back.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use toolway_wire::{
    error::WireError,
    message::Id,
    revision::Revision,
    up::transport::{Flow, Lane, LaneEnd, Link, Manner, Outbound, Shape, Sink, Transport},
};

/// Whoever looks at the wire. Its methods never wait.
pub trait Tap: Send + Sync {
    /// A message is about to be sent.
    fn outgoing(&self, outbound: &Outbound) -> Passage;

    /// A message came.
    fn incoming(&self, text: &Bytes);
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It is sent.
    Pass,
    /// It is kept back, and nobody will answer it.
    Hold,
}

/// A way to a server with a tap in it.
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

    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn open<'a>(&'a self, manner: Manner, sink: Arc<dyn Sink>) -> BoxFuture<'a, Result<Arc<dyn Link>, WireError>> {
        let sink = Arc::new(TappedSink { inner: sink, tap: Arc::clone(&self.tap) });
        Box::pin(async move {
            let inner = self.inner.open(manner, sink).await?;
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

    fn abandon(&self, request: u64) {
        self.inner.abandon(request);
    }

    fn begin(&self) {
        self.inner.begin();
    }

    fn resume(&self, session: &str, revision: Revision) -> bool {
        self.inner.resume(session, revision)
    }

    fn leave(&self) {
        self.inner.leave();
    }

    fn settle(&self, revision: Revision) {
        self.inner.settle(revision);
    }

    fn stand(&self) -> BoxFuture<'_, ()> {
        self.inner.stand()
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

    fn lane_ended(&self, request: u64, end: LaneEnd) {
        if let LaneEnd::Status { body, .. } = &end {
            self.tap.incoming(body);
        }
        self.inner.lane_ended(request, end);
    }

    fn fault(&self, error: WireError) {
        self.inner.fault(error);
    }

    fn session_lost(&self) {
        self.inner.session_lost();
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
