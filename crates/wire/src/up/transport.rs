//! The ways to a server, as a trait: how messages get there and how they come back.
//!
//! A [`Transport`] can be opened, and opened again. What it opens is a [`Link`]; everything the server says goes to
//! the [`Sink`] that was handed over, on the lane it came. An embedding program can bring its own; ours are in
//! [`super::stdio`], [`super::http`] and [`super::in_process`]. None of them knows an era: what differs is said in
//! a [`HttpMode`] and in the headers of an [`Outbound`].

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::{error::WireError, exchange::PendingIo, message::Id, revision::Revision};

/// A way to one server.
pub trait Transport: Send + Sync + fmt::Debug {
    /// The address or command, for messages.
    fn target(&self) -> String;

    /// Which shape this way has.
    fn link_kind(&self) -> LinkKind;

    /// Opens the way, or opens it again. A stream takes no notice of the manner.
    fn open<'a>(&'a self, manner: HttpMode, sink: Arc<dyn Sink>) -> BoxFuture<'a, Result<Arc<dyn Link>, WireError>>;
}

/// An open way.
pub trait Link: Send + Sync + fmt::Debug {
    /// Sends one message; never waits. Failures on the way are told to the sink.
    fn send(&self, outbound: Outbound) -> Result<(), WireError>;

    /// As [`Link::send`], for a request somebody waits for. What is left to be done may be given back, for whoever waits
    /// to do meanwhile: the request is out by then, and as long as nobody does the rest only its answer is late. Let go
    /// before it is done, it is given up as by [`Link::abandon`].
    fn start(&self, outbound: Outbound) -> Result<Option<PendingIo>, WireError> {
        self.send(outbound).map(|()| None)
    }

    /// Sends a message that is no request, and waits until the server has taken it.
    fn deliver(&self, outbound: Outbound) -> BoxFuture<'_, Result<(), WireError>> {
        let sent = self.send(outbound);
        Box::pin(async { sent })
    }

    /// The answer to this request is no longer wanted: stop reading its lane.
    fn abandon(&self, request: u64);

    /// A handshake begins: what an earlier one agreed on no longer holds.
    fn begin(&self) {}

    /// A session of an earlier connection goes on, without a handshake; false where there is no such thing.
    fn resume(&self, _session: &str, _revision: Revision) -> bool {
        false
    }

    /// The session is to go on without this link: closing does not give it back.
    fn leave(&self) {}

    /// The handshake chose this revision.
    fn set_revision(&self, revision: Revision);

    /// The handshake is over: open the stream for what belongs to no request, where there is such a thing, and wait
    /// until it is there. What a server says before that may be lost.
    fn open_standing_stream(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// The session the server opened for us, if any.
    fn session(&self) -> Option<String> {
        None
    }

    /// Whether the server has forgotten the session it opened for us, and no handshake has brought another.
    fn has_lost_session(&self) -> bool {
        false
    }

    /// Ends it: what is in line is still sent, the session is given back.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Takes what a server says. Its methods never wait.
pub trait Sink: Send + Sync {
    /// A message came.
    fn message(&self, lane: Lane, text: Bytes) -> Flow;

    /// A message was too long to keep; it answered this request.
    fn too_long(&self, lane: Lane, id: Option<Id>, limit: usize);

    /// A request's own lane ended.
    fn lane_ended(&self, request: u64, end: LaneEnd);

    /// The peer broke a rule that concerns no request.
    fn fault(&self, error: WireError);

    /// The server has forgotten the session, and it was no request that found out.
    fn session_lost(&self) {}

    /// The whole link is gone.
    fn closed(&self, why: WireError);
}

/// Streams carry both directions on one lane; HTTP gives each request its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// stdio, pipes, in process.
    Stream,
    /// HTTP of any kind.
    Http,
}

/// How a server wants to be spoken to over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMode {
    /// Each POST by itself; closing its stream cancels it.
    Stateless,
    /// A session with its id, a standing stream, streams that can be taken up again.
    Session,
    /// The two endpoints of 2024-11-05.
    EventStream,
}

/// Where a message came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The one lane of a stream.
    Shared,
    /// The answer to this request's POST.
    Of(u64),
    /// A stream that belongs to no request.
    Standing,
}

/// Whether to go on reading a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// More is expected.
    GoOn,
    /// The request it belongs to has its answer.
    Done,
}

/// How a request's lane ended without an answer.
#[derive(Clone, Debug)]
pub enum LaneEnd {
    /// The stream closed and cannot be taken up again.
    Over,
    /// The server took the message and will not answer (202, 204).
    Accepted,
    /// A status with a body that may hold an answer.
    Status {
        /// The status.
        status: StatusCode,
        /// The body, up to the bound.
        body: Bytes,
    },
    /// The session is unknown to the server; the request was not processed.
    SessionGone,
    /// Anything else.
    Failed(WireError),
}

/// One message on its way out.
#[derive(Clone)]
pub struct Outbound {
    /// The text.
    pub message: Bytes,
    /// The id, where the message is a request.
    pub request: Option<u64>,
    /// Headers that go with it over HTTP.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Outbound {
    /// A message without headers of its own.
    pub fn plain(message: Bytes, request: Option<u64>) -> Self {
        Self { message, request, headers: Vec::new() }
    }
}

/// Arguments are people's data; of a message only its size is shown.
impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound")
            .field("request", &self.request)
            .field("bytes", &self.message.len())
            .field("headers", &self.headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>())
            .finish()
    }
}
